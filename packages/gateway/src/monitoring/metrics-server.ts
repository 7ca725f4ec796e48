import { createServer, type Server } from "node:http";
import { errorBody, errorRow, type HostCheck, type Log, type RequestId } from "@turnpike/base";
import { faultFields } from "../pipeline.ts";
import type { MetricsRegistry } from "../types.ts";

/** Serves `GET /metrics` and nothing else, to requests for its own hosts; `flush` is called before each reading. */
export function createMetricsServer(modules: {
  readonly metrics: MetricsRegistry;
  readonly log: Log;
  readonly requestId: () => RequestId;
  readonly flush: () => void | Promise<void>;
  readonly hosts: HostCheck;
}): Server {
  const { metrics, log, requestId, flush, hosts } = modules;
  const server = createServer({ headersTimeout: 5_000, requestTimeout: 10_000, maxHeaderSize: 16_384 });
  server.maxConnections = 100;
  server.on("request", (req, res) => {
    const foreign = hosts.fault(req.headers);
    if (foreign !== undefined) {
      res.writeHead(errorRow(foreign).http, ["Content-Type", "application/json"]);
      res.end(JSON.stringify(errorBody(foreign, requestId())));
      return;
    }
    const path = req.url?.split("?", 1)[0];
    const reads = req.method === "GET" || req.method === "HEAD";
    if (path !== "/metrics" || !reads) {
      const code = path === "/metrics" ? "VERB_NOT_ALLOWED" : "NOT_FOUND";
      const allow = code === "VERB_NOT_ALLOWED" ? ["Allow", "GET, HEAD"] : [];
      res.writeHead(code === "NOT_FOUND" ? 404 : 405, ["Content-Type", "application/json", ...allow]);
      res.end(JSON.stringify(errorBody(code, requestId())));
      return;
    }
    const render = async (): Promise<string> => {
      await flush();
      return await metrics.render();
    };
    render().then(
      (text) => {
        res.writeHead(200, ["Content-Type", metrics.contentType, "Cache-Control", "no-store"]);
        res.end(req.method === "HEAD" ? undefined : text);
      },
      (error: unknown) => {
        const id = requestId();
        log.error({ ...faultFields(error), requestId: id }, "metrics could not be read");
        res.writeHead(500, ["Content-Type", "application/json"]);
        res.end(JSON.stringify(errorBody("INTERNAL", id)));
      },
    );
  });
  return server;
}
