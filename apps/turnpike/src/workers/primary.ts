import cluster from "node:cluster";
import { randomInt, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { AppError, isAppError, isRecord, systemClock } from "@turnpike/base";
import type { Config, Environment } from "@turnpike/config";
import { type Port, passOn, SharedCounts } from "@turnpike/gateway";
import {
  MetricsAggregator,
  type MetricsDump,
  type MetricsText,
  PrometheusMetrics,
  readMetricsDump,
  startMetricsServer,
} from "@turnpike/telemetry";
import type { LeveledLog } from "../cli/logging.ts";
import { requireRunnable } from "../wiring/check.ts";
import { CAN_REUSE_PORT, type GatewayService } from "../wiring/gateway.ts";
import { workerRestartsTotal, workersUp } from "../wiring/metrics.ts";
import { namedLabels } from "../wiring/named-labels.ts";
import { createReloader, type Reload } from "../wiring/reload.ts";
import { shareOf } from "../wiring/worker-share.ts";
import type { LiveWorker } from "./live-worker.ts";
import { reloadWorkers } from "./reload-workers.ts";
import { type SlotOptions, WorkerSlot } from "./slot.ts";

export interface PrimaryInput {
  readonly config: Config;
  readonly env: Environment;
  readonly log: LeveledLog;
  /** Processes to start, at least one. */
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

/** @throws AppError PORT_IN_USE: workers share their port, and would share it with another program too. */
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
 * Keeps the workers of one gateway running, and holds what they share: the counts of the limits, their messages to each
 * other, their metrics. It takes no client's connection itself.
 */
class Primary {
  readonly #input: PrimaryInput;
  readonly #metrics = new PrometheusMetrics({ processMetrics: true });
  readonly #aggregator = new MetricsAggregator({ isNamed: namedLabels(() => this.#config) });
  readonly #counts: SharedCounts;
  readonly #ports = new Map<string, Port>();
  readonly #failed = Promise.withResolvers<never>();
  readonly #slots: readonly WorkerSlot[];
  readonly reload: Reload;
  #config: Config;
  #workerConfig: Config;
  /** Where all workers listen; 0 until the first of them has chosen. */
  #gatewayPort: number;

  constructor(input: PrimaryInput) {
    const { config, log, workers, load } = input;
    this.#input = input;
    this.#config = config;
    this.#gatewayPort = config.gateway.port;
    this.#workerConfig = shareOf(config, workers, this.#gatewayPort);
    this.#counts = new SharedCounts(
      { maxKeys: config.limits.maxClients, hashSeed: randomInt(2 ** 32) },
      { clock: systemClock },
    );
    this.#failed.promise.catch(() => {});
    const group = randomUUID();
    this.#slots = Array.from({ length: workers }, (_, at) => this.#createSlot({ index: at + 1, group }));
    const apply = (next: Config): Promise<void> => this.#apply(next);
    this.reload = createReloader(config, { load, apply, log, metrics: this.#metrics }).reload;
  }

  get config(): Config {
    return this.#config;
  }

  /** Rejects when no worker can be kept running. */
  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  dumpMetrics(): Promise<MetricsDump> {
    return this.#metrics.dump();
  }

  /** The metrics of all workers and of the primary, added up. */
  summedMetrics(): MetricsText {
    return { render: () => this.#renderMetrics(), contentType: this.#aggregator.contentType };
  }

  /** @throws AppError what keeps a worker from starting. */
  async startWorkers(): Promise<{ readonly gatewayPort: number; readonly adminPort: number | undefined }> {
    const { config, workers } = this.#input;
    const [first, ...others] = this.#slots;
    if (first === undefined) throw new AppError("INTERNAL", { message: "There are no workers to start." });
    const choosesPort = config.gateway.port === 0;
    const starting = choosesPort ? [] : others.map((slot) => slot.start());
    const [{ gatewayPort, adminPort }] = await Promise.all([first.start(), ...starting]);
    if (choosesPort) {
      // The first one was given a port that was free: the others need the same. With a shared handle they get it anyway.
      if (CAN_REUSE_PORT) this.#gatewayPort = gatewayPort;
      this.#workerConfig = shareOf(config, workers, this.#gatewayPort);
      await Promise.all(others.map((slot) => slot.start()));
    }
    return { gatewayPort, adminPort };
  }

  async stopWorkers(): Promise<void> {
    await Promise.all(this.#slots.map((slot) => slot[Symbol.asyncDispose]()));
  }

  #createSlot(options: SlotOptions): WorkerSlot {
    const { log } = this.#input;
    return new WorkerSlot(options, {
      clock: systemClock,
      log,
      config: () => this.#workerConfig,
      stopTimeoutMs: () => this.#config.gateway.shutdownTimeoutMs + STOP_GRACE_MS,
      handlers: { reload: () => this.reload("admin") },
      onFork: (id, port) => {
        this.#ports.set(id, port);
        port.subscribe((message) => this.#onMessage(id, port, message));
      },
      onExit: (id) => {
        this.#ports.delete(id);
        this.#aggregator.retire(id);
      },
      onRestart: () => this.#metrics.count(workerRestartsTotal),
      onFailure: (error, inRow) => {
        log.error({ error: isAppError(error) ? error.message : String(error), inRow }, "a worker cannot be started");
        if (inRow >= MAX_FAILED_STARTS && this.#live().length === 0) this.#failed.reject(error);
      },
    });
  }

  #live(): readonly LiveWorker[] {
    return this.#slots.flatMap((slot) => slot.live ?? []);
  }

  #onMessage(id: string, port: Port, message: unknown): void {
    const verdicts = this.#counts.answer(message);
    if (verdicts !== undefined) {
      port.send(verdicts);
      return;
    }
    if (isRecord(message) && message.to === "metrics") this.#keepDump(id, message.dump);
    passOn(message, this.#portsExcept(id));
  }

  *#portsExcept(id: string): Iterable<Port> {
    for (const [other, port] of this.#ports) if (other !== id) yield port;
  }

  #keepDump(id: string, value: unknown): void {
    const dump = readMetricsDump(value);
    if (dump !== undefined && this.#ports.has(id)) this.#aggregator.put(id, dump);
  }

  /** Puts a configuration into effect in all workers, or in none. */
  async #apply(next: Config): Promise<void> {
    const { env, workers, log } = this.#input;
    requireRunnable(next, env, "gateway");
    const before = this.#workerConfig;
    // Workers that start from now on have it from the start.
    this.#workerConfig = shareOf(next, workers, this.#gatewayPort);
    const reloaded = this.#live();
    const isLive = (worker: LiveWorker): boolean => this.#live().includes(worker);
    const faults = await reloadWorkers(reloaded, this.#workerConfig, isLive);
    if (faults.length === 0) {
      this.#config = next;
      log.setLevel(next.log.level);
      return;
    }
    this.#workerConfig = before;
    await reloadWorkers(reloaded, before, isLive);
    throw new AppError("CONFIG_INVALID", { message: faults.join("\n"), detail: { faults } });
  }

  /** Asks all workers for what they counted; one that does not answer counts as it did last. */
  async #renderMetrics(): Promise<string> {
    const live = this.#live();
    this.#metrics.set(workersUp, live.length);
    await Promise.allSettled(
      live.map(async ({ id, calls }) => this.#keepDump(id, await calls.call("metrics", {}, METRICS_TIMEOUT_MS))),
    );
    this.#aggregator.put("primary", await this.#metrics.dump());
    return this.#aggregator.render();
  }
}

/**
 * Starts the workers of one gateway, and the server of their metrics.
 * @throws AppError what keeps the first worker from starting; PORT_IN_USE.
 */
export async function startWorkers(input: PrimaryInput): Promise<WorkersService> {
  const { config, env, log, workers } = input;
  requireRunnable(config, env, "gateway");
  await requireFreePort(config.gateway.host, config.gateway.port);
  // The admin port is one handle that workers share; the gateway's own they open themselves.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  const primary = new Primary(input);
  await using stack = new AsyncDisposableStack();
  const { host, port } = config.gateway.metrics;
  const { allowedHosts } = config;
  const metrics = primary.summedMetrics();
  const { port: metricsPort } = stack.use(await startMetricsServer({ host, port, allowedHosts }, { metrics, log }));
  stack.defer(() => primary.stopWorkers());
  const { gatewayPort, adminPort } = await primary.startWorkers();
  log.info({ workers, gatewayPort, metricsPort }, "all workers listen");
  const owned = stack.move();
  return {
    gatewayPort,
    metricsPort,
    adminPort,
    reload: primary.reload,
    failed: primary.failed,
    config: () => primary.config,
    dumpMetrics: () => primary.dumpMetrics(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
