import { createHash } from "node:crypto";
import { isRecord, type Log, type Metrics } from "@turnpike/base";
import { limitStoreFailures, limitStoreUp } from "../metrics/gateway-metrics.ts";
import { TAKE_SCRIPT } from "./script.ts";
import { tickMsOf } from "./sliding-window.ts";
import type { LimitStore, StoreVerdict } from "./store.ts";
import { readVerdict as readNumbers } from "./take-wire.ts";

/** Options of {@link createRedisStore}. */
export interface RedisStoreOptions {
  /** `redis://` or `rediss://`. */
  readonly url: string;
  /** Start of every key. */
  readonly keyPrefix: string;
  /** Longest wait for one answer. */
  readonly timeoutMs: number;
}

const SHA = createHash("sha1").update(TAKE_SCRIPT).digest("hex");
const CONNECT_TIMEOUT_MS = 1_000;
const BACKOFF_MS = { least: 100, most: 2_000 };
/** Failures in a row after which the connection is given up. */
const MAX_FAILURES = 3;
const MAX_QUEUE = 10_000;

const newClient = async (url: string) => {
  // Hundreds of modules, which a process without Redis does not need.
  const { createClient } = await import("@redis/client");
  return createClient({
    url,
    RESP: 2,
    name: "turnpike-limits",
    disableClientInfo: true,
    disableOfflineQueue: true,
    commandsQueueMaxLength: MAX_QUEUE,
    maintNotifications: "disabled",
    socket: { connectTimeout: CONNECT_TIMEOUT_MS, reconnectStrategy: false, noDelay: true },
  });
};
type Client = Awaited<ReturnType<typeof newClient>>;

const isNoScript = (error: unknown): boolean => error instanceof Error && error.message.startsWith("NOSCRIPT");

/** Why it failed, without addresses: a code of Node's, the first word of Redis' own error, or `error`. */
function causeOf(error: unknown): string {
  if (isRecord(error) && typeof error.code === "string") return error.code;
  const word = error instanceof Error ? /^[A-Z]{3,16}(?= )/.exec(error.message)?.[0] : undefined;
  return word ?? "error";
}

/**
 * Resolves with undefined when the time is over first. What has arrived is read before time is called: that this process
 * was busy is not the server's fault.
 */
async function within<T>(work: Promise<T>, timeoutMs: number): Promise<T | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(setImmediate, timeoutMs, resolve, undefined);
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Counts in one Redis (5 or newer; not a cluster). It connects in the background and for ever: a Redis that is away, hangs
 * or answers with errors is found out within three requests, is then left alone, and is used again once it answers.
 */
export function createRedisStore(
  opts: RedisStoreOptions,
  modules: { readonly log: Log; readonly metrics: Metrics },
): LimitStore {
  const { log, metrics } = modules;
  const ended = new AbortController();
  let client: Client | undefined;
  let failures = 0;
  let backoffMs = BACKOFF_MS.least;
  let wake: () => void = () => {};

  const fail = (cause: string, from: Client): void => {
    metrics.count(limitStoreFailures, { cause });
    if (from === client && ++failures >= MAX_FAILURES) giveUp(from, cause);
  };

  const giveUp = (from: Client, cause: string): void => {
    if (from !== client) return;
    client = undefined;
    metrics.set(limitStoreUp, 0);
    if (!ended.signal.aborted) log.warn({ cause }, "the store of the limits is away; limits go on without it");
    destroy(from);
    wake();
  };

  const connect = async (): Promise<void> => {
    const fresh = await newClient(opts.url);
    let cause = "timeout";
    fresh.on("error", (error: unknown) => {
      cause = causeOf(error);
      giveUp(fresh, cause);
    });
    fresh.on("end", () => giveUp(fresh, "end"));
    const opening = (async () => {
      await fresh.connect();
      return await fresh.sendCommand(["SCRIPT", "LOAD", TAKE_SCRIPT]);
    })().catch((error: unknown) => {
      cause = causeOf(error);
    });
    const loaded = await within(opening, CONNECT_TIMEOUT_MS);
    if (loaded === undefined || ended.signal.aborted) {
      destroy(fresh);
      metrics.count(limitStoreFailures, { cause });
      log.debug({ cause }, "the store of the limits cannot be reached");
      return;
    }
    failures = 0;
    client = fresh;
    metrics.set(limitStoreUp, 1);
    log.info({}, "limits are shared");
  };

  const keepConnected = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      const lost = Promise.withResolvers<void>();
      wake = lost.resolve;
      await connect();
      if (client !== undefined) await lost.promise;
      if (ended.signal.aborted) return;
      const rest = Promise.withResolvers<void>();
      wake = rest.resolve;
      await within(rest.promise, backoffMs);
      backoffMs = Math.min(backoffMs * 2, BACKOFF_MS.most);
    }
  };

  const ask = async (from: Client, args: readonly string[]): Promise<unknown> => {
    try {
      return await from.sendCommand(["EVALSHA", SHA, ...args]);
    } catch (error) {
      if (!isNoScript(error)) throw error;
      return await from.sendCommand(["EVAL", TAKE_SCRIPT, ...args]);
    }
  };

  metrics.set(limitStoreUp, 0);
  const keeping = keepConnected();

  return {
    isUp: () => client !== undefined,
    async take(limits, items) {
      const from = client;
      if (from === undefined) return undefined;
      const args = [
        String(limits.length),
        ...limits.map(({ key }) => `${opts.keyPrefix}:${key}`),
        String(items),
        ...limits.flatMap(({ requests, windowMs }) => [requests, windowMs, tickMsOf(windowMs)].map(String)),
      ];
      let cause = "timeout";
      const asked = ask(from, args).catch((error: unknown) => {
        cause = causeOf(error);
      });
      const verdict = readVerdict(await within(asked, opts.timeoutMs), limits.length);
      if (verdict === undefined) fail(cause, from);
      else if (from === client) {
        failures = 0;
        backoffMs = BACKOFF_MS.least;
      }
      return verdict;
    },
    async [Symbol.asyncDispose]() {
      ended.abort();
      if (client !== undefined) giveUp(client, "end");
      wake();
      await keeping;
    },
  };
}

function destroy(client: Client): void {
  try {
    if (client.isOpen) client.destroy();
  } catch {
    // It has closed itself.
  }
}

function readVerdict(reply: unknown, limits: number): StoreVerdict | undefined {
  const verdict = Array.isArray(reply) ? readNumbers(reply.map(Number), limits) : undefined;
  // Lua counts from one.
  return verdict === undefined ? undefined : { ...verdict, refusedBy: verdict.refusedBy - 1 };
}
