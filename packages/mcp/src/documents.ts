import { AppError, type Clock, ForeignJsonReader, isAppError, isRecord } from "@turnpike/base";
import { SERVICE_ID } from "./arguments.ts";
import { oneLine } from "./fence.ts";

/** A service as `/services.json` lists it, with every text bounded. */
export interface ServiceFacts {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly category: string;
  readonly tags: readonly string[];
  /** US dollars for one call. */
  readonly priceUsd: string;
  /** Whether it answers now. */
  readonly servesNow: boolean;
  /** False for one that is only on the free relay. */
  readonly paid: boolean;
  readonly relayUrl: string | undefined;
  readonly maxBodyBytes: number | undefined;
  readonly example: unknown;
  /** Methods, and paths with their verb. */
  readonly operations: readonly string[];
}

/** Schemas of one service's route in `/openapi.json`, with references filled in. */
export interface RouteFacts {
  readonly request: unknown;
  readonly answer: unknown;
}

/** Most operations of a service that are read; a list as long as this may be cut. */
export const MAX_LISTED_OPERATIONS = 2_000;
const DOCUMENT_LIMITS = { maxBytes: 16 * 1_048_576, maxDepth: 64, maxValues: 1_000_000 } as const;
const MAX_SERVICES = 5_000;
const LIST_AGE_MS = 15_000;
const DESCRIPTION_AGE_MS = 300_000;
const REQUEST_TIMEOUT_MS = 20_000;
const MAX_REF_DEPTH = 12;
const MAX_NODES = 5_000;

const textOf = (value: unknown, most: number): string => (typeof value === "string" ? oneLine(value, most) : "");
const textsOf = (value: unknown, most: number, length: number): string[] =>
  Array.isArray(value)
    ? value.flatMap((one: unknown) => (typeof one === "string" ? [oneLine(one, length)] : [])).slice(0, most)
    : [];

function serviceOf(item: unknown): ServiceFacts[] {
  if (!isRecord(item) || typeof item.id !== "string" || !SERVICE_ID.test(item.id)) return [];
  const price = isRecord(item.price) ? textOf(item.price.amount, 40) : "";
  return [
    {
      id: item.id,
      name: textOf(item.name, 120) || item.id,
      description: textOf(item.description, 600),
      category: textOf(item.category, 60),
      tags: textsOf(item.tags, 20, 60),
      priceUsd: /^\d+(\.\d+)?$/.test(price) ? price : "unknown",
      servesNow: item.serves !== false,
      paid: item.paid !== false,
      relayUrl: typeof item.relayUrl === "string" ? oneLine(item.relayUrl, 300) : undefined,
      maxBodyBytes: typeof item.maxBodyBytes === "number" ? item.maxBodyBytes : undefined,
      example: item.example,
      operations: textsOf(item.methods, MAX_LISTED_OPERATIONS, 200),
    },
  ];
}

/** Fills in `$ref`s of a document, bounded in depth and number. */
function filledIn(root: unknown, value: unknown): unknown {
  let nodes = 0;
  const target = (pointer: string): unknown =>
    pointer
      .slice(2)
      .split("/")
      .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
      .reduce<unknown>((at, part) => (isRecord(at) && Object.hasOwn(at, part) ? at[part] : undefined), root);
  const walk = (at: unknown, depth: number): unknown => {
    nodes += 1;
    if (nodes > MAX_NODES || depth > 40) return "(left out: too large)";
    if (Array.isArray(at)) return at.map((one) => walk(one, depth + 1));
    if (!isRecord(at)) return at;
    if (typeof at.$ref === "string" && at.$ref.startsWith("#/")) {
      return depth > MAX_REF_DEPTH ? { description: at.$ref } : walk(target(at.$ref), depth + 1);
    }
    return Object.fromEntries(Object.entries(at).map(([key, inner]) => [key, walk(inner, depth + 1)]));
  };
  return walk(value, 0);
}

