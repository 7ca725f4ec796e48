// The whole module, not its function: mock timers of tests replace the property.
import timers from "node:timers/promises";
import { AppError, type Clock, isAppError } from "@turnpike/base";
import type { ChildExit } from "@turnpike/localnet";

/** A part that runs. */
export interface RunningPart {
  /** Resolves when it has ended, wanted or not. A part inside this process never does. */
  readonly exited: Promise<ChildExit>;
  /** Resolves when it answers. Must give up when `signal` fires. */
  ready(signal: AbortSignal): Promise<void>;
  /** True when it answers anything at all before `signal` fires: one that hangs is ended and started again. */
  probe?(signal: AbortSignal): Promise<boolean>;
  /** Ends it in good order. Does nothing when it has ended. */
  stop(): Promise<void>;
  /** Ends it at once. */
  kill(): Promise<void>;
}

/** Something that `up` runs: a server, or a job that is done once at each start. */
export interface Part {
  readonly name: string;
  /** Most milliseconds until it is ready for the first time; 60,000 by default. */
  readonly readyTimeoutMs?: number;
  /** Where to look when it fails. */
  readonly logFile?: string;
  /** The last words of a part that has failed; empty when there are none. */
  lastWords?(): Promise<string>;
  start(): Promise<RunningPart>;
}

/** What happens to a part. */
export interface PartEvent {
  readonly part: string;
  readonly kind: "starting" | "ready" | "failed" | "died" | "restarted" | "stopped";
  /** How long it took, where it took something. */
  readonly tookMs?: number;
  /** What happened, in words. */
  readonly text?: string;
}

export interface SupervisorOptions {
  /** Parts of one stage start together, when all parts of the stages before answer. They stop in reverse. */
  readonly stages: readonly (readonly Part[])[];
  /** Pause before the first restart; it doubles with each death; 250 by default. */
  readonly firstPauseMs?: number;
  /** Longest pause; 10,000 by default. */
  readonly longestPauseMs?: number;
  /** A part that has run for so long starts again with the first pause; 30,000 by default. */
  readonly steadyMs?: number;
  /** Milliseconds between probes of a part; 5,000 by default. */
  readonly probeMs?: number;
  /** Maximum milliseconds for the answer to a probe; 10,000 by default. */
  readonly probeTimeoutMs?: number;
  /** Most milliseconds for a part to stop before it is ended by force; 15,000 by default. */
  readonly stopTimeoutMs?: number;
}

export interface SupervisorModules {
  readonly clock: Clock;
  readonly onEvent: (event: PartEvent) => void;
}

interface Slot {
  readonly part: Part;
  running: RunningPart | undefined;
  watch: Promise<void> | undefined;
}

/** Probes in a row without an answer after which a part hangs: a loaded machine may miss one. */
const MAX_SILENT_PROBES = 3;

/** Resolves never: the `exited` of a part that has no process. */
export const neverExits: Promise<ChildExit> = new Promise(() => {});

function exitText(exit: ChildExit): string {
  return exit.signal === null ? `ended with code ${exit.code ?? "unknown"}` : `was ended by ${exit.signal}`;
}

/** Starts parts in order, starts again what dies, and stops everything in reverse order. */
export class Supervisor implements AsyncDisposable {
  readonly #options: Required<SupervisorOptions>;
  readonly #modules: SupervisorModules;
  readonly #slots: readonly (readonly Slot[])[];
  readonly #stopping = new AbortController();
  readonly #forced = new AbortController();

