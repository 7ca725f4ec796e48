import type { JsonSchema, Service } from "../types.ts";
import {
  type DocumentContext,
  exampleBody,
  exampleEnvelope,
  iconUrl,
  optionsOf,
  type PaymentOptionLike,
  routeUrl,
  takesOwnBody,
} from "./context.ts";

/** Terms of a 402 (x402 v2 `PaymentRequired`, spec §2.2). */
export interface PaymentRequiredTerms {
  readonly x402Version: 2;
  readonly error: string;
  readonly resource: {
    readonly url: string;
    readonly description: string;
    readonly mimeType: "application/json";
    readonly serviceName: string;
    readonly tags: readonly string[];
    readonly iconUrl: string;
  };
  readonly accepts: readonly PaymentOptionLike[];
  readonly extensions: { readonly bazaar: BazaarExtension };
}

/** The bazaar extension: how the route is called, by example and by schema. */
export interface BazaarExtension {
  readonly info: Readonly<Record<string, unknown>>;
  readonly schema: Readonly<Record<string, unknown>>;
}

/** Largest PAYMENT-REQUIRED header in bytes: servers and proxies commonly take 8 KB for all headers together. */
export const MAX_TERMS_HEADER_BYTES = 4_096;

const MAX_NAME_LENGTH = 32;
const MAX_DESCRIPTION_LENGTH = 500;

/** x402 allows 1–32 printable ASCII characters. */
function serviceNameOf({ name, id }: Service): string {
  const ascii = name
    .normalize("NFKD")
    .replaceAll(/[^ -~]/g, "")
    .trim();
  return (ascii === "" ? id : ascii).slice(0, MAX_NAME_LENGTH).trim();
}

const ANY_BODY: JsonSchema = { type: "object" };
const METHOD_BODY: JsonSchema = {
  type: "object",
  properties: { method: { type: "string" }, params: {} },
  required: ["method"],
};

/** Schema of the request body, short enough for a header. */
function bodySchema(service: Service): JsonSchema {
  if (!takesOwnBody(service)) return METHOD_BODY;
  const schema = service.operations.get("POST /")?.params;
  return typeof schema === "object" && schema.type === "object" ? schema : ANY_BODY;
}

function bazaar(service: Service, body: JsonSchema): BazaarExtension {
  return {
    info: {
      input: { type: "http", method: "POST", bodyType: "json", body: exampleBody(service) },
      output: { type: "json", example: exampleEnvelope(service) },
    },
    schema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: {
        input: {
          type: "object",
          properties: {
            type: { type: "string", const: "http" },
            method: { type: "string", enum: ["POST", "PUT", "PATCH"] },
            bodyType: { type: "string", enum: ["json", "form-data", "text"] },
            body,
          },
          required: ["type", "method", "bodyType", "body"],
          additionalProperties: false,
        },
        output: {
          type: "object",
          properties: { type: { type: "string" }, example: { type: "object" } },
          required: ["type"],
        },
      },
      required: ["input"],
    },
  };
}

function headerBytes(terms: PaymentRequiredTerms): number {
  return Math.ceil(Buffer.byteLength(JSON.stringify(terms)) / 3) * 4;
}

/** The terms of a route's 402; `error` says why it is one. */
export function paymentRequired(
  service: Service,
  context: DocumentContext,
  error = "Payment required",
): PaymentRequiredTerms {
  const terms = (body: JsonSchema): PaymentRequiredTerms => ({
    x402Version: 2,
    error,
    resource: {
      url: routeUrl(service, context),
      description: service.description.slice(0, MAX_DESCRIPTION_LENGTH),
      mimeType: "application/json",
      serviceName: serviceNameOf(service),
      tags: service.tags,
      iconUrl: iconUrl(service, context),
    },
    accepts: optionsOf(service, context),
    extensions: { bazaar: bazaar(service, body) },
  });
  const full = terms(bodySchema(service));
  return headerBytes(full) <= MAX_TERMS_HEADER_BYTES ? full : terms(ANY_BODY);
}
