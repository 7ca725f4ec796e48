import { randomUUID } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import {
  ConnectionGuard,
  closeServer,
  createGuardedServer,
  createHostCheck,
  type ErrorCode,
  errorBody,
  errorRow,
  faultFields,
  type HostCheck,
  type HostCheckOptions,
  type Log,
  listenOn,
  type RequestId,
} from "@turnpike/base";
import type { MetricsText } from "./prometheus-metrics.ts";

/** What a further path of a metrics server responds, as JSON. */
export type JsonPage = () => Promise<{ readonly status: number; readonly body: unknown }>;

interface MetricsServerModules {
  readonly metrics: MetricsText;
  readonly log: Log;
  /** Further paths: `/ready`. None by default. */
  readonly pages?: ReadonlyMap<string, JsonPage>;
  /** Called before each scrape, to add samples that are kept elsewhere until then. */
  readonly flush?: () => void | Promise<void>;
  readonly requestId?: () => RequestId;
}

interface Page {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

const CONNECTIONS = { maxConnections: 100, maxConnectionsPerClient: 50 };

/** Serves `GET /metrics`, its further pages and nothing else, to requests for its own hosts. */
export class MetricsServer implements AsyncDisposable {
  readonly #host: string;
  readonly #modules: MetricsServerModules;
  readonly #hosts: HostCheck;
  readonly #requestId: () => RequestId;
  readonly #server: Server;
  #port = 0;

  constructor(opts: HostCheckOptions, modules: MetricsServerModules) {
    this.#host = opts.host;
    this.#modules = modules;
    this.#hosts = createHostCheck(opts);
    this.#requestId = modules.requestId ?? (() => randomUUID() as string as RequestId);
    const guard = new ConnectionGuard(CONNECTIONS);
    this.#server = createGuardedServer(guard, { headersTimeout: 5_000, requestTimeout: 10_000, maxHeaderSize: 16_384 });
    this.#server.on("request", (req, res) => this.#serve(req, res));
  }

  /** Where it listens; 0 until then. */
  get port(): number {
    return this.#port;
  }

  /** Port 0 takes a free one. @throws AppError PORT_IN_USE */
  async listen(port: number): Promise<number> {
    this.#port = await listenOn(this.#server, this.#host, port);
    return this.#port;
  }

  /** Accepts no more scrapes, and resolves when those under way have ended. */
  close(): Promise<void> {
    return closeServer(this.#server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = this.close();
    this.#server.closeAllConnections();
    await closed;
  }

  #serve(req: IncomingMessage, res: ServerResponse): void {
    const path = req.url?.split("?", 1)[0] ?? "";
    const fault = this.#fault(req, path);
    if (fault !== undefined) {
      this.#refuse(res, fault, this.#requestId());
      return;
    }
    const page = this.#modules.pages?.get(path);
    (page === undefined ? this.#scrape() : render(page)).then(
      ({ status, type, text }) => {
        res.writeHead(status, ["Content-Type", type, "Cache-Control", "no-store"]);
        res.end(req.method === "HEAD" ? undefined : text);
      },
      (error: unknown) => {
        const requestId = this.#requestId();
        this.#modules.log.error({ ...faultFields(error), requestId }, "metrics could not be read");
        this.#refuse(res, "INTERNAL", requestId);
      },
    );
  }

  #fault({ method, headers }: IncomingMessage, path: string): ErrorCode | undefined {
    const foreign = this.#hosts.fault(headers);
    if (foreign !== undefined) return foreign;
    if (path !== "/metrics" && this.#modules.pages?.has(path) !== true) return "NOT_FOUND";
    return method === "GET" || method === "HEAD" ? undefined : "VERB_NOT_ALLOWED";
  }

  async #scrape(): Promise<Page> {
    const { metrics, flush } = this.#modules;
    await flush?.();
    return { status: 200, type: metrics.contentType, text: await metrics.render() };
  }

  #refuse(res: ServerResponse, code: ErrorCode, requestId: RequestId): void {
    const allow = code === "VERB_NOT_ALLOWED" ? ["Allow", "GET, HEAD"] : [];
    res.writeHead(errorRow(code).http, ["Content-Type", "application/json", ...allow]);
    res.end(JSON.stringify(errorBody(code, requestId)));
  }
}

async function render(page: JsonPage): Promise<Page> {
  const { status, body } = await page();
  return { status, type: "application/json", text: `${JSON.stringify(body)}\n` };
}

/** A metrics server that listens, for a process that is no gateway. @throws AppError PORT_IN_USE */
export async function startMetricsServer(
  opts: HostCheckOptions & { readonly port: number },
  modules: MetricsServerModules,
): Promise<MetricsServer> {
  const server = new MetricsServer(opts, modules);
  await server.listen(opts.port);
  return server;
}
