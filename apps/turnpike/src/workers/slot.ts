import cluster, { type Worker } from "node:cluster";
import { randomUUID } from "node:crypto";
import { AppError, type Clock, isRecord, type Log } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import type { Port } from "@turnpike/gateway";
import { type CallHandler, createCalls } from "./calls.ts";
import type { LiveWorker } from "./live-worker.ts";
import { processPort } from "./process-port.ts";
import { reloadWorker } from "./reload-workers.ts";

export interface SlotModules {
  readonly clock: Clock;
  readonly log: Log;
  /** The configuration for workers that is in effect now. */
  readonly config: () => Config;
  /** Time for a worker to end by itself, now. */
  readonly stopTimeoutMs: () => number;
  /** What workers call. */
  readonly handlers: Readonly<Record<string, CallHandler>>;
  /** Called with each process before it starts to serve: its messages may come at once. */
  readonly onFork: (id: string, port: Port) => void;
  /** Called when a process has ended. */
  readonly onExit: (id: string) => void;
  /** Called when it was started again. */
  readonly onRestart: () => void;
  /** Called each time that it cannot be started. */
  readonly onFailure: (error: unknown, inRow: number) => void;
}

export interface SlotOptions {
  /** From 1; for logs. */
  readonly index: number;
  /** Name of this machine's workers among those of other machines. */
  readonly group: string;
}

const START_TIMEOUT_MS = 120_000;
const BACKOFF_MS = { least: 100, most: 30_000 };
const BEAT_EVERY_MS = 5_000;
/** Time without an answer, twice in a row, after which a worker hangs: far above what any work of one turn takes. */
const HUNG_MS = 10_000;
/** A worker that lived for so long did not die of its start. */
const SETTLED_MS = 10_000;

/** One place for a worker: starts a process, and another one when that ends. */
export class WorkerSlot implements AsyncDisposable {
  readonly #options: SlotOptions;
  readonly #modules: SlotModules;
  #live: LiveWorker | undefined;
  #worker: Worker | undefined;
  #exited: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #pulse: NodeJS.Timeout | undefined;
  #inRow = 0;
  #isStopping = false;

  constructor(options: SlotOptions, modules: SlotModules) {
    this.#options = options;
    this.#modules = modules;
  }

  /** The worker that serves now; undefined while there is none. */
  get live(): LiveWorker | undefined {
    return this.#live;
  }

  /** Starts the worker for the first time. @throws AppError why it cannot. */
  async start(): Promise<LiveWorker> {
    const live = await this.#launch();
    this.#adopt(live);
    return live;
  }

  /** A worker that hangs would keep its share of the connections waiting: it is ended, and another one started. */
  #adopt(live: LiveWorker): void {
    this.#live = live;
    const worker = this.#worker;
    const isDeaf = (): Promise<boolean> =>
      live.calls.call("ping", {}, HUNG_MS).then(
        () => false,
        () => true,
      );
    let isAsking = false;
    const beat = async (): Promise<void> => {
      if (isAsking) return;
      isAsking = true;
      // Asked twice: after a stop of the whole machine or container, time is up for all whom it kept from answering.
      const hangs = (await isDeaf()) && (await isDeaf());
      isAsking = false;
      if (!hangs) return;
      if (this.#isStopping || this.#live !== live) return;
      this.#modules.log.error({ worker: this.#options.index }, "a worker hangs, and is ended");
      worker?.process.kill("SIGKILL");
    };
    clearInterval(this.#pulse);
    this.#pulse = setInterval(() => void beat(), BEAT_EVERY_MS);
    this.#pulse.unref();
  }

  async #launch(): Promise<LiveWorker> {
    const { onFork, onExit, handlers, config, clock, log } = this.#modules;
    const { index, group } = this.#options;
    const id = randomUUID();
    const worker = cluster.fork();
    const port = processPort(worker.process);
    const calls = createCalls(port, handlers);
    const startMs = clock.monotonicMs();
    this.#worker = worker;
    const { promise: exited, resolve: exit } = Promise.withResolvers<readonly unknown[]>();
    worker.once("exit", (...how: unknown[]) => exit(how));
    worker.on("error", (error) => {
      log.error({ worker: index, error: String(error) }, "a worker failed");
      // One that could not be spawned has no exit.
      if (worker.process.pid === undefined) exit([]);
    });
    this.#exited = exited.then(([code, signal]) => {
      calls.close();
      onExit(id);
      const isServing = this.#live?.id === id;
      if (isServing) this.#live = undefined;
      if (this.#isStopping) return;
      // The failure of one that did not come to serve is thrown by its start.
      if (!isServing) return;
      log.warn({ worker: index, pid: worker.process.pid, code, signal }, "a worker ended");
      if (clock.monotonicMs() - startMs >= SETTLED_MS) this.#inRow = 0;
      this.#again();
    });
    onFork(id, port);
    try {
      let sent = config();
      const where = await calls.call("start", { id, index, group, config: sent }, START_TIMEOUT_MS);
      // A reload that came meanwhile.
      while (sent !== config()) {
        sent = config();
        const faults = await reloadWorker({ calls }, sent);
        if (faults.length > 0 && sent === config()) throw new AppError("PART_FAILED", { message: faults.join("\n") });
      }
      const { gatewayPort, adminPort } = isRecord(where) ? where : {};
      if (typeof gatewayPort !== "number") throw new AppError("PART_FAILED", { message: "A worker did not start." });
      return { id, port, calls, gatewayPort, adminPort: typeof adminPort === "number" ? adminPort : undefined };
    } catch (error) {
      worker.process.kill("SIGKILL");
      await this.#exited;
      throw error;
    }
  }

  /** Starts a worker in the place of one that ended, the later the more often that was needed. */
  #again(): void {
    const { least, most } = BACKOFF_MS;
    const delayMs = Math.min(most, least * 2 ** Math.min(this.#inRow, 16));
    this.#inRow++;
    this.#timer = setTimeout(() => {
      void this.#restart();
    }, delayMs);
  }

  async #restart(): Promise<void> {
    const { onRestart, onFailure, log } = this.#modules;
    try {
      this.#adopt(await this.#launch());
      onRestart();
      log.info({ worker: this.#options.index }, "a worker was started again");
    } catch (error) {
      if (this.#isStopping) return;
      onFailure(error, this.#inRow);
      if (!this.#isStopping) this.#again();
    }
  }

  /** Lets the worker end: calls under way first, within the time. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#timer);
    clearInterval(this.#pulse);
    const worker = this.#worker;
    if (worker === undefined || worker.isDead()) return;
    worker.process.send?.({ to: "stop" }, undefined, undefined, () => {});
    const cut = setTimeout(() => worker.process.kill("SIGKILL"), this.#modules.stopTimeoutMs());
    await this.#exited;
    clearTimeout(cut);
  }
}
