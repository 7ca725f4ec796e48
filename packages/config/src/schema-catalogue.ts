import { Type } from "typebox";
import { byService, entry, flag, oneOf, section, textOf, url } from "./keys.ts";

const JSON_SCHEMA = Type.Unsafe<Record<string, unknown> | boolean>({
  type: ["object", "boolean"],
  description: "A JSON Schema (draft 2020-12). No default: without one the value is not checked.",
});

const OPERATION = entry(
  {
    name: textOf(
      "Method (`eth_call`), or verb and path template (`GET /v1/things/{id}`). No default: it is what is sold.",
    ),
    rpcType: oneOf(
      ["json_rpc", "comet_bft", "rest", "websocket"],
      "How it is spoken to. No default: it chooses the upstream's URL.",
    ),
    description: Type.String({ maxLength: 512, default: "", description: "One sentence for buyers." }),
    params: Type.Optional(JSON_SCHEMA),
    result: Type.Optional(JSON_SCHEMA),
    filter: Type.Optional(
      oneOf(
        ["create", "use"],
        "Makes a filter, or uses one that another call made. No default: most calls do neither.",
      ),
    ),
    read: Type.Optional(
      Type.Boolean({
        description:
          "True says that it changes nothing. No default: a chain's operation that the catalogue does not know needs it.",
      }),
    ),
    example: Type.Optional(
      Type.Unsafe<Record<string, unknown>>({ type: "object", description: "Example of a request body. No default." }),
    ),
  },
  "One operation that is sold.",
);

const NAME = textOf("Name for people. No default.");
const DESCRIPTION = textOf("What it answers. No default.");
const CATEGORY = oneOf(
  ["web", "blockchain", "health", "compliance", "government", "finance", "research", "documents", "security", "ai"],
  "Category. No default.",
);
const FAMILIES = Type.Array(
  oneOf(
    ["evm", "cosmos", "solana", "near", "sui", "radix", "tron", "bitcoin", "beacon", "search", "http"],
    "How it is spoken to.",
  ),
  {
    maxItems: 4,
    description:
      "How it is spoken to. Empty: nothing is known, so that answers are checked for their form only, nothing is kept or asked twice, and each operation needs `read: true`. No default.",
  },
);

/** Keys that may be left out: of a service that exists, its value stays; a new one has the usual value. */
const OPTIONAL_KEYS = {
  tags: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 32 }), {
      maxItems: 5,
      description: "Tags. Left out: as it is, or the category.",
    }),
  ),
  price: Type.Optional(
    Type.String({
      pattern: "^(0|[1-9][0-9]{0,9})(\\.[0-9]{1,6})?$",
      description: "Price of a call in USD, quoted. Left out: as it is, or 0.005000.",
      "x-expected": 'a price with at most six places, quoted: "0.005000"',
    }),
  ),
  evmChainId: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: "EVM chain id. Left out: as it is, or none.",
    }),
  ),
  chainId: Type.Optional(textOf("Chain id of a network that is not EVM. Left out: as it is, or none.")),
  network: Type.Optional(oneOf(["mainnet", "testnet"], "Main or test network. Left out: as it is, or none.")),
  syncAllowanceBlocks: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 100_000,
      description: "Blocks that a supplier may lag behind. Left out: as it is, or 50.",
    }),
  ),
  paid: Type.Optional(Type.Boolean({ description: "Sold at /v1. Left out: as it is, or true." })),
  free: Type.Optional(Type.Boolean({ description: "On the free relay. Left out: as it is, or false." })),
  iconUrl: Type.Optional(url("Image of it. Left out: as it is, or one that the gateway serves.")),
  maxBodyBytes: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 16_777_216,
      description: "Largest request body, in bytes. Left out: as it is, or 1 MiB.",
    }),
  ),
  operations: Type.Optional(
    Type.Array(OPERATION, {
      maxItems: 1_000,
      description: "What is sold, all of it. Left out: as it is, or the family's usual reads.",
    }),
  ),
};

const OVERRIDE = entry(
  {
    name: Type.Optional(NAME),
    description: Type.Optional(DESCRIPTION),
    category: Type.Optional(CATEGORY),
    families: Type.Optional(FAMILIES),
    ...OPTIONAL_KEYS,
    addOperations: Type.Optional(
      Type.Array(OPERATION, { maxItems: 1_000, description: "Operations beside those that it has. Left out: none." }),
    ),
    removeOperations: Type.Optional(
      Type.Array(textOf("Name of an operation."), {
        maxItems: 1_000,
        description: "Operations to take off. Left out: none.",
      }),
    ),
    enabled: flag(true, "False takes the service off every list."),
  },
  "Changes to one service of the catalogue.",
);

const SERVICE = entry(
  { name: NAME, description: DESCRIPTION, category: CATEGORY, families: FAMILIES, ...OPTIONAL_KEYS },
  "A new service.",
);

/** What an operator changes of the catalogue. */
export const CATALOGUE = section(
  {
    overrides: byService(OVERRIDE, "Changes to services of the catalogue, by id."),
    services: byService(SERVICE, "New services, by id."),
  },
  "What is sold, beside the built-in catalogue.",
);
