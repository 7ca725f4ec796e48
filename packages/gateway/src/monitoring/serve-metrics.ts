import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createHostCheck, type HostCheckOptions, type Log, type RequestId } from "@turnpike/base";
import { listenOn } from "../http/server.ts";
import type { MetricsText } from "../metrics/prometheus.ts";
import { createMetricsServer, type MonitoringDocument } from "./metrics-server.ts";

/** A metrics server that listens. */
export interface MetricsService extends AsyncDisposable {
  readonly port: number;
}

/**
 * Serves `GET /metrics`, and JSON at further paths, by itself, for a process that is no gateway. Port 0 takes a free one.
 * @throws AppError PORT_IN_USE
 */
export async function serveMetrics(
  opts: HostCheckOptions & { readonly port: number },
  modules: {
    readonly metrics: MetricsText;
    readonly log: Log;
    /** JSON at further paths. */
    readonly documents?: ReadonlyMap<string, MonitoringDocument>;
  },
): Promise<MetricsService> {
  const requestId = (): RequestId => randomUUID() as string as RequestId;
  const server = createMetricsServer({ ...modules, requestId, flush() {}, hosts: createHostCheck(opts) });
  const port = await listenOn(server, opts.host, opts.port);
  return {
    port,
    async [Symbol.asyncDispose]() {
      if (!server.listening) return;
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
