import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { NodeStreamableHTTPServerTransport } from "@modelcontextprotocol/node";
import type { Clock, Log } from "@turnpike/base";
import { servedResponse } from "./deliveries.ts";
import { INVALID_REQUEST, refuse } from "./http-guard.ts";
import type { McpSession } from "./mcp-session.ts";
import { ID_IN_FLIGHT, RequestIds } from "./request-ids.ts";
import { createMcpServer } from "./server.ts";
import type { McpServerModules, McpServerOptions } from "./types.ts";

/** One client's session over HTTP. */
interface HttpSession {
  readonly transport: NodeStreamableHTTPServerTransport;
  readonly abort: AbortController;
  readonly ids: RequestIds;
  busy: number;
  usedAtMs: number;
}

/** Maximum number of sessions, and time for which an idle one is held. */
export interface HttpSessionsOptions {
  readonly maxSessions: number;
  readonly idleMs: number;
}

export interface HttpSessionsModules extends Omit<McpServerModules, "session"> {
  /** Makes the budget of a new session. */
  readonly newSession: () => McpSession;
  readonly clock: Clock;
}

/** The sessions of the revisions of MCP that have them: each has a server and a budget of its own. */
export class HttpSessions {
  readonly #opts: McpServerOptions & HttpSessionsOptions;
  readonly #modules: HttpSessionsModules;
  readonly #log: Log;
  readonly #byId = new Map<string, HttpSession>();
  #opening = 0;

  constructor(opts: McpServerOptions & HttpSessionsOptions, modules: HttpSessionsModules) {
    this.#opts = opts;
    this.#modules = modules;
    this.#log = modules.log;
  }

  get size(): number {
    return this.#byId.size + this.#opening;
  }

  /** True when one more fits; those that have been idle are ended first. */
  hasRoom(): boolean {
    this.endIdle();
    return this.size < this.#opts.maxSessions;
  }

  /** Serves a request of a session; false when there is none of this id. */
  async serve(id: string, request: IncomingMessage, response: ServerResponse, body: unknown): Promise<boolean> {
    const session = this.#byId.get(id);
    if (session === undefined) return false;
    if (!session.ids.begin(body)) {
      refuse(response, { status: 400, code: INVALID_REQUEST, message: ID_IN_FLIGHT });
      return true;
    }
    session.busy += 1;
    session.usedAtMs = this.#modules.clock.monotonicMs();
    // An open stream of events is no use of the session: only what is asked is.
    if (request.method === "GET") session.busy -= 1;
    else {
      response.once("close", () => {
        session.busy -= 1;
        session.usedAtMs = this.#modules.clock.monotonicMs();
      });
    }
    try {
      await session.transport.handleRequest(request, response, body);
    } finally {
      session.ids.end(body);
    }
    return true;
  }

  /** Begins a session with the request that opens it. */
  async open(request: IncomingMessage, response: ServerResponse, body: unknown): Promise<void> {
    this.#opening += 1;
    try {
      const abort = new AbortController();
      const ids = new RequestIds();
      const { newSession, ...modules } = this.#modules;
      const signals = [abort.signal, ...(modules.stopping === undefined ? [] : [modules.stopping])];
      const transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        onsessioninitialized: (id) => {
          this.#byId.set(id, { transport, abort, ids, busy: 0, usedAtMs: this.#modules.clock.monotonicMs() });
          this.#log.info({ sessions: this.#byId.size }, "a session was opened");
        },
        onsessionclosed: (id) => this.#end(id, "by the client"),
      });
      const server = createMcpServer(this.#opts, {
        ...modules,
        session: newSession(),
        stopping: AbortSignal.any(signals),
        sinkOf: () => servedResponse.getStore(),
      });
      await server.connect(transport);
      ids.watch(transport);
      await transport.handleRequest(request, response, body);
      if (transport.sessionId === undefined) await transport.close();
    } finally {
      this.#opening -= 1;
    }
  }

  /** Ends sessions that nothing was asked of for the idle time. Calls under way keep theirs. */
  endIdle(): void {
    const now = this.#modules.clock.monotonicMs();
    for (const [id, session] of this.#byId) {
      if (session.busy > 0 || now - session.usedAtMs < this.#opts.idleMs) continue;
      this.#end(id, "idle");
      void session.transport.close();
    }
  }

  async close(): Promise<void> {
    const all = [...this.#byId.values()];
    this.#byId.clear();
    for (const { abort } of all) abort.abort();
    await Promise.allSettled(all.map(({ transport }) => transport.close()));
  }

  #end(id: string, why: string): void {
    const session = this.#byId.get(id);
    if (session === undefined) return;
    this.#byId.delete(id);
    session.abort.abort();
    this.#log.info({ sessions: this.#byId.size, why }, "a session was ended");
  }
}
