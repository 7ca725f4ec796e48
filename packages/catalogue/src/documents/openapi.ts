import { ERRORS } from "@turnpike/base";
import type { Catalogue, Service } from "../types.ts";
import { type DocumentContext, exampleBody, exampleEnvelope, paidServices, takesOwnBody } from "./context.ts";
import { type OpenApiSchema, toOpenApiSchema } from "./openapi-schema.ts";

/** Version of the gateway's description (spec §9). */
export const OPENAPI_DOCUMENT_VERSION = "1.1.0";

type Json = Readonly<Record<string, unknown>>;

const ref = (kind: string, name: string): Json => ({ $ref: `#/components/${kind}/${name}` });
const json = (schema: Json, more: Json = {}): Json => ({ content: { "application/json": { schema, ...more } } });

const STRING: Json = { type: "string" };
const ERROR_SCHEMA: Json = {
  type: "object",
  description: "Every error that is not a 402 or a 422.",
  required: ["code", "message", "requestId", "retryable"],
  properties: {
    code: { type: "string", enum: Object.keys(ERRORS) },
    message: STRING,
    requestId: STRING,
    retryable: { type: "boolean", description: "Whether the identical request may succeed later." },
  },
};

const PAYMENT_OPTION: Json = {
  type: "object",
  required: ["scheme", "network", "amount", "asset", "payTo", "maxTimeoutSeconds", "extra"],
  properties: {
    scheme: { type: "string", enum: ["exact"] },
    network: { type: "string", pattern: "^eip155:[0-9]+$" },
    amount: { type: "string", pattern: "^[0-9]+$", description: "In the asset's smallest unit." },
    asset: { type: "string", description: "Token contract." },
    payTo: STRING,
    maxTimeoutSeconds: { type: "integer" },
    extra: { type: "object", required: ["name", "version"], properties: { name: STRING, version: STRING } },
  },
};

const PAYMENT_REQUIRED: Json = {
  type: "object",
  description: "x402 version 2 payment terms; the same are in the PAYMENT-REQUIRED header.",
  required: ["x402Version", "error", "resource", "accepts", "extensions"],
  properties: {
    x402Version: { type: "integer", enum: [2] },
    error: STRING,
    resource: {
      type: "object",
      required: ["url", "description", "mimeType", "serviceName", "tags", "iconUrl"],
      properties: {
        url: STRING,
        description: STRING,
        mimeType: { type: "string", enum: ["application/json"] },
        serviceName: STRING,
        tags: { type: "array", items: STRING },
        iconUrl: STRING,
      },
    },
    accepts: { type: "array", minItems: 1, items: ref("schemas", "PaymentOption") },
    extensions: {
      type: "object",
      required: ["bazaar"],
      properties: {
        bazaar: {
          type: "object",
          required: ["info", "schema"],
          properties: { info: { type: "object" }, schema: { type: "object" } },
        },
      },
    },
  },
};

const JSON_RPC_RESPONSE: Json = {
  type: "object",
  description: "Exactly one of `result` and `error` is present.",
  required: ["jsonrpc", "id"],
  properties: {
    jsonrpc: { type: "string", enum: ["2.0"] },
    id: { nullable: true, anyOf: [STRING, { type: "number" }] },
    result: { description: "What the method returns." },
    error: {
      type: "object",
      required: ["code", "message"],
      properties: { code: { type: "integer" }, message: STRING, data: {} },
    },
  },
};

const VALIDATION_ERROR: Json = {
  type: "object",
  required: ["detail"],
  additionalProperties: false,
  properties: {
    detail: {
      type: "array",
      items: {
        type: "object",
        required: ["loc", "msg", "type"],
        properties: {
          loc: { type: "array", items: { anyOf: [STRING, { type: "integer" }] } },
          msg: STRING,
          type: STRING,
        },
      },
    },
  },
};

const portal = (data: Json): Json => ({
  type: "object",
  required: ["portal", "data"],
  properties: { portal: ref("schemas", "Portal"), data },
});

const PORTAL: Json = {
  type: "object",
  required: ["provenance", "serviceId", "schemaCheck"],
  properties: {
    provenance: { type: "string", enum: ["third-party-supplier"] },
    serviceId: STRING,
    schemaCheck: { type: "string", enum: ["passed", "undeclared", "unchecked"] },
  },
};

const retryAfter: Json = { "Retry-After": { schema: { type: "integer" }, description: "Seconds to wait." } };
const RESPONSES: Json = {
  MalformedRequest: {
    description: "The request or the payment header is malformed.",
    ...json(ref("schemas", "Error")),
  },
  PaymentRequired: {
    description: "Payment is required, or the payment was refused: `error` says why.",
    headers: {
      "PAYMENT-REQUIRED": { schema: STRING, description: "Standard base64 of the body." },
      "PAYMENT-RESPONSE": { schema: STRING, description: "Receipt of a settlement that has failed." },
    },
    ...json(ref("schemas", "PaymentRequired")),
  },
  Conflict: {
    description: "The payment or its identifier was used for another request.",
    ...json(ref("schemas", "Error")),
  },
  TooLarge: { description: "The body is too large.", ...json(ref("schemas", "Error")) },
  ValidationError: {
    description: "The query is not valid; nothing is charged.",
    ...json(ref("schemas", "ValidationError")),
  },
  Unavailable: {
    description: "The service is not currently available; nothing is charged.",
    headers: retryAfter,
    ...json(ref("schemas", "Error")),
  },
  Other: { description: "Any other error.", ...json(ref("schemas", "Error")) },
};