  constructor(options: SupervisorOptions, modules: SupervisorModules) {
    this.#options = {
      firstPauseMs: 250,
      longestPauseMs: 10_000,
      steadyMs: 30_000,
      probeMs: 5_000,
      probeTimeoutMs: 10_000,
      stopTimeoutMs: 15_000,
      ...options,
    };
    this.#modules = modules;
    this.#slots = options.stages.map((stage) => stage.map((part) => ({ part, running: undefined, watch: undefined })));
  }

  /**
   * Starts every part once. From then on those that die are started again.
   * @throws AppError of the first part that does not start or does not answer. Call {@link stop} all the same.
   */
  async start(): Promise<void> {
    const { onEvent } = this.#modules;
    for (const stage of this.#slots) {
      const results = await Promise.allSettled(stage.map((slot) => this.#startFirst(slot)));
      const faults = results.filter((result) => result.status === "rejected").map((result): unknown => result.reason);
      for (const fault of faults.slice(1)) {
        // A caller that stops the supervisor needs no report of it.
        if (isAppError(fault) && fault.code !== "SHUTTING_DOWN")
          onEvent({ part: "up", kind: "failed", text: fault.message });
      }
      if (faults.length > 0) throw faults[0];
    }
  }

  async #startFirst(slot: Slot): Promise<void> {
    const { part } = slot;
    const { clock, onEvent } = this.#modules;
    const { signal } = this.#stopping;
    if (signal.aborted) throw new AppError("SHUTTING_DOWN", { message: "Stopped while starting." });
    const startMs = clock.monotonicMs();
    onEvent({ part: part.name, kind: "starting" });
    const running = await part.start();
    if (signal.aborted) {
      // stop() has been here already, and found nothing to stop
      await running.stop();
      throw new AppError("SHUTTING_DOWN", { message: "Stopped while starting." });
    }
    slot.running = running;
    const timeoutMs = part.readyTimeoutMs ?? 60_000;
    const giveUp = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const see = part.logFile === undefined ? "" : ` See ${part.logFile}.`;
    const end = new AbortController();
    try {
      await Promise.race([
        running.ready(AbortSignal.any([giveUp, end.signal])),
        running.exited.then(async (exit) => {
          const words = (await part.lastWords?.()) ?? "";
          const message = `${part.name} ${exitText(exit)} while starting.${words === "" ? "" : ` ${words}`}${see}`;
          throw new AppError("PART_FAILED", { message });
        }),
      ]);
    } catch (error) {
      if (signal.aborted) throw new AppError("SHUTTING_DOWN", { message: "Stopped while starting." });
      if (!giveUp.aborted || isAppError(error)) throw error;
      throw new AppError("DEADLINE_EXCEEDED", {
        message: `${part.name} did not answer within ${Math.round(timeoutMs / 1000)} s.${see}`,
        cause: error,
      });
    } finally {
      end.abort();
    }
    onEvent({ part: part.name, kind: "ready", tookMs: clock.monotonicMs() - startMs });
    slot.watch = this.#watch(slot, running);
  }

  async #watch(slot: Slot, first: RunningPart): Promise<void> {
    const { part } = slot;
    const { clock, onEvent } = this.#modules;
    const { signal } = this.#stopping;
    const { firstPauseMs, longestPauseMs, steadyMs } = this.#options;
    const stopped = new Promise<undefined>((resolve) => {
      signal.addEventListener("abort", () => resolve(undefined), { once: true });
    });
    let running: RunningPart | undefined = first;
    let deaths = 0;
    let startMs = clock.monotonicMs();
    while (!signal.aborted) {
      if (running !== undefined) {
        const over = new AbortController();
        const hung = this.#endWhenSilent(running, AbortSignal.any([signal, over.signal]));
        const exit: ChildExit | undefined = await Promise.race([running.exited, stopped]);
        over.abort();
        if (exit === undefined || signal.aborted) return;
        const isHung = await hung;
        slot.running = undefined;
        if (clock.monotonicMs() - startMs >= steadyMs) deaths = 0;
        // one that was killed had no time for last words
        const words = exit.signal === null ? ((await part.lastWords?.()) ?? "").split("\n", 1) : [];
        onEvent({
          part: part.name,
          kind: "died",
          text: [isHung ? "did not answer, and was ended" : exitText(exit), ...words].filter(Boolean).join(": "),
        });
      }
      const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(deaths++, 16));
      try {
        await timers.setTimeout(pauseMs, undefined, { signal });
      } catch {
        return;
      }
      startMs = clock.monotonicMs();
      running = await this.#startAgain(slot);
    }
  }

  /** Ends a part that answers no probe. Resolves to true when it did so, to false when the signal fires. */
  async #endWhenSilent(running: RunningPart, signal: AbortSignal): Promise<boolean> {
    if (running.probe === undefined) return false;
    const { probeMs, probeTimeoutMs } = this.#options;
    let hasAnswered = false;
    for (let silent = 0; silent < MAX_SILENT_PROBES; ) {
      try {
        await timers.setTimeout(probeMs, undefined, { signal });
      } catch {
        return false;
      }
      const late = AbortSignal.any([signal, AbortSignal.timeout(probeTimeoutMs)]);
      const isAnswered = await running.probe(late).catch(() => false);
      if (signal.aborted) return false;
      // A start may take long: only one that did answer can hang.
      hasAnswered ||= isAnswered;
      silent = isAnswered || !hasAnswered ? 0 : silent + 1;
    }
    await running.kill();
    return true;
  }

  async #startAgain(slot: Slot): Promise<RunningPart | undefined> {
    const { part } = slot;
    const { clock, onEvent } = this.#modules;
    const startMs = clock.monotonicMs();
    try {
      const running = await part.start();
      slot.running = running;
      const report = (): void => onEvent({ part: part.name, kind: "restarted", tookMs: clock.monotonicMs() - startMs });
      // not awaited: what it waits for may be another part that is being started again
      running.ready(AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(600_000)])).then(report, () => {});
      return running;
    } catch (error) {
      slot.running = undefined;
      onEvent({ part: part.name, kind: "died", text: error instanceof Error ? error.message : String(error) });
      return undefined;
    }
  }

  /** Stops every part, the last stage first. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const stage of this.#slots.toReversed()) {
      await Promise.all(stage.map((slot) => this.#stopOne(slot)));
    }
  }

  async #stopOne(slot: Slot): Promise<void> {
    await slot.watch;
    const { running } = slot;
    if (running === undefined) return;
    slot.running = undefined;
    const late = AbortSignal.any([AbortSignal.timeout(this.#options.stopTimeoutMs), this.#forced.signal]);
    const isLate = new Promise<"late">((resolve) => {
      if (late.aborted) resolve("late");
      late.addEventListener("abort", () => resolve("late"), { once: true });
    });
    const stopped = running.stop().catch(() => "late" as const);
    if ((await Promise.race([stopped, isLate])) === "late") await running.kill();
    this.#modules.onEvent({ part: slot.part.name, kind: "stopped" });
  }

  /** Makes a {@link stop} that is under way end everything by force. */
  force(): void {
    this.#forced.abort();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}
