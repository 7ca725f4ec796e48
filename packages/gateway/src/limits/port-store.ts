import type { Log, Metrics } from "@turnpike/base";
import { limitStoreFailures } from "../metrics/gateway-metrics.ts";
import type { Port } from "../sharing/port.ts";
import type { LimitStore, StoreLimit, StoreVerdict } from "./store.ts";
import { readVerdict, readVerdicts, type TakesMessage, type TakeWire, takeToWire } from "./take-wire.ts";

/** Options of {@link createPortStore}. */
export interface PortStoreOptions {
  /** Longest wait for one answer. */
  readonly timeoutMs: number;
}

/** A store at the other end of a port, which also takes note of what another store let pass. */
export interface PortStore extends LimitStore {
  /** Counts items there without asking. */
  note(limits: readonly StoreLimit[], items: number): void;
}

interface Waiting {
  readonly limits: number;
  readonly resolve: (verdict: StoreVerdict | undefined) => void;
}

/** Messages without an answer after which nothing is asked until one comes. */
const MAX_FAILURES = 3;
const RETRY_MS = 1_000;
/** Takes in one message; more are not counted there. */
const MAX_IN_TURN = 10_000;

/**
 * Asks the counts that the primary of this machine holds. All takes of one turn of the event loop go in one message. A
 * primary that does not answer in time is left alone after three messages, but for a knock a second.
 */
export function createPortStore(
  opts: PortStoreOptions,
  modules: { readonly port: Port; readonly log: Log; readonly metrics: Metrics },
): PortStore {
  const { port, log, metrics } = modules;
  const pending = new Map<number, { readonly takes: readonly Waiting[]; readonly timer: NodeJS.Timeout }>();
  let nextId = 1;
  let takes: TakeWire[] = [];
  let notes: TakeWire[] = [];
  let waiting: Waiting[] = [];
  let turn: NodeJS.Immediate | undefined;
  let failures = 0;
  let retry: NodeJS.Timeout | undefined;
  let isEnded = false;

  const end = (id: number): readonly Waiting[] => {
    const batch = pending.get(id);
    pending.delete(id);
    clearTimeout(batch?.timer);
    return batch?.takes ?? [];
  };

  /** A message with nothing in it, to see whether it is answered. */
  const knock = (): void => void port.send({ to: "limits", id: nextId++, takes: [], notes: [] } satisfies TakesMessage);

  const fail = (lost: readonly Waiting[], cause: string): void => {
    if (lost.length > 0) metrics.count(limitStoreFailures, { cause });
    if (++failures === MAX_FAILURES) log.warn({ cause }, "the primary does not answer; limits go on without it");
    if (failures >= MAX_FAILURES) retry ??= setInterval(knock, RETRY_MS).unref();
    for (const { resolve } of lost) resolve(undefined);
  };

  const flush = (): void => {
    turn = undefined;
    const id = nextId++;
    const asked = waiting;
    const message: TakesMessage = { to: "limits", id, takes, notes };
    [takes, notes, waiting] = [[], [], []];
    if (!port.send(message)) {
      fail(asked, "end");
      return;
    }
    if (asked.length === 0) return;
    // What has arrived is read before time is called: that this process was busy is not the primary's fault.
    const timer = setTimeout(() => setImmediate(() => pending.has(id) && fail(end(id), "timeout")), opts.timeoutMs);
    pending.set(id, { takes: asked, timer });
  };

  const schedule = (): void => {
    turn ??= setImmediate(flush);
  };

  const unsubscribe = port.subscribe((message) => {
    const reply = readVerdicts(message);
    if (reply === undefined) return;
    if (failures >= MAX_FAILURES) log.info({}, "the primary answers again; limits are shared");
    failures = 0;
    clearInterval(retry);
    retry = undefined;
    for (const [at, { limits, resolve }] of end(reply.id).entries()) resolve(readVerdict(reply.verdicts[at], limits));
  });

  return {
    isUp: () => !isEnded && failures < MAX_FAILURES,
    take(limits, items) {
      if (isEnded || takes.length >= MAX_IN_TURN) return Promise.resolve(undefined);
      takes.push(takeToWire(limits, items));
      const { promise, resolve } = Promise.withResolvers<StoreVerdict | undefined>();
      waiting.push({ limits: limits.length, resolve });
      schedule();
      return promise;
    },
    note(limits, items) {
      if (isEnded || notes.length >= MAX_IN_TURN) return;
      notes.push(takeToWire(limits, items));
      schedule();
    },
    async [Symbol.asyncDispose]() {
      isEnded = true;
      clearImmediate(turn);
      clearInterval(retry);
      unsubscribe();
      for (const { resolve } of [...waiting, ...[...pending.keys()].flatMap((id) => end(id))]) resolve(undefined);
    },
  };
}

/**
 * A store whose place another one takes while it fails: limits that a deployment shares fall back to those that a machine
 * shares, as long as `mayFallBack`. What the first one let pass is noted in the second. Owns neither.
 */
export function withFallback(first: LimitStore, second: PortStore, mayFallBack: () => boolean): LimitStore {
  const isSecond = (): boolean => mayFallBack() && second.isUp();
  return {
    isUp: () => first.isUp() || isSecond(),
    async take(limits, items) {
      const verdict = first.isUp() ? await first.take(limits, items) : undefined;
      if (verdict === undefined) return isSecond() ? second.take(limits, items) : undefined;
      if (verdict.refusedBy === -1) second.note(limits, items);
      return verdict;
    },
    async [Symbol.asyncDispose]() {},
  };
}