/** Body of a network's route: `{method, params}`. Paths are named in the text, as a filled-in path fits no enum. */
function callSchema(service: Service): OpenApiSchema {
  const names = [...service.operations.keys()];
  const methods = names.filter((name) => !name.includes(" "));
  const paths = names.filter((name) => name.includes(" "));
  const verbs = [...new Set(paths.map((path) => path.slice(0, path.indexOf(" "))))].sort();
  const pattern = `^(${verbs.join("|")}) /`;
  const forms = [
    ...(methods.length === 0 ? [] : [{ type: "string", enum: methods }]),
    ...(paths.length === 0 ? [] : [{ type: "string", pattern, description: `One of:\n${paths.join("\n")}` }]),
  ];
  const [only] = forms;
  return {
    type: "object",
    required: ["method"],
    properties: {
      method: forms.length === 1 && only !== undefined ? only : { anyOf: forms },
      params: {
        description: "As the method's own specification says.",
        anyOf: [{ type: "array", items: {} }, { type: "object" }],
      },
      jsonrpc: { type: "string", enum: ["2.0"] },
      id: { nullable: true, anyOf: [STRING, { type: "number" }] },
    },
  };
}

/** Collects schemas under short names, each once; a second schema of a name gets a number. */
class Schemas {
  readonly byName = new Map<string, Json>();
  readonly #nameByText = new Map<string, string>();

  add(name: string, schema: Json): Json {
    const text = JSON.stringify(schema);
    const known = this.#nameByText.get(text);
    if (known !== undefined) return ref("schemas", known);
    let free = name;
    for (let count = 2; this.byName.has(free); count += 1) free = `${name}${count}`;
    this.#nameByText.set(text, free);
    this.byName.set(free, schema);
    return ref("schemas", free);
  }
}

const pascal = (id: string): string =>
  id
    .split("-")
    .map((part) => part.slice(0, 1).toUpperCase() + part.slice(1))
    .join("");

function requestSchema(service: Service, schemas: Schemas): Json {
  const own = service.operations.get("POST /")?.params;
  return takesOwnBody(service)
    ? schemas.add(`${pascal(service.id)}Request`, toOpenApiSchema(own ?? { type: "object" }))
    : schemas.add(`${service.families.map(pascal).join("")}Call`, callSchema(service));
}

function dataSchema(service: Service, schemas: Schemas): Json {
  const own = service.operations.get("POST /");
  if (own !== undefined) {
    return own.result === undefined ? {} : schemas.add(`${pascal(service.id)}Answer`, toOpenApiSchema(own.result));
  }
  const kinds = new Set([...service.operations.values()].map(({ rpcType }) => rpcType));
  if (!kinds.has("rest")) return ref("schemas", "JsonRpcResponse");
  return kinds.size === 1 ? {} : { anyOf: [ref("schemas", "JsonRpcResponse"), { type: "object" }] };
}

function route(service: Service, schemas: Schemas): Json {
  const examples = { example: { value: exampleBody(service) } };
  return {
    post: {
      operationId: service.operationId,
      summary: service.name,
      description: service.description,
      tags: service.tags,
      "x-payment-info": {
        price: { mode: "fixed", currency: "USD", amount: service.price },
        protocols: ["x402"],
      },
      security: [{ x402: [] }],
      requestBody: { required: true, ...json(requestSchema(service, schemas), { examples }) },
      responses: {
        "200": {
          description: "The answer, in the envelope.",
          headers: { "PAYMENT-RESPONSE": { schema: STRING, description: "Receipt: standard base64 of JSON." } },
          ...json(portal(dataSchema(service, schemas)), { examples: { example: { value: exampleEnvelope(service) } } }),
        },
        "400": ref("responses", "MalformedRequest"),
        "402": ref("responses", "PaymentRequired"),
        "409": ref("responses", "Conflict"),
        "413": ref("responses", "TooLarge"),
        ...(service.families.includes("search") ? { "422": ref("responses", "ValidationError") } : {}),
        "503": ref("responses", "Unavailable"),
        default: ref("responses", "Other"),
      },
    },
  };
}

/** `GET /openapi.json`: OpenAPI 3.0.3, one path a paid service. */
export function openApiDocument(catalogue: Catalogue, context: DocumentContext): Json {
  const schemas = new Schemas();
  const services = paidServices(catalogue);
  const paths = Object.fromEntries(services.map((service) => [`/v1/${service.id}`, route(service, schemas)]));
  const tags = [...new Set(services.flatMap((service) => service.tags))];
  return {
    openapi: "3.0.3",
    info: {
      title: "Turnpike",
      version: OPENAPI_DOCUMENT_VERSION,
      description:
        "Metered, read-only access to blockchain nodes, web search and other services, paid per request with x402. " +
        "Send a request without payment to get the terms, sign one of them, and send the identical request again.",
      "x-software-version": context.version,
    },
    servers: [{ url: context.publicUrl }],
    tags: tags.map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        x402: {
          type: "apiKey",
          in: "header",
          name: "PAYMENT-SIGNATURE",
          description: "Standard base64 of an x402 version 2 payment payload.",
        },
      },
      responses: RESPONSES,
      schemas: {
        Error: ERROR_SCHEMA,
        PaymentRequired: PAYMENT_REQUIRED,
        PaymentOption: PAYMENT_OPTION,
        Portal: PORTAL,
        JsonRpcResponse: JSON_RPC_RESPONSE,
        ValidationError: VALIDATION_ERROR,
        ...Object.fromEntries(schemas.byName),
      },
    },
  };
}
