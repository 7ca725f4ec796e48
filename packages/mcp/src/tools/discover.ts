import type { McpServer } from "@modelcontextprotocol/server";
import { AppError } from "@turnpike/base";
import { z } from "zod";
import { SERVICE_ID } from "../arguments.ts";
import type { ServiceFacts } from "../documents.ts";
import { oneLine, visible } from "../fence.ts";
import { nearText } from "../listed.ts";
import type { McpServerModules } from "../types.ts";
import { addTool, textResult } from "./tool.ts";

/** Most characters of the schemas that `describe_service` shows. */
const MAX_SCHEMA_CHARACTERS = 24_000;
/** Most operations that `describe_service` names. */
const MAX_OPERATIONS = 300;

/** A `service_id` argument. */
export const serviceId = z
  .string()
  .regex(SERVICE_ID, "is no service id: lower-case letters, digits and hyphens")
  .describe("Id of the service, as search_services gives it: eth");

const SERVICE = z.object({
  id: z.string(),
  name: z.string(),
  description: z.string(),
  category: z.string(),
  price_usd: z.string().describe("US dollars for one call: call_service pays no more, unless it names max_price_usd"),
  answers_now: z.boolean(),
  paid: z.boolean().describe("false: it is only on the free relay"),
});

const shown = (service: ServiceFacts): z.output<typeof SERVICE> => ({
  id: service.id,
  name: service.name,
  description: oneLine(service.description, 300),
  category: service.category,
  price_usd: service.priceUsd,
  answers_now: service.servesNow,
  paid: service.paid,
});

const READS = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true };

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];

/** How well a word fits a text: whole words count more than beginnings, beginnings more than parts. */
function fit(word: string, text: string): number {
  const low = text.toLowerCase();
  if (!low.includes(word)) return 0;
  const words = wordsOf(low);
  if (words.includes(word)) return 1;
  if (words.some((one) => one.startsWith(word))) return 0.6;
  return word.length >= 4 ? 0.25 : 0;
}

function scoreOf(service: ServiceFacts, words: readonly string[]): number {
  let sum = 0;
  for (const word of words) {
    const best = Math.max(
      service.id === word ? 12 : 6 * fit(word, service.id),
      8 * fit(word, service.name),
      4 * Math.max(0, ...service.tags.map((tag) => fit(word, tag))),
      4 * fit(word, service.category),
      2 * fit(word, service.description),
      3 * Math.max(0, ...service.operations.map((name) => fit(word, name))),
    );
    sum += best;
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

function addSearchServices(server: McpServer, modules: McpServerModules): void {
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
    output: z.object({ services: z.array(SERVICE), found: z.number(), categories: z.array(z.string()) }),
    annotations: READS,
    async run({ query, category, limit }, signal) {
      const all = await modules.documents.services(signal);
      const found = rankServices(all, query, category);
      const services = found.slice(0, limit).map(shown);
      for (const { id, price_usd } of services) modules.session.shownPrices.set(id, price_usd);
      const categories = [...new Set(all.map((one) => one.category))].filter((one) => one !== "").slice(0, 50);
      const lines = services.map(
        (one) =>
          `- ${one.id}: ${one.name}. ${one.description} [${one.category}; ` +
          `${one.paid ? `${one.price_usd} USD a call` : "free relay only"}; ${one.answers_now ? "answers now" : "does not answer now"}]`,
      );
      const head =
        found.length === 0
          ? `No service fits. Categories: ${categories.join(", ")}.`
          : `${services.length} of ${found.length} services that fit, of ${all.length}. Names and descriptions are the gateway's words:`;
      return textResult([head, ...lines].join("\n"), { services, found: found.length, categories });
    },
  });
}

/** JSON that is shown as it is, or said to be too large. */
function bounded(value: unknown, most: number): unknown {
  const text = JSON.stringify(value ?? null);
  return text.length <= most ? value : `(left out: ${text.length} characters; see the gateway's /openapi.json)`;
}

function addDescribeService(server: McpServer, modules: McpServerModules): void {
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
        throw new AppError("METHOD_NOT_ALLOWED", {
          message: `${id} has no operation ${JSON.stringify(oneLine(operation, 80))}.${nearText(operation, operations)}`,
        });
      }
      const [only] = operations;
      const asked = operation ?? (operations.length === 1 ? only : undefined);
      const route = asked === undefined ? undefined : await modules.documents.route(id, signal);
      const half = MAX_SCHEMA_CHARACTERS / 2;
      const named = operations.slice(0, MAX_OPERATIONS);
      modules.session.shownPrices.set(id, service.priceUsd);
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
      const rest = operations.length - named.length;
      const more =
        asked === undefined && rest > 0 ? `\n${rest} more operations are left out; name one for its schemas.` : "";
      return textResult(`${visible(JSON.stringify(facts, null, 1))}${more}`, facts);
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
export function addDiscoveryTools(server: McpServer, modules: McpServerModules): void {
  addSearchServices(server, modules);
  addDescribeService(server, modules);
}
