import { createServer, type Server } from "node:http";
import { errorBody, errorRow, faultFields, type HostCheck, type Log, type RequestId } from "@turnpike/base";
import type { MetricsText } from "../metrics/prometheus.ts";

/** What a further path of a metrics server answers, as JSON. */
export type MonitoringDocument = () => Promise<{ readonly status: number; readonly body: unknown }>;

/** Serves `GET /metrics`, the paths of `documents` and nothing else, to requests for its own hosts; `flush` is called before each reading. */
export function createMetricsServer(modules: {
  readonly metrics: MetricsText;
  readonly log: Log;
  readonly requestId: () => RequestId;
  readonly flush: () => void | Promise<void>;
  readonly hosts: HostCheck;
  readonly documents?: ReadonlyMap<string, MonitoringDocument>;
}): Server {
  const { metrics, log, requestId, flush, hosts, documents } = modules;
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
    const document = path === undefined ? undefined : documents?.get(path);
    const isKnown = path === "/metrics" || document !== undefined;
    if (!isKnown || !reads) {
      const code = isKnown ? "VERB_NOT_ALLOWED" : "NOT_FOUND";
      const allow = code === "VERB_NOT_ALLOWED" ? ["Allow", "GET, HEAD"] : [];
      res.writeHead(code === "NOT_FOUND" ? 404 : 405, ["Content-Type", "application/json", ...allow]);
      res.end(JSON.stringify(errorBody(code, requestId())));
      return;
    }
    const render = async (): Promise<{ status: number; type: string; text: string }> => {
      if (document !== undefined) {
        const { status, body } = await document();
        return { status, type: "application/json", text: `${JSON.stringify(body)}\n` };
      }
      await flush();
      return { status: 200, type: metrics.contentType, text: await metrics.render() };
    };
    render().then(
      ({ status, type, text }) => {
        res.writeHead(status, ["Content-Type", type, "Cache-Control", "no-store"]);
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