const member = (value: unknown, ...path: readonly string[]): unknown =>
  path.reduce<unknown>((at, key) => (isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined), value);

function routeOf(description: unknown, serviceId: string): RouteFacts | undefined {
  const post = member(description, "paths", `/v1/${serviceId}`, "post");
  if (!isRecord(post)) return undefined;
  const media = "application/json";
  const request = member(post, "requestBody", "content", media, "schema");
  const envelope = filledIn(description, member(post, "responses", "200", "content", media, "schema"));
  return { request: filledIn(description, request), answer: member(envelope, "properties", "data") };
}

/** The documents of a gateway, read over HTTP and kept for a short time. */
export class GatewayDocuments {
  readonly #gateway: string;
  readonly #fetch: typeof globalThis.fetch;
  readonly #clock: Clock;
  readonly #kept = new Map<string, { readonly atMs: number; readonly value: Promise<unknown> }>();

  /** `gateway` is its base URL, without a slash at its end. */
  constructor(
    opts: { readonly gateway: string },
    modules: { readonly clock: Clock; readonly fetch?: typeof globalThis.fetch },
  ) {
    this.#gateway = opts.gateway;
    this.#fetch = modules.fetch ?? globalThis.fetch;
    this.#clock = modules.clock;
  }

  /** @throws AppError GATEWAY_UNREACHABLE; NOT_FOUND when the gateway has no such list. */
  async services(signal?: AbortSignal): Promise<readonly ServiceFacts[]> {
    const list = await this.#document("/services.json", LIST_AGE_MS, signal);
    if (!Array.isArray(list)) {
      throw new AppError("NOT_FOUND", { message: "This gateway has no list of services at /services.json." });
    }
    return list.slice(0, MAX_SERVICES).flatMap(serviceOf);
  }

  /** Undefined when the description has no such route. @throws AppError GATEWAY_UNREACHABLE. */
  async route(serviceId: string, signal?: AbortSignal): Promise<RouteFacts | undefined> {
    return routeOf(await this.#document("/openapi.json", DESCRIPTION_AGE_MS, signal), serviceId);
  }

  /** One request at a time for each document. A caller that goes away does not end what others wait for. */
  async #document(path: string, maxAgeMs: number, signal: AbortSignal | undefined): Promise<unknown> {
    signal?.throwIfAborted();
    const now = this.#clock.monotonicMs();
    const kept = this.#kept.get(path);
    if (kept !== undefined && now - kept.atMs < maxAgeMs) return kept.value;
    const value = this.#read(path);
    this.#kept.set(path, { atMs: now, value });
    value.catch(() => {
      if (this.#kept.get(path)?.value === value) this.#kept.delete(path);
    });
    return value;
  }

  async #read(path: string): Promise<unknown> {
    try {
      const answer = await this.#fetch(`${this.#gateway}${path}`, {
        headers: { accept: "application/json" },
        redirect: "error",
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      });
      const reader = new ForeignJsonReader(DOCUMENT_LIMITS);
      for await (const part of answer.body ?? []) if (!reader.write(part)) break;
      if (answer.status === 404) return undefined;
      if (answer.status !== 200) {
        throw new AppError("GATEWAY_UNREACHABLE", { message: `The gateway answered ${answer.status} for ${path}.` });
      }
      const read = reader.end();
      if (read.ok) return read.value;
      if (read.fault === "size" || read.fault === "values") {
        throw new AppError("ANSWER_TOO_LARGE", { message: `The gateway's ${path} is too large to read.` });
      }
      throw new AppError("GATEWAY_UNREACHABLE", { message: `The gateway's ${path} is not JSON that can be read.` });
    } catch (cause) {
      if (isAppError(cause)) throw cause;
      throw new AppError("GATEWAY_UNREACHABLE", { message: `The gateway's ${path} cannot be read.`, cause });
    }
  }
}
