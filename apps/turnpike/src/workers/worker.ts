import cluster from "node:cluster";
import { flushCompileCache } from "node:module";
import { AppError, isRecord } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import type { ReloadResult } from "@turnpike/gateway";
import type { CommandContext } from "../cli/context.ts";
import { createLog, type LeveledLog } from "../cli/logging.ts";
import { type GatewayService, startGateway } from "../wiring/gateway.ts";
import { createCalls } from "./calls.ts";
import { processPort } from "./process-port.ts";

const RELOAD_TIMEOUT_MS = 120_000;
/** Below the primary's patience, so that a worker that hangs says so. */
const WATCHDOG_MS = 5_000;

/** True in a process that {@link runWorker} is for. */
export const isWorker = (): boolean => cluster.isWorker;

interface StartBody {
  readonly id: string;
  readonly index: number;
  readonly group: string;
  readonly config: Config;
}

/** The primary is of the same version, and has checked the configuration. */
function readStart(body: unknown): StartBody {
  if (!isRecord(body) || !isRecord(body.config) || typeof body.id !== "string") {
    throw new AppError("INTERNAL", { message: "A worker was started with nothing to serve." });
  }
  return body as unknown as StartBody;
}

/**
 * Runs one worker: a whole gateway, which gets its configuration and its stop from the primary. It also ends, with its
 * calls under way first, at SIGTERM and when its primary is gone; signals of a terminal are the primary's.
 */
export async function runWorker(context: CommandContext): Promise<void> {
  const port = processPort(process);
  const { promise: stopped, resolve: stop } = Promise.withResolvers<string>();
  let config: Config | undefined;
  let log: LeveledLog | undefined;
  let service: Promise<GatewayService> | undefined;

  for (const signal of ["SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
  process.once("SIGTERM", () => stop("SIGTERM"));
  process.once("disconnect", () => stop("the primary is gone"));
  // Else Node ends the process at once when the primary is gone.
  if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true;

  const running = async (): Promise<GatewayService> => {
    if (service === undefined) throw new AppError("INTERNAL", { message: "The worker was not started." });
    return await service;
  };
  const calls = createCalls(port, {
    async start(body) {
      const given = readStart(body);
      config = given.config;
      const own = createLog({ level: config.log.level, name: "gateway", worker: given.index });
      log = own;
      service = startGateway({
        config,
        env: context.env,
        log: own,
        load: () => config ?? given.config,
        onReload: (next) => own.setLevel(next.log.level),
        worker: {
          id: given.id,
          group: given.group,
          port,
          reload: async () => (await calls.call("reload", {}, RELOAD_TIMEOUT_MS)) as ReloadResult,
        },
      });
      const { gatewayPort, adminPort, metrics } = await service;
      context.connectionFaults?.attach({ log: own, metrics });
      flushCompileCache();
      return { gatewayPort, adminPort };
    },
    async reload(body) {
      const { reload } = await running();
      if (isRecord(body) && isRecord(body.config)) config = body.config as unknown as Config;
      return await reload("signal");
    },
    ping: () => ({}),
    metrics: async () => (await running()).dumpMetrics(),
  });
  port.subscribe((message) => {
    if (isRecord(message) && message.to === "stop") stop("the primary stops");
  });

  const cause = await stopped;
  log?.info({ cause }, "stopping");
  const drainMs = config?.gateway.shutdownTimeoutMs ?? 0;
  setTimeout(() => {
    log?.error({}, "the shutdown hangs; ending now");
    context.kill(1);
  }, drainMs + WATCHDOG_MS).unref();
  const started = await service?.catch(() => undefined);
  await started?.[Symbol.asyncDispose]();
  if (started !== undefined) port.send({ to: "metrics", dump: await started.dumpMetrics() });
  log?.info({}, "stopped");
  // What was sent is written first; without its channel the process ends.
  if (process.connected) process.disconnect?.();
}
