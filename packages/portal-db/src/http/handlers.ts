import type { Log } from "@turnpike/base";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ErrorBody } from "../errors.ts";
import { failure } from "../failures.ts";
import { createDocuments } from "../openapi/documents.ts";
import type { Caller, RoleView } from "../types.ts";
import type { TableAnswer } from "./answer.ts";
import { databaseFailure } from "./database-failure.ts";
import { nameOf } from "./faults.ts";
import type { Admitted } from "./gate.ts";
import { chooseDocument, DOCUMENT_TYPES } from "./media.ts";
import { createRequestPlanner, type PlannedRequest, type RequestPlanner } from "./read-plans.ts";
import { withSentHash } from "./reveal.ts";
import { type PortalTransactions, runPlan } from "./run-plan.ts";
import { sendError } from "./send.ts";
import { headerOf } from "./table-request.ts";
import type { Target } from "./target.ts";
import type { TokenSlots } from "./token-slots.ts";

export interface HandlerOptions {
  /** Most rows of one answer. */
  readonly maxRows: number;
  /** The answer to an insert has the hash that was sent. */
  readonly revealCreatedHash: boolean;
}

export interface HandlerModules {
  readonly log: Log;
  readonly database: PortalTransactions;
  /** Gives each token its share of the database. */
  readonly slots: TokenSlots;
  /** What a role may see and do, now. */
  readonly viewOf: (role: Caller["role"]) => RoleView;
  /** What is missing to serve; empty when ready. */
  readonly missing: () => Promise<readonly string[]>;
}

/** Plans of reads that are kept for each role. */
const MAX_PLANS = 500;
const ROOT_VERBS = "OPTIONS,GET,HEAD";
const SYSTEM_VERBS = "GET,HEAD";

/** The handlers of the management data API. */
export class Handlers {
  readonly #opts: HandlerOptions;
  readonly #modules: HandlerModules;
  readonly #documents = createDocuments();
  readonly #plan: RequestPlanner;

  constructor(opts: HandlerOptions, modules: HandlerModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.#plan = createRequestPlanner({ maxRows: opts.maxRows, maxKept: MAX_PLANS });
  }

  /** `Allow` of what a target names, as its caller may use it; of a table that the caller does not see, as of any other. */
  allow(target: Target, caller: Caller | undefined): string {
    if (target.kind === "system") return SYSTEM_VERBS;
    const table =
      target.kind === "table" && caller !== undefined
        ? this.#modules.viewOf(caller.role).tables.get(target.table)
        : undefined;
    return table === undefined ? ROOT_VERBS : allowed(table.may);
  }

