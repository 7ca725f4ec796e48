import { ERRORS, errorBody } from "@turnpike/base";

/** A part of an OpenAPI document. */
export type Json = Readonly<Record<string, unknown>>;

/** A reference to a component. */
export const ref = (kind: string, name: string): Json => ({ $ref: `#/components/${kind}/${name}` });
/** JSON content. */
export const json = (schema: Json, more: Json = {}): Json => ({ content: { "application/json": { schema, ...more } } });

export const STRING: Json = { type: "string" };
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

/** The envelope of spec §2.3. */
export const portal = (data: Json): Json => ({
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
const UNAVAILABLE: Json = errorBody("NO_SUPPLIERS", "6f1f3a52-9c1c-4a55-8a3f-2f6f1b1f0c11") as unknown as Json;

/** The 402. */
export const PAYMENT_REQUIRED_RESPONSE: Json = {
  description: "Payment is required, or the payment was refused: `error` says why.",
  headers: {
    "PAYMENT-REQUIRED": { schema: STRING, description: "Standard base64 of the body." },
    "PAYMENT-RESPONSE": { schema: STRING, description: "Receipt of a settlement that has failed." },
  },
  ...json(ref("schemas", "PaymentRequired")),
};

/** Responses that routes share. */
export const RESPONSES: Json = {
  MalformedRequest: {
    description: "The request or the payment header is malformed.",
    ...json(ref("schemas", "Error")),
  },
  PaymentRequired: PAYMENT_REQUIRED_RESPONSE,
  Conflict: {
    description: "The payment or its identifier was used for another request, or its response is not kept any more.",
    headers: { "PAYMENT-RESPONSE": { schema: STRING, description: "Receipt of the payment that is in the way." } },
    ...json(ref("schemas", "Error")),
  },
  TooLarge: { description: "The body is too large.", ...json(ref("schemas", "Error")) },
  ValidationError: {
    description: "The query is not valid; nothing is charged.",
    ...json(ref("schemas", "ValidationError"), {
      examples: {
        "no query": { value: { detail: [{ loc: ["body", "query"], msg: "Field required", type: "missing" }] } },
      },
    }),
  },
  RateLimited: {
    description:
      "Too many payments of this client or payer ended without paying. Wait, then send the same signature again.",
    headers: retryAfter,
    ...json(ref("schemas", "Error")),
  },
  Unavailable: {
    description: "The service is not currently available; nothing is charged.",
    headers: retryAfter,
    ...json(ref("schemas", "Error"), { examples: { "not served now": { value: UNAVAILABLE } } }),
  },
  Other: { description: "Any other error.", ...json(ref("schemas", "Error")) },
};

/** The schemas that do not depend on the catalogue. */
export const SCHEMAS: Json = {
  Error: ERROR_SCHEMA,
  PaymentRequired: PAYMENT_REQUIRED,
  PaymentOption: PAYMENT_OPTION,
  Portal: PORTAL,
  JsonRpcResponse: JSON_RPC_RESPONSE,
  ValidationError: VALIDATION_ERROR,
};

/**
 * The header that pays. It is a parameter and no security scheme: readers of schemes take a key in a header for an API
 * key, and there is none.
 */
export const PAYMENT_SIGNATURE: Json = {
  name: "PAYMENT-SIGNATURE",
  in: "header",
  required: false,
  description:
    "Standard base64 of an x402 version 2 payment payload. Absent on the first request, which is answered with the terms.",
  schema: STRING,
};
