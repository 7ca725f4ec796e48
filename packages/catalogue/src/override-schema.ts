import { FAMILY_IDS, type JsonSchema } from "./types.ts";

/** Every category of spec §2.1. */
export const CATEGORIES = [
  "web",
  "blockchain",
  "health",
  "compliance",
  "government",
  "finance",
  "research",
  "documents",
  "security",
  "ai",
] as const;

/** What a service's id may be: it is a path segment and a host label. */
export const SERVICE_ID_PATTERN = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";

const OPERATION_NAME = "^([A-Za-z][A-Za-z0-9_.]{0,127}|(GET|POST) /[A-Za-z0-9/_.{}~-]{0,255})$";
const JSON_SCHEMA = { type: ["object", "boolean"] };

const operation = {
  type: "object",
  required: ["name", "rpcType"],
  additionalProperties: false,
  properties: {
    name: { type: "string", pattern: OPERATION_NAME },
    rpcType: { type: "string", enum: ["json_rpc", "comet_bft", "rest", "websocket"] },
    description: { type: "string", maxLength: 512 },
    params: JSON_SCHEMA,
    result: JSON_SCHEMA,
    example: { type: "object" },
    filter: { type: "string", enum: ["create", "use"] },
    read: { type: "boolean" },
  },
};

const operations = { type: "array", maxItems: 1000, items: operation };

const members = {
  name: { type: "string", minLength: 1, maxLength: 64 },
  description: { type: "string", minLength: 1, maxLength: 500 },
  category: { type: "string", enum: CATEGORIES },
  tags: { type: "array", maxItems: 5, uniqueItems: true, items: { type: "string", pattern: "^[ -~]{1,32}$" } },
  price: { type: "string", pattern: "^(0|[1-9][0-9]{0,9})(\\.[0-9]{1,6})?$" },
  evmChainId: { type: "integer", minimum: 1 },
  chainId: { type: "string", minLength: 1, maxLength: 128 },
  network: { type: "string", enum: ["mainnet", "testnet"] },
  syncAllowanceBlocks: { type: "integer", minimum: 0 },
  paid: { type: "boolean" },
  free: { type: "boolean" },
  maxBodyBytes: { type: "integer", minimum: 1, maximum: 16_777_216 },
  iconUrl: { type: "string", pattern: "^https?://[^ ]{1,2000}$" },
  families: { type: "array", maxItems: 4, uniqueItems: true, items: { type: "string", enum: FAMILY_IDS } },
  operations,
};

/** JSON Schema of a `ServiceOverride`. */
export const serviceOverrideSchema = {
  type: "object",
  additionalProperties: false,
  properties: {
    ...members,
    addOperations: operations,
    removeOperations: { type: "array", maxItems: 1000, items: { type: "string" } },
    enabled: { type: "boolean" },
  },
} as const satisfies JsonSchema;

/** JSON Schema of a `ServiceDefinition`. */
export const serviceDefinitionSchema = {
  type: "object",
  additionalProperties: false,
  required: ["id", "name", "description", "category", "families"],
  properties: {
    id: { type: "string", pattern: SERVICE_ID_PATTERN },
    ...members,
  },
} as const satisfies JsonSchema;
