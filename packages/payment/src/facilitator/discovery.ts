import { createHash } from "node:crypto";
import type { DiscoveryFilter, ErrorCode } from "@turnpike/base";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

/** Query of `GET /discovery/resources`. */
export interface DiscoveryQuery extends DiscoveryFilter {
  readonly limit: number;
  readonly offset: number;
}

/** Query of `GET /discovery/search`. */
export interface DiscoverySearchQuery extends DiscoveryFilter {
  /** In natural language; not empty. */
  readonly query: string;
  readonly limit?: number | undefined;
  /** From the page before. */
  readonly cursor?: string | undefined;
}

type Resource = Readonly<Record<string, unknown>>;

/** One page of resources that take payments here. */
export interface DiscoveryPage {
  readonly items: readonly Resource[];
  /** How many match in all. */
  readonly total: number;
}

/** Resources that were searched for, best first. */
export interface DiscoveryHits {
  readonly resources: readonly Resource[];
  /** True when there are more. */
  readonly partialResults: boolean;
  readonly pagination: { readonly limit: number; readonly cursor: string | null };
}

/** The resources that a facilitator knows. */
export interface FacilitatorDiscovery {
  list(query: DiscoveryQuery): DiscoveryPage | Promise<DiscoveryPage>;
  search(query: DiscoverySearchQuery): DiscoveryHits | Promise<DiscoveryHits>;
}

/** Answers with an error of ours. */
export type Fail = (request: FastifyRequest, reply: FastifyReply, code: ErrorCode) => FastifyReply;

const PAGE = { fallback: 100, most: 1_000 };
const TEXTS = ["type", "payTo", "scheme", "network", "extensions", "cursor", "query"] as const;
/** Longest value of a parameter, in UTF-16 units. */
const MAX_TEXT_LENGTH = 512;
const MAX_AGE_SECONDS = 60;
const NOTHING: FacilitatorDiscovery = {
  list: () => ({ items: [], total: 0 }),
  search: () => ({ resources: [], partialResults: false, pagination: { limit: 0, cursor: null } }),
};

/** `GET /discovery/resources` and `GET /discovery/search`, also for pages of other origins. */
export function discoveryRoutes(app: FastifyInstance, fail: Fail, discovery: FacilitatorDiscovery = NOTHING): void {
  app.get("/discovery/resources", async (request, reply) => {
    open(reply);
    const query = readTexts(request.query);
    const { limit, offset } = request.query as Readonly<Record<string, unknown>>;
    const page = readCount(limit, PAGE.fallback, 1);
    const start = readCount(offset, 0, 0);
    if (query === undefined || page === undefined || start === undefined)
      return fail(request, reply, "MALFORMED_REQUEST");
    const wanted = { ...query, limit: Math.min(page, PAGE.most), offset: start };
    const { items, total } = await discovery.list(wanted);
    return send(request, reply, {
      x402Version: 2,
      items,
      pagination: { limit: wanted.limit, offset: wanted.offset, total },
    });
  });
  app.get("/discovery/search", async (request, reply) => {
    open(reply);
    const texts = readTexts(request.query);
    const { limit } = request.query as Readonly<Record<string, unknown>>;
    const most = limit === undefined ? undefined : readCount(limit, 0, 1);
    const { query = "", ...filter } = texts ?? {};
    const isBad = texts === undefined || query.trim() === "" || (limit !== undefined && most === undefined);
    if (isBad) return fail(request, reply, "MALFORMED_REQUEST");
    const { resources, partialResults, pagination } = await discovery.search({ ...filter, query, limit: most });
    return send(request, reply, { x402Version: 2, resources, partialResults, pagination });
  });
  for (const path of ["/discovery/resources", "/discovery/search"]) {
    // The reference client sends a Content-Type with its GET, for which a browser asks first.
    app.options(path, async (_request, reply) =>
      open(reply)
        .status(204)
        .header("allow", "GET, HEAD, OPTIONS")
        .header("access-control-allow-methods", "GET, HEAD, OPTIONS")
        .header("access-control-allow-headers", "Content-Type")
        .header("access-control-max-age", "86400")
        .send(),
    );
  }
}

const open = (reply: FastifyReply): FastifyReply => reply.header("access-control-allow-origin", "*");

/** Sends a document with a validator (RFC 9110 §8.8.3), or 304 to a client that has it. */
function send(request: FastifyRequest, reply: FastifyReply, value: unknown): FastifyReply {
  const text = JSON.stringify(value);
  const etag = `"${createHash("sha256").update(text).digest("base64url").slice(0, 22)}"`;
  reply.header("etag", etag).header("cache-control", `public, max-age=${MAX_AGE_SECONDS}`);
  const known = request.headers["if-none-match"]?.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  if (known?.some((tag) => tag === etag || tag === "*") === true) return reply.status(304).send();
  return reply.header("content-type", "application/json; charset=utf-8").send(text);
}

/** The known parameters that are texts; undefined when one is given twice or too long. */
function readTexts(query: unknown): Partial<Record<(typeof TEXTS)[number], string>> | undefined {
  const given = query as Readonly<Record<string, unknown>>;
  const found: Partial<Record<(typeof TEXTS)[number], string>> = {};
  for (const name of TEXTS) {
    const value = given[name];
    if (value === undefined) continue;
    if (typeof value !== "string" || value.length > MAX_TEXT_LENGTH) return undefined;
    found[name] = value;
  }
  return found;
}

function readCount(value: unknown, fallback: number, least: number): number | undefined {
  if (value === undefined) return fallback;
  const isNumber = typeof value === "string" && /^[0-9]{1,9}$/.test(value) && Number(value) >= least;
  return isNumber ? Number(value) : undefined;
}
