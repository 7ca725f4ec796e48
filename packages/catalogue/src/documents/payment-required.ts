import type { JsonSchema, Service } from "../types.ts";
import {
  type DocumentContext,
  exampleBody,
  exampleData,
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
/**
 * Deepest nesting of the terms: payers send them back, where `decodePaymentHeader` of `@turnpike/payment` takes as much
 * and no more.
 */
export const MAX_TERMS_DEPTH = 16;

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

/** What is said of a service. */
interface Shown {
  /** Schema of the request body. */
  readonly body: JsonSchema;
  /** Schema of the envelope. */
  readonly answer: JsonSchema;
  /** Undefined: the service's example request. */
  readonly request?: Readonly<Record<string, unknown>>;
  /** Undefined: the service's example answer. */
  readonly data?: Readonly<Record<string, unknown>>;
}

/** A schema without its examples. A property may be called `examples`. */
function withoutExamples(schema: unknown, isSchema = true): unknown {
  if (Array.isArray(schema)) return schema.map((item) => withoutExamples(item, isSchema));
  if (typeof schema !== "object" || schema === null) return schema;
  const kept = Object.entries(schema).filter(([key]) => !isSchema || key !== "examples");
  const isMap = (key: string): boolean => isSchema && ["properties", "patternProperties", "$defs"].includes(key);
  const isValue = (key: string): boolean => isSchema && ["const", "enum", "default"].includes(key);
  return Object.fromEntries(
    kept.map(([key, value]) => [key, isValue(key) ? value : withoutExamples(value, !isMap(key))]),
  );
}

/** Schema of the envelope around a route's own answer; indexers read an answer's schema from the example's. */
function answerSchema(service: Service): JsonSchema {
  const result = service.operations.get("POST /")?.result;
  if (typeof result !== "object" || exampleData(service) === undefined) return ANY_BODY;
  const data = withoutExamples(result);
  return { type: "object", properties: { portal: { type: "object" }, data }, required: ["portal", "data"] };
}

/**
 * What can be said of a service in its terms, most first. Payers send it back with every payment, so the schema of the
 * answer is never in it.
 */
function* forms(service: Service): Iterable<Shown> {
  const [body, answer] = [bodySchema(service), ANY_BODY];
  yield { body, answer };
  yield { body, answer, data: {} };
  yield { body: ANY_BODY, answer, data: {} };
}

/** Fits whatever the service is: what is said when nothing else does. */
const NOTHING: Shown = { body: ANY_BODY, answer: ANY_BODY, request: {}, data: {} };

function bazaar(service: Service, { body, answer, request, data }: Shown): BazaarExtension {
  return {
    info: {
      input: { type: "http", method: "POST", bodyType: "json", body: request ?? exampleBody(service) },
      output: { type: "json", example: exampleEnvelope(service, data) },
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
          properties: { type: { type: "string" }, example: answer },
          required: ["type"],
        },
      },
      required: ["input"],
    },
  };
}

/** The bazaar extension with the schema of the answer, for documents that no client sends back. */
export function bazaarInFull(service: Service): BazaarExtension {
  return bazaar(service, { body: bodySchema(service), answer: answerSchema(service) });
}

function headerBytes(terms: PaymentRequiredTerms): number {
  return Math.ceil(Buffer.byteLength(JSON.stringify(terms)) / 3) * 4;
}

/** True when a value has at most so many levels of objects and arrays. */
function isWithin(depth: number, value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((one) => isWithin(depth - 1, one));
}

/** True when servers and proxies take the terms in a header, and our own reader takes them back in a payment. */
function fits(terms: PaymentRequiredTerms): boolean {
  return headerBytes(terms) <= MAX_TERMS_HEADER_BYTES && isWithin(MAX_TERMS_DEPTH, terms);
}

/** A text of at most so many UTF-16 units, cut after a whole word. */
function shorten(text: string, most: number): string {
  if (text.length <= most) return text;
  const cut = text.slice(0, most - 1);
  const end = cut.lastIndexOf(" ");
  return `${(end > most / 2 ? cut.slice(0, end) : cut).toWellFormed().trimEnd()}…`;
}

/** The terms of a route's 402; `error` says why it is one. */
export function paymentRequired(
  service: Service,
  context: DocumentContext,
  error = "Payment required",
): PaymentRequiredTerms {
  const terms = (shown: Shown): PaymentRequiredTerms => ({
    x402Version: 2,
    error,
    resource: {
      url: routeUrl(service, context),
      description: shorten(service.description, MAX_DESCRIPTION_LENGTH),
      mimeType: "application/json",
      serviceName: serviceNameOf(service),
      tags: service.tags,
      iconUrl: iconUrl(service, context),
    },
    accepts: optionsOf(service, context),
    extensions: { bazaar: bazaar(service, shown) },
  });
  for (const shown of forms(service)) {
    const made = terms(shown);
    if (fits(made)) return made;
  }
  return terms(NOTHING);
}
