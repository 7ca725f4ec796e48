import { createHash } from "node:crypto";
import {
  ACCEPT_GZIP,
  AppError,
  type Clock,
  type ForeignJson,
  ForeignJsonReader,
  hasOneCoding,
  isAppError,
  isRecord,
  visibleLine,
} from "@turnpike/base";
import { listedPriceUsd } from "@turnpike/client";
import { SERVICE_ID } from "./arguments.ts";

/** A service as `/services.json` lists it, with every text bounded. */
export interface ServiceFacts {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly category: string;
  readonly tags: readonly string[];
  /** US dollars for one call, rounded up to a micro-unit; undefined where the list has no such price. */
  readonly priceUsd: string | undefined;
  /** True when it answers now. */
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

/** Maximum number of operations of a service that are read; a list as long as this may be cut. */
export const MAX_LISTED_OPERATIONS = 2_000;
/** Maximum size of the two documents after decompression. */
const MAX_LIST_BYTES = 4 * 1_048_576;
const MAX_DESCRIPTION_BYTES = 16 * 1_048_576;
const MAX_DEPTH = 64;
const MAX_DOCUMENT_VALUES = 500_000;
const MAX_SERVICES = 5_000;
const LIST_AGE_MS = 15_000;
const DESCRIPTION_AGE_MS = 300_000;
const REQUEST_TIMEOUT_MS = 20_000;
const MAX_KEPT_ROUTES = 256;
const MAX_REF_DEPTH = 12;
/** Maximum size of the schemas of one route, with references filled in. */
const MAX_NODES = 5_000;
const MAX_REFERENCES = 500;
const MAX_CHARACTERS = 200_000;
const MAX_POINTER_LENGTH = 300;

const textOf = (value: unknown, most: number): string => (typeof value === "string" ? visibleLine(value, most) : "");
const textsOf = (value: unknown, most: number, length: number): string[] =>
  Array.isArray(value)
    ? value.flatMap((one: unknown) => (typeof one === "string" ? [visibleLine(one, length)] : [])).slice(0, most)
    : [];

function serviceOf(item: unknown): ServiceFacts[] {
  if (!isRecord(item) || typeof item.id !== "string" || !SERVICE_ID.test(item.id)) return [];
  return [
    {
      id: item.id,
      name: textOf(item.name, 120) || item.id,
      description: textOf(item.description, 600),
      category: textOf(item.category, 60),
      tags: textsOf(item.tags, 20, 60),
      priceUsd: listedPriceUsd(item.price),
      servesNow: item.serves !== false,
      paid: item.paid !== false,
      relayUrl: typeof item.relayUrl === "string" ? visibleLine(item.relayUrl, 300) : undefined,
      maxBodyBytes: typeof item.maxBodyBytes === "number" ? item.maxBodyBytes : undefined,
      example: item.example,
      operations: textsOf(item.methods, MAX_LISTED_OPERATIONS, 200),
    },
  ];
}

/** Services of a list. Of entries with one id the first counts: there is one price to show, and to hold. */
function servicesOf(list: readonly unknown[]): readonly ServiceFacts[] {
  const services = new Map<string, ServiceFacts>();
  for (const service of list.slice(0, MAX_SERVICES).flatMap(serviceOf)) {
    if (!services.has(service.id)) services.set(service.id, service);
  }
  return [...services.values()];
}

const LEFT_OUT = "(left out: too large)";

/** Fills in `$ref`s of a document, bounded in depth, nodes, references and characters, whatever refers to what. */
function filledIn(root: unknown, value: unknown): unknown {
  let nodesLeft = MAX_NODES;
  let referencesLeft = MAX_REFERENCES;
  let charactersLeft = MAX_CHARACTERS;
  const target = (pointer: string): unknown =>
    pointer
      .slice(2)
      .split("/")
      .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
      .reduce<unknown>((at, part) => (isRecord(at) && Object.hasOwn(at, part) ? at[part] : undefined), root);
  const walk = (at: unknown, depth: number): unknown => {
    nodesLeft -= 1;
    if (nodesLeft < 0 || charactersLeft < 0 || depth > MAX_DEPTH) return LEFT_OUT;
    if (typeof at === "string") {
      charactersLeft -= at.length;
      return charactersLeft < 0 ? LEFT_OUT : at;
    }
    if (typeof at !== "object" || at === null) return at;
    if (isRecord(at) && typeof at.$ref === "string" && at.$ref.startsWith("#/")) {
      if (at.$ref.length > MAX_POINTER_LENGTH) return LEFT_OUT;
      referencesLeft -= 1;
      charactersLeft -= at.$ref.length;
      return depth > MAX_REF_DEPTH || referencesLeft < 0 ? { description: at.$ref } : walk(target(at.$ref), depth + 1);
    }
    // Members behind the bound are not even listed: each level of a document may have a million.
    if (Array.isArray(at)) {
      const items: unknown[] = [];
      for (const one of at) {
        items.push(walk(one, depth + 1));
        if (nodesLeft < 0) break;
      }
      return items;
    }
    const members: [string, unknown][] = [];
    for (const key in at) {
      charactersLeft -= key.length;
      if (nodesLeft < 0 || charactersLeft < 0) {
        members.push([LEFT_OUT, true]);
        break;
      }
      members.push([key, walk((at as Record<string, unknown>)[key], depth + 1)]);
    }
    return Object.fromEntries(members);
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

/** A gateway's description of its routes, and what was read of it. */
class Description {
  readonly #json: unknown;
  readonly #routes = new Map<string, RouteFacts | undefined>();

  constructor(json: unknown) {
    this.#json = json;
  }

  /** `serviceId` is one of the gateway's list, or was asked for: the number of routes that are kept is bounded. */
  route(serviceId: string): RouteFacts | undefined {
    if (this.#routes.has(serviceId)) return this.#routes.get(serviceId);
    const route = routeOf(this.#json, serviceId);
    if (this.#routes.size < MAX_KEPT_ROUTES) this.#routes.set(serviceId, route);
    return route;
  }
}

interface DocumentOptions<Facts> {
  readonly path: string;
  readonly maxAgeMs: number;
  readonly maxBytes: number;
  /** Makes what is kept of the parsed document; undefined stands for a gateway that has none. */
  readonly read: (json: unknown) => Facts;
}

/** A document's body, checked while it arrived, and parsed only where it is a new version. */
interface Body {
  readonly digest: string;
  readonly read: () => ForeignJson;
}

/** Requests a document, with bounds; undefined when the gateway has none. */
type Fetch = (path: string, maxBytes: number) => Promise<Body | undefined>;

/** One document: requested at most once at a time, and read once for each version of its bytes. */
class KeptDocument<Facts> {
  readonly #opts: DocumentOptions<Facts>;
  readonly #fetch: Fetch;
  #recent: { readonly atMs: number; readonly facts: Promise<Facts> } | undefined;
  #version: { readonly digest: string; readonly facts: Facts } | undefined;

  constructor(opts: DocumentOptions<Facts>, modules: { readonly fetch: Fetch }) {
    this.#opts = opts;
    this.#fetch = modules.fetch;
  }

  /** A caller that goes away does not end what others wait for. */
  facts(nowMs: number): Promise<Facts> {
    const { maxAgeMs } = this.#opts;
    if (this.#recent !== undefined && nowMs - this.#recent.atMs < maxAgeMs) return this.#recent.facts;
    const facts = this.#load();
    this.#recent = { atMs: nowMs, facts };
    facts.catch(() => {
      if (this.#recent?.facts === facts) this.#recent = undefined;
    });
    return facts;
  }

  async #load(): Promise<Facts> {
    const { path, maxBytes, read } = this.#opts;
    const body = await this.#fetch(path, maxBytes);
    if (body === undefined) return read(undefined);
    const { digest } = body;
    if (this.#version?.digest === digest) return this.#version.facts;
    const json = body.read();
    if (!json.ok) {
      const isTooLarge = json.fault === "size" || json.fault === "values";
      throw isTooLarge
        ? new AppError("ANSWER_TOO_LARGE", { message: `The gateway's ${path} is too large to read.` })
        : new AppError("GATEWAY_UNREACHABLE", { message: `The gateway's ${path} is not JSON that can be read.` });
    }
    const facts = read(json.value);
    this.#version = { digest, facts };
    return facts;
  }
}

/** The documents of a gateway, read over HTTP and kept for a short time. */
export class GatewayDocuments {
  readonly #gateway: string;
  readonly #fetch: typeof globalThis.fetch;
  readonly #clock: Clock;
  readonly #list: KeptDocument<readonly ServiceFacts[] | undefined>;
  readonly #description: KeptDocument<Description>;

  /** `gateway` is its base URL, without a slash at its end. */
  constructor(
    opts: { readonly gateway: string },
    modules: { readonly clock: Clock; readonly fetch?: typeof globalThis.fetch },
  ) {
    this.#gateway = opts.gateway;
    this.#fetch = modules.fetch ?? globalThis.fetch;
    this.#clock = modules.clock;
    const inner = { fetch: (path: string, maxBytes: number) => this.#read(path, maxBytes) };
    this.#list = new KeptDocument(
      {
        path: "/services.json",
        maxAgeMs: LIST_AGE_MS,
        maxBytes: MAX_LIST_BYTES,
        read: (json) => (Array.isArray(json) ? servicesOf(json) : undefined),
      },
      inner,
    );
    this.#description = new KeptDocument(
      {
        path: "/openapi.json",
        maxAgeMs: DESCRIPTION_AGE_MS,
        maxBytes: MAX_DESCRIPTION_BYTES,
        read: (json) => new Description(json),
      },
      inner,
    );
  }

  /** @throws AppError GATEWAY_UNREACHABLE; ANSWER_TOO_LARGE; NOT_FOUND when the gateway has no such list. */
  async services(signal?: AbortSignal): Promise<readonly ServiceFacts[]> {
    signal?.throwIfAborted();
    const services = await this.#list.facts(this.#clock.monotonicMs());
    if (services === undefined) {
      throw new AppError("NOT_FOUND", { message: "This gateway has no list of services at /services.json." });
    }
    return services;
  }

  /** Undefined when the description has no such route. @throws AppError GATEWAY_UNREACHABLE; ANSWER_TOO_LARGE. */
  async route(serviceId: string, signal?: AbortSignal): Promise<RouteFacts | undefined> {
    signal?.throwIfAborted();
    return (await this.#description.facts(this.#clock.monotonicMs())).route(serviceId);
  }

  /** The body of a document; undefined when the gateway has none. */
  async #read(path: string, maxBytes: number): Promise<Body | undefined> {
    try {
      const answer = await this.#fetch(`${this.#gateway}${path}`, {
        headers: { accept: "application/json", ...ACCEPT_GZIP },
        redirect: "error",
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      });
      if (!hasOneCoding(answer.headers)) {
        await answer.body?.cancel();
        throw new AppError("GATEWAY_UNREACHABLE", { message: `The gateway's ${path} has several content codings.` });
      }
      const reader = new ForeignJsonReader({ maxBytes, maxDepth: MAX_DEPTH, maxValues: MAX_DOCUMENT_VALUES });
      const hash = createHash("sha256");
      for await (const part of answer.body ?? []) {
        if (!reader.write(part)) break;
        hash.update(part);
      }
      if (answer.status === 404) return undefined;
      if (answer.status !== 200) {
        throw new AppError("GATEWAY_UNREACHABLE", { message: `The gateway answered ${answer.status} for ${path}.` });
      }
      return { digest: hash.digest("hex"), read: () => reader.end() };
    } catch (cause) {
      if (isAppError(cause)) throw cause;
      throw new AppError("GATEWAY_UNREACHABLE", { message: `The gateway's ${path} cannot be read.`, cause });
    }
  }
}
