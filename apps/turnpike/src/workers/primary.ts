import cluster from "node:cluster";
import { randomInt, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { AppError, isAppError, isRecord, systemClock } from "@turnpike/base";
import type { Config, Environment } from "@turnpike/config";
import {
  createMetricsAcross,
  createPrometheusMetrics,
  createSharedCounts,
  type MetricsRegistry,
  type Port,
  passOn,
  readMetricsDump,
  serveMetrics,
} from "@turnpike/gateway";
import type { LeveledLog } from "../logging.ts";
import { requireRunnable } from "../wiring/check.ts";
import { CAN_REUSE_PORT, type GatewayService } from "../wiring/gateway.ts";
import { workerRestartsTotal, workersUp } from "../wiring/metrics.ts";
import { namedLabels } from "../wiring/named-labels.ts";
import { createReloader } from "../wiring/reload.ts";
import type { LiveWorker } from "./live-worker.ts";
import { reloadWorkers } from "./reload-workers.ts";
import { shareOf } from "./share.ts";
import { WorkerSlot } from "./slot.ts";

/** What {@link startWorkers} works from. */
export interface PrimaryInput {
  readonly config: Config;
  readonly env: Environment;
  readonly log: LeveledLog;
  /** How many. */
  readonly workers: number;
  /** Reads the configuration again. */
  readonly load: () => Config;
}

/** Workers that serve as one gateway. */
export interface WorkersService extends GatewayService {
  /** Rejects when no worker can be kept running. */
  readonly failed: Promise<never>;
}

const METRICS_TIMEOUT_MS = 2_000;
/** What a worker has beyond the time of its calls under way. */
const STOP_GRACE_MS = 6_000;
/** Starts in a row that fail, with no other worker left, before the primary gives up. */
const MAX_FAILED_STARTS = 5;

/** @throws AppError PORT_IN_USE: workers share their port, and would share it with a stranger too. */
async function requireFreePort(host: string, port: number): Promise<void> {
  if (port === 0) return;
  const probe = createServer();
  try {
    probe.listen({ host, port, exclusive: true });
    await once(probe, "listening");
  } catch (cause) {
    const message = `Port ${port} on ${host} is in use.`;
    throw new AppError("PORT_IN_USE", { message, detail: { port }, cause });
  }
  probe.close();
  await once(probe, "close");
}

/**
 * Starts the workers of one gateway, keeps them running, and holds what they share: the counts of the limits, their
 * messages to each other, their metrics. It takes no client's connection itself.
 * @throws AppError what keeps the first worker from starting; PORT_IN_USE.
 */
export async function startWorkers(input: PrimaryInput): Promise<WorkersService> {
  const { env, log, workers } = input;
  const clock = systemClock;
  const start = input.config;
  requireRunnable(start, env, "gateway");
  await requireFreePort(start.gateway.host, start.gateway.port);
  // The admin port is one handle that workers share; the gateway's own they open themselves.
  cluster.schedulingPolicy = cluster.SCHED_NONE;

  const metrics = createPrometheusMetrics({ processMetrics: true });
  const across = createMetricsAcross({ isNamed: namedLabels(() => config) });
  const counts = createSharedCounts({ maxKeys: start.limits.maxClients, hashSeed: randomInt(2 ** 32) }, { clock });
  const ports = new Map<string, Port>();
  const group = randomUUID();
  const { promise: failed, reject: giveUp } = Promise.withResolvers<never>();
  failed.catch(() => {});
  let portOfAll = start.gateway.port;
  let config = start;
  let forWorkers = shareOf(start, workers, portOfAll);

  const hear = (id: string, port: Port, message: unknown): void => {
    const verdicts = counts.answer(message);
    if (verdicts !== undefined) {
      port.send(verdicts);
      return;
    }
    if (isRecord(message) && message.to === "metrics") keepDump(id, message.dump);
    passOn(message, othersThan(id));
  };
  const othersThan = function* (id: string): Iterable<Port> {
    for (const [other, port] of ports) if (other !== id) yield port;
  };
  const keepDump = (id: string, value: unknown): void => {
    const dump = readMetricsDump(value);
    if (dump !== undefined && ports.has(id)) across.put(id, dump);
  };
  const live = (): readonly LiveWorker[] => slots.flatMap((slot) => slot.live ?? []);
  const tellWorkers = (): void => metrics.set(workersUp, live().length);

  const slots = Array.from({ length: workers }, (_, at) => {
    return new WorkerSlot(
      { index: at + 1, group },
      {
        clock,
        log,
        config: () => forWorkers,
        stopTimeoutMs: () => config.gateway.shutdownTimeoutMs + STOP_GRACE_MS,
        handlers: { reload: () => reload("admin") },
        onFork(id, port) {
          ports.set(id, port);
          port.subscribe((message) => hear(id, port, message));
        },
        onExit(id) {
          ports.delete(id);
          across.ended(id);
        },
        onRestart: () => metrics.count(workerRestartsTotal),
        onFailure(error, inRow) {
          log.error({ error: isAppError(error) ? error.message : String(error), inRow }, "a worker cannot be started");
          if (inRow >= MAX_FAILED_STARTS && live().length === 0) giveUp(error);
        },
      },
    );
  });

  /** Puts a configuration into effect in all workers, or in none. */
  const apply = async (next: Config): Promise<void> => {
    requireRunnable(next, env, "gateway");
    const before = forWorkers;
    const after = shareOf(next, workers, portOfAll);
    // Workers that start from now on have it from the start.
    forWorkers = after;
    const told = live();
    const isLive = (worker: LiveWorker): boolean => live().includes(worker);
    const faults = await reloadWorkers(told, after, isLive);
    if (faults.length === 0) {
      config = next;
      log.setLevel(next.log.level);
      return;
    }
    forWorkers = before;
    await reloadWorkers(told, before, isLive);
    throw new AppError("CONFIG_INVALID", { message: faults.join("\n"), detail: { faults } });
  };
  const { reload } = createReloader(start, { load: input.load, apply, log, metrics });

  /** Asks all workers for what they counted; one that does not answer counts as it did last. */
  const render = async (): Promise<string> => {
    tellWorkers();
    await Promise.allSettled(
      live().map(async ({ id, calls }) => keepDump(id, await calls.call("metrics", {}, METRICS_TIMEOUT_MS))),
    );
    across.put("primary", await metrics.dump());
    return across.render();
  };

  await using stack = new AsyncDisposableStack();
  const summed: MetricsRegistry = { ...metrics, render, contentType: across.contentType };
  const { host, port } = start.gateway.metrics;
  const metricsService = stack.use(
    await serveMetrics({ host, port, allowedHosts: start.allowedHosts }, { metrics: summed, log }),
  );
  stack.defer(async () => {
    await Promise.all(slots.map((slot) => slot[Symbol.asyncDispose]()));
  });
  const [first, ...others] = slots;
  if (first === undefined) throw new AppError("INTERNAL", { message: "There are no workers to start." });
  const starting = start.gateway.port === 0 ? [] : others.map((slot) => slot.start());
  const [{ gatewayPort, adminPort }] = await Promise.all([first.start(), ...starting]);
  if (starting.length === 0) {
    // The first one was given a port that was free: the others need the same. With a shared handle they get it anyway.
    if (CAN_REUSE_PORT) portOfAll = gatewayPort;
    forWorkers = shareOf(start, workers, portOfAll);
    await Promise.all(others.map((slot) => slot.start()));
  }
  log.info({ workers, gatewayPort, metricsPort: metricsService.port }, "all workers listen");
  const owned = stack.move();
  return {
    gatewayPort,
    metricsPort: metricsService.port,
    adminPort,
    reload,
    failed,
    config: () => config,
    dumpMetrics: () => metrics.dump(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
