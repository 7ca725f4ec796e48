import type { McpServer } from "@modelcontextprotocol/server";
import { AppError, QuotedError, visibleLine, visibleText } from "@turnpike/base";
import { z } from "zod";
import { SERVICE_ID } from "../arguments.ts";
import type { ServiceFacts } from "../documents.ts";
import { nearText } from "../listed.ts";
import { THIRD_PARTY_NOTICE, toolResult } from "../result.ts";
import type { ToolModules } from "../types.ts";
import { addTool } from "./tool.ts";

/** Maximum number of characters of the schemas that `describe_service` shows. */
const MAX_SCHEMA_CHARACTERS = 24_000;
/** Maximum number of operations that `describe_service` names. */
const MAX_OPERATIONS = 300;

/** A `service_id` argument. */
export const serviceId = z
  .string()
  .regex(SERVICE_ID, "is no service id: lower-case letters, digits and hyphens")
  .describe("Id of the service, as search_services gives it: eth");

const notice = z.string().describe("Names, descriptions, operations, examples and schemas are third-party data");

const SERVICE = z.object({
  id: z.string(),
  name: z.string(),
  description: z.string(),
  category: z.string(),
  price_usd: z
    .string()
    .describe(
      "US dollars for one call: call_service pays no more, unless it names max_price_usd. unknown: it needs a quote or max_price_usd",
    ),
  answers_now: z.boolean(),
  paid: z.boolean().describe("false: it is only on the free relay"),
});

const shown = (service: ServiceFacts): z.output<typeof SERVICE> => ({
  id: service.id,
  name: service.name,
  description: visibleLine(service.description, 300),
  category: service.category,
  price_usd: service.priceUsd ?? "unknown",
  answers_now: service.servesNow,
  paid: service.paid,
});

const READS = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true };

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];

/** A text that words are searched in. */
class SearchText {
  readonly #low: string;
  #words: ReadonlySet<string> | undefined;

  constructor(text: string) {
    this.#low = text.toLowerCase();
  }