  /** `GET /`: the description of the API. */
  document(request: FastifyRequest, reply: FastifyReply, caller: Caller): FastifyReply {
    const { method } = request;
    if (method === "OPTIONS") return reply.header("allow", ROOT_VERBS).send();
    if (method !== "GET" && method !== "HEAD") {
      return sendError(reply, failure(405, "PGRST117", `Unsupported HTTP method: ${method}`), { allow: ROOT_VERBS });
    }
    const kind = chooseDocument(headerOf(request, "accept"));
    if (kind === undefined)
      return sendError(reply, failure(406, "PGRST107", "None of these media types are available"));
    const { text, etag } = this.#documents(this.#modules.viewOf(caller.role), kind);
    reply.header("etag", etag);
    const held = headerOf(request, "if-none-match")
      ?.split(",")
      .map((tag) => tag.trim().replace(/^W\//, ""));
    if (held?.some((tag) => tag === etag || tag === "*") === true) return reply.status(304).send();
    return reply.header("content-type", DOCUMENT_TYPES[kind]).send(text);
  }

  /** `onTable` is called with the table's name when the caller may see it. */
  async table(
    request: FastifyRequest,
    reply: FastifyReply,
    { caller, fingerprint }: Admitted,
    target: { readonly table: string; readonly query: string },
    onTable: (table: string) => void,
  ): Promise<FastifyReply> {
    const { table } = target;
    const view = this.#modules.viewOf(caller.role);
    const seen = view.tables.get(table);
    if (seen !== undefined) onTable(table);
    if (request.method === "OPTIONS") {
      return seen === undefined
        ? sendError(reply, unknownTable(table))
        : reply.header("allow", allowed(seen.may)).send();
    }
    const refuse = (error: ErrorBody, headers: Readonly<Record<string, string>> = {}): FastifyReply => {
      const verbs = seen === undefined ? ROOT_VERBS : allowed(seen.may);
      return sendError(reply, error, error.status === 405 ? { ...headers, allow: verbs } : headers);
    };
    const planned = this.#plan(request, target, caller, view);
    if (!planned.ok) return refuse(planned.error);
    const gone = new AbortController();
    reply.raw.once("close", () => {
      if (!reply.raw.writableFinished) gone.abort();
    });
    let result: Awaited<ReturnType<typeof runPlan>>;
    try {
      result = await this.#run(planned, caller, fingerprint, gone.signal);
    } catch (error) {
      if (gone.signal.aborted) return sendError(reply, failure(499, "CLIENT_GONE", "The client has gone"));
      const body = databaseFailure(error, (name) => view.tables.has(name));
      if (body.status >= 500) {
        const fields = { requestId: request.id, table, code: body.code, error: nameOf(error) };
        this.#modules.log.error(fields, "a statement failed");
      }
      return refuse(body);
    }
    return result.ok ? this.#send(reply, planned, result.answer) : refuse(result.error, result.headers);
  }

  /** `GET /live` and `GET /ready`. */
  async system(request: FastifyRequest, reply: FastifyReply, name: "live" | "ready"): Promise<FastifyReply> {
    if (request.method !== "GET" && request.method !== "HEAD") {
      const error = failure(405, "PGRST117", `Unsupported HTTP method: ${request.method}`);
      return sendError(reply, error, { allow: SYSTEM_VERBS });
    }
    if (name === "live") return reply.send({ status: "ok" });
    const missing = await this.#modules.missing();
    return reply.status(missing.length === 0 ? 200 : 503).send({ ready: missing.length === 0, missing });
  }

  #run(planned: PlannedRequest, caller: Caller, fingerprint: string, signal: AbortSignal): ReturnType<typeof runPlan> {
    const { database, slots } = this.#modules;
    return slots.run(fingerprint, () => {
      signal.throwIfAborted();
      return runPlan(planned, caller, { database, signal, maxRows: this.#opts.maxRows });
    });
  }

  #send(reply: FastifyReply, { request, plan, contentType }: PlannedRequest, made: TableAnswer): FastifyReply {
    const answer = this.#opts.revealCreatedHash ? withSentHash(request, plan, made) : made;
    const { applied } = request.preferences;
    if (applied.length > 0) reply.header("preference-applied", applied.join(", "));
    reply.status(answer.status).headers(answer.headers);
    if (answer.body === undefined) return reply.send();
    reply.header("content-type", contentType);
    // Of a HEAD the rows were never made: their length is not known, and 0 would be wrong (RFC 9110, 8.6).
    return request.verb === "HEAD" ? reply.send() : reply.send(answer.body);
  }
}

function unknownTable(table: string): ErrorBody {
  return failure(404, "PGRST205", `Could not find the table 'portal.${table.slice(0, 63)}' in the schema cache`);
}

function allowed(may: {
  readonly select: boolean;
  readonly insert: boolean;
  readonly update: boolean;
  readonly delete: boolean;
}): string {
  const verbs = ["OPTIONS"];
  if (may.select) verbs.push("GET", "HEAD");
  if (may.insert) verbs.push("POST");
  if (may.insert && may.update) verbs.push("PUT");
  if (may.update) verbs.push("PATCH");
  if (may.delete) verbs.push("DELETE");
  return verbs.join(",");
}
