import { CATEGORIES } from "../override-schema.ts";
import type { Catalogue, Service } from "../types.ts";
import { type DocumentContext, exampleBody, exampleEnvelope, relayUrl, routeUrl, takesOwnBody } from "./context.ts";

/** Text of an operator within a line of Markdown. */
const oneLine = (text: string): string => text.replaceAll(/\s+/g, " ").trim();
const linkText = (text: string): string => oneLine(text).replaceAll("[", "(").replaceAll("]", ")");

function listed({ services }: Catalogue): readonly Service[] {
  return [...services.values()].filter(({ paid, free, isUnlisted }) => isUnlisted !== true && (paid || free));
}

function llmsLine(service: Service, context: DocumentContext): string {
  const free = service.free && service.paid ? ` Free relay: ${relayUrl(service, context)}` : "";
  const url = service.paid ? routeUrl(service, context) : relayUrl(service, context);
  const now = context.serves(service.id) ? " Serves now." : "";
  return `- [${linkText(service.name)}](${url}): ${oneLine(service.description)}${free}${now}`;
}

function exampleCall(service: Service, context: DocumentContext): string {
  const body = JSON.stringify(exampleBody(service)).replaceAll("'", "'\\''");
  return `curl -i ${routeUrl(service, context)} -H 'content-type: application/json' -d '${body}'`;
}

function howToBuy({ publicUrl }: DocumentContext, examples: readonly string[]): readonly string[] {
  return [
    "> Metered, read-only access to blockchain nodes, web search and other services. Each call is paid by itself with " +
      "x402 version 2: no account, no key. A failed call is not charged.",
    "",
    "How to buy a call:",
    "",
    `1. \`POST ${publicUrl}/v1/{service_id}\` with a JSON body. Networks take \`{"method", "params"}\`; the method may ` +
      'also be `GET <path>` where the service lists paths. Search takes `{"query", "max_results"}`; other services take ' +
      "the body that `/openapi.json` declares.",
    "2. The answer is 402. Its terms are in the `PAYMENT-REQUIRED` header (base64 of JSON) and in the body.",
    "3. Sign one option of `accepts` (EIP-3009 `transferWithAuthorization`), and send the identical request with the " +
      "`PAYMENT-SIGNATURE` header. Client libraries of x402 do this for you.",
    '4. The answer is 200: `{"portal": {provenance, serviceId, schemaCheck}, "data": …}`. The receipt is in the ' +
      "`PAYMENT-RESPONSE` header. If the connection breaks, send the same request with the same signature again: it is " +
      "charged once.",
    ...(examples.length === 0 ? [] : ["", "```", ...examples, "```"]),
    "",
    "Services marked with a free relay also answer JSON-RPC there without payment, within limits. Those that are marked " +
      "`Serves now` answer at the moment; a call of another one is refused with 503 and not charged.",
  ];
}

/** For a gateway that sells nothing. */
function howToRead({ publicUrl }: DocumentContext): readonly string[] {
  return [
    "> Access to blockchain nodes over JSON-RPC, free within limits: no account, no key, no payment.",
    "",
    `Send JSON-RPC 2.0, single or in a batch, to the address of a network below, or to \`POST ${publicUrl}/relay/{service_id}\`. ` +
      "Services that are marked `Serves now` answer at the moment.",
  ];
}

function saleDocuments({ publicUrl }: DocumentContext): readonly string[] {
  return [
    `- [openapi.json](${publicUrl}/openapi.json): OpenAPI 3.0.3 description of the paid routes`,
    `- [x402 resources](${publicUrl}/.well-known/x402): addresses of the paid routes`,
    `- [discovery](${publicUrl}/discovery/resources): the paid routes with their payment terms`,
    `- [discovery search](${publicUrl}/discovery/search?query=web+search): finds paid routes by words`,
  ];
}

/** `GET /llms.txt`: the service in words, for language models (llmstxt.org). */
export function llmsText(catalogue: Catalogue, context: DocumentContext): string {
  const { publicUrl } = context;
  const services = listed(catalogue);
  const sections = CATEGORIES.flatMap((category) => {
    const members = services.filter((service) => service.category === category);
    if (members.length === 0) return [];
    return [`## ${category}`, "", ...members.map((service) => llmsLine(service, context)), ""];
  });
  const examples = ["search", "evm"].flatMap((family) => {
    const found = services.find(({ families, paid }) => paid && families.some((name) => name === family));
    return found === undefined ? [] : [exampleCall(found, context)];
  });
  const isSold = services.some(({ paid }) => paid);
  return [
    "# Turnpike",
    "",
    ...(isSold ? howToBuy(context, examples) : howToRead(context)),
    "",
    "## Documents",
    "",
    `- [services.json](${publicUrl}/services.json): every service with ${isSold ? "price, " : ""}methods, and whether it answers now`,
    `- [llms-full.txt](${publicUrl}/llms-full.txt): this text with each route's methods, example request and answer`,
    ...(isSold ? saleDocuments(context) : []),
    "",
    ...sections,
  ].join("\n");
}

/** A route in full. Methods stand with the first service that has the same ones. */
function fullEntry(service: Service, context: DocumentContext, firstWith: Map<string, string>): readonly string[] {
  const names = [...service.operations.keys()];
  const key = names.join("\n");
  const same = firstWith.get(key);
  if (same === undefined) firstWith.set(key, service.id);
  const schema = service.operations.get("POST /")?.params;
  const methods = same === undefined ? names.map((name) => `\`${name}\``).join(", ") : `as those of \`${same}\` above`;
  return [
    `### ${oneLine(service.name)}`,
    "",
    oneLine(service.description),
    "",
    ...(service.paid ? [`- Route: \`POST ${routeUrl(service, context)}\`, ${service.price} USD a call`] : []),
    ...(service.free ? [`- Free relay: ${relayUrl(service, context)}`] : []),
    `- Largest body: ${service.maxBodyBytes} bytes`,
    takesOwnBody(service) ? `- Body, as JSON Schema: \`${JSON.stringify(schema ?? {})}\`` : `- Methods: ${methods}`,
    "",
    "```",
    `request: ${JSON.stringify(exampleBody(service))}`,
    `data of the answer: ${JSON.stringify(exampleEnvelope(service).data)}`,
    "```",
    "",
  ];
}

/** `GET /llms-full.txt`: `/llms.txt`'s services in full. */
export function llmsFullText(catalogue: Catalogue, context: DocumentContext): string {
  const firstWith = new Map<string, string>();
  const services = listed(catalogue);
  const sections = CATEGORIES.flatMap((category) => {
    const members = services.filter((service) => service.category === category);
    return members.length === 0
      ? []
      : [`## ${category}`, "", ...members.flatMap((service) => fullEntry(service, context, firstWith))];
  });
  return [
    "# Turnpike: every service",
    "",
    `> The services of ${context.publicUrl}/llms.txt with their methods, an example request and an example answer. That ` +
      "text says how to call them.",
    "",
    ...sections,
  ].join("\n");
}