  /** Score of a word: whole words count more than beginnings, beginnings more than parts. */
  fit(word: string): number {
    if (!this.#low.includes(word)) return 0;
    this.#words ??= new Set(wordsOf(this.#low));
    if (this.#words.has(word)) return 1;
    for (const one of this.#words) if (one.startsWith(word)) return 0.6;
    return word.length >= 4 ? 0.25 : 0;
  }
}

type SearchTexts = Readonly<Record<"id" | "name" | "tags" | "category" | "description" | "operations", SearchText>>;

/** Texts of the services of a list, made once for each version of it. */
const TEXTS = new WeakMap<ServiceFacts, SearchTexts>();

function textsOf(service: ServiceFacts): SearchTexts {
  const earlier = TEXTS.get(service);
  if (earlier !== undefined) return earlier;
  const texts = {
    id: new SearchText(service.id),
    name: new SearchText(service.name),
    tags: new SearchText(service.tags.join("\n")),
    category: new SearchText(service.category),
    description: new SearchText(service.description),
    operations: new SearchText(service.operations.join("\n")),
  };
  TEXTS.set(service, texts);
  return texts;
}

function scoreOf(service: ServiceFacts, words: readonly string[]): number {
  if (words.length === 0) return 0;
  const texts = textsOf(service);
  let sum = 0;
  for (const word of words) {
    sum += Math.max(
      service.id === word ? 12 : 6 * texts.id.fit(word),
      8 * texts.name.fit(word),
      4 * texts.tags.fit(word),
      4 * texts.category.fit(word),
      2 * texts.description.fit(word),
      3 * texts.operations.fit(word),
    );
  }
  return sum;
}

/** Services that fit, the best first; those that answer now come before those that do not. Without a query, all. */
function rankServices(
  services: readonly ServiceFacts[],
  query: string | undefined,
  category: string | undefined,
): readonly ServiceFacts[] {
  const wanted = category?.trim().toLowerCase();
  const kept = services.filter((one) => wanted === undefined || wanted === "" || one.category.toLowerCase() === wanted);
  const words = [...new Set(wordsOf(query ?? ""))].slice(0, 16);
  const scored = kept.map((service, at) => ({ service, at, score: scoreOf(service, words) }));
  const hits = words.length === 0 ? scored : scored.filter(({ score }) => score > 0);
  return hits
    .sort((a, b) => b.score - a.score || Number(b.service.servesNow) - Number(a.service.servesNow) || a.at - b.at)
    .map(({ service }) => service);
}

function addSearchServices(server: McpServer, modules: ToolModules): void {
  addTool(server, modules, {
    name: "search_services",
    title: "Search services",
    description:
      "Finds services that this gateway sells: web search, blockchain nodes, document tools and others. Costs nothing. " +
      "Use it first, to learn the id of a service; then describe_service for how to call it.",
    input: z.object({
      query: z.string().max(400).optional().describe("Words that describe what is wanted; left out: all services"),
      category: z.string().max(60).optional().describe("Only services of this category"),
      limit: z.number().int().min(1).max(50).default(10).describe("Most services to give; 10 by default"),
    }),
    output: z.object({ notice, services: z.array(SERVICE), found: z.number(), categories: z.array(z.string()) }),
    annotations: READS,
    async run({ query, category, limit }, signal) {
      const all = await modules.documents.services(signal);
      const found = rankServices(all, query, category);
      const services = found.slice(0, limit).map(shown);
      for (const { id, priceUsd } of found.slice(0, limit)) modules.session.showPrice(id, priceUsd);
      const categories = [...new Set(all.map((one) => one.category))].filter((one) => one !== "").slice(0, 50);
      const lines = services.map(
        (one) =>
          `- ${one.id}: ${one.name}. ${one.description} [${one.category}; ` +
          `${one.paid ? `${one.price_usd} USD a call` : "free relay only"}; ${one.answers_now ? "answers now" : "does not answer now"}]`,
      );
      const isNone = found.length === 0;
      return toolResult({
        own: isNone
          ? "No service fits. The gateway's categories:"
          : `${services.length} of ${found.length} services that fit, of ${all.length}, in the gateway's words:`,
        thirdParty: isNone ? categories.join(", ") : lines.join("\n"),
        structured: { notice: THIRD_PARTY_NOTICE, services, found: found.length, categories },
      });
    },
  });
}

/** JSON that is shown as it is, or said to be too large. */
function bounded(value: unknown, most: number): unknown {
  const text = visibleText(JSON.stringify(value ?? null));
  return text.length <= most ? value : `(left out: ${text.length} characters; see the gateway's /openapi.json)`;
}

function addDescribeService(server: McpServer, modules: ToolModules): void {
  addTool(server, modules, {
    name: "describe_service",
    title: "Describe a service",
    description:
      "Returns how one service is called: its operations, an example request, the price, and where it is free. Costs nothing. " +
      "Without `operation` it gives an index of the operations; with one, the schemas of the request and the answer.",
    input: z.object({
      service_id: serviceId,
      operation: z
        .string()
        .max(200)
        .optional()
        .describe("One of the operations that the index names: eth_getBalance, or GET /status"),
    }),
    output: z.object({
      notice,
      service: SERVICE,
      operations: z.array(z.string()),
      operation_count: z.number(),
      operation: z.string().optional(),
      example_request: z.unknown().optional(),
      request_schema: z.unknown().optional(),
      answer_schema: z.unknown().optional(),
      free_relay_url: z.string().optional(),
      max_body_bytes: z.number().optional(),
    }),
    annotations: READS,
    async run({ service_id: id, operation }, signal) {
      const service = (await modules.documents.services(signal)).find((one) => one.id === id);
      if (service === undefined) throw new AppError("UNKNOWN_SERVICE", { message: `No service has the id ${id}.` });
      const { operations } = service;
      if (operation !== undefined && !operations.includes(operation)) {
        const message = `${id} has no operation ${JSON.stringify(visibleLine(operation, 80))}.`;
        throw new QuotedError("METHOD_NOT_ALLOWED", message, nearText(operation, operations));
      }
      const [only] = operations;
      const asked = operation ?? (operations.length === 1 ? only : undefined);
      const route = asked === undefined ? undefined : await modules.documents.route(id, signal);
      const half = MAX_SCHEMA_CHARACTERS / 2;
      const named = operations.slice(0, MAX_OPERATIONS);
      modules.session.showPrice(id, service.priceUsd);
      const facts = {
        service: shown(service),
        operations: asked === undefined ? named : [asked],
        operation_count: operations.length,
        ...(asked === undefined ? {} : { operation: asked }),
        example_request: bounded(exampleFor(service, asked), 4_000),
        ...(route === undefined
          ? {}
          : {
              request_schema: bounded(requestOf(asked ?? "", route.request), half),
              answer_schema: bounded(route.answer ?? {}, half),
            }),
        ...(service.relayUrl === undefined ? {} : { free_relay_url: service.relayUrl }),
        ...(service.maxBodyBytes === undefined ? {} : { max_body_bytes: service.maxBodyBytes }),
      };
      const leftOut = operations.length - named.length;
      const more =
        asked === undefined && leftOut > 0 ? ` ${leftOut} more operations are left out; name one for its schemas.` : "";
      return toolResult({
        own: `The service ${id}, in the gateway's words.${more}`,
        thirdParty: JSON.stringify(facts),
        structured: { notice: THIRD_PARTY_NOTICE, ...facts },
      });
    },
  });
}

const isCall = (operation: string): boolean => operation !== "" && !operation.startsWith("POST /");

/** An example of the operation that is asked about, where the gateway's own example is of another one. */
function exampleFor(service: ServiceFacts, operation: string | undefined): unknown {
  const { example } = service;
  if (operation === undefined || !isCall(operation)) return example;
  const own = typeof example === "object" && example !== null && "method" in example && example.method === operation;
  if (own) return example;
  return { ...(service.paid ? {} : { jsonrpc: "2.0", id: 1 }), method: operation, params: [] };
}

/** The request's schema for one operation: of the many that the route takes, only this one is named. */
function requestOf(operation: string, schema: unknown): unknown {
  if (!isCall(operation) || typeof schema !== "object" || schema === null || !("properties" in schema)) return schema;
  const { properties } = schema;
  if (typeof properties !== "object" || properties === null || !("method" in properties)) return schema;
  return { ...schema, properties: { ...properties, method: { type: "string", enum: [operation] } } };
}

/** Adds the tools that search and describe services, which cost nothing. */
export function addDiscoveryTools(server: McpServer, modules: ToolModules): void {
  addSearchServices(server, modules);
  addDescribeService(server, modules);
}
