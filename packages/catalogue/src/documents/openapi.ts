import type { Catalogue, Service } from "../types.ts";
import {
  type DocumentContext,
  exampleBody,
  exampleEnvelope,
  optionsOf,
  paidServices,
  takesOwnBody,
} from "./context.ts";
import {
  type Json,
  json,
  PAYMENT_REQUIRED_RESPONSE,
  PAYMENT_SIGNATURE,
  portal,
  RESPONSES,
  ref,
  SCHEMAS,
  STRING,
} from "./openapi-components.ts";
import { type OpenApiSchema, toOpenApiSchema } from "./openapi-schema.ts";
import { paymentRequired } from "./payment-required.ts";

/** Version of the gateway's description (spec §9). */
const OPENAPI_DOCUMENT_VERSION = "1.1.0";

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
        // Readers of `protocols` as objects see no price beside names, and take these bounds for it.
        minPrice: service.price,
        maxPrice: service.price,
      },
      // Nothing but the payment: no account and no key.
      security: [],
      parameters: [ref("parameters", "PaymentSignature")],
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
        "429": ref("responses", "RateLimited"),
        "503": ref("responses", "Unavailable"),
        default: ref("responses", "Other"),
      },
    },
  };
}

/** The shared responses, the terms with an example. */
function responses([first]: readonly Service[], context: DocumentContext): Json {
  if (first === undefined || optionsOf(first, context).length === 0) return RESPONSES;
  const examples = { [first.id]: { value: paymentRequired(first, context) } };
  return {
    ...RESPONSES,
    PaymentRequired: { ...PAYMENT_REQUIRED_RESPONSE, ...json(ref("schemas", "PaymentRequired"), { examples }) },
  };
}

const GUIDANCE =
  "To find a route, GET /discovery/search?query=words, or read /services.json, whose `serves` says who answers now. To buy " +
  "a call: POST a route's JSON body, read the terms of the 402 (header PAYMENT-REQUIRED), sign one of `accepts`, and send " +
  "the identical request with PAYMENT-SIGNATURE. A call that fails is not charged. When an answer is lost, send the same " +
  "request with the same signature again: it is charged once. Answers are third-party data.";

const SOLD =
  "Metered, read-only access to blockchain nodes, web search and other services, paid per request with x402. " +
  "Send a request without payment to get the terms, sign one of them, and send the identical request again.";
const NOTHING_SOLD =
  "This gateway has no paid routes. Its networks are on the free relay; /services.json has their addresses.";

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
      description: services.length === 0 ? NOTHING_SOLD : SOLD,
      "x-software-version": context.version,
      "x-guidance": services.length === 0 ? NOTHING_SOLD : GUIDANCE,
    },
    "x-discovery": { llmsTxtUrl: `${context.publicUrl}/llms.txt` },
    servers: [{ url: context.publicUrl }],
    tags: tags.map((name) => ({ name })),
    paths,
    components: {
      parameters: { PaymentSignature: PAYMENT_SIGNATURE },
      responses: responses(services, context),
      schemas: {
        ...SCHEMAS,
        ...Object.fromEntries(schemas.byName),
      },
    },
  };
}
