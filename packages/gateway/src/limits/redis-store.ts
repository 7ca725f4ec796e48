import { createHash } from "node:crypto";
import { isRecord, type Log, type Metrics } from "@turnpike/base";
import { gatewayLimitStoreFailuresTotal, gatewayLimitStoreUp } from "../metrics/gateway-metrics.ts";
import {
  CONNECT_TIMEOUT_MS,
  createRedisClient,
  destroyRedisClient,
  ReconnectLoop,
  type RedisClient,
  within,
} from "../sharing/redis-connection.ts";
import { readVerdict as readNumbers } from "./consume-messages.ts";
import { CONSUME_SCRIPT } from "./script.ts";
import { tickMsOf } from "./sliding-window.ts";
import type { LimitStore, StoreLimit, StoreVerdict } from "./types.ts";

interface RedisStoreOptions {
  /** `redis://` or `rediss://`. */
  readonly url: string;
  /** Start of every key. */
  readonly keyPrefix: string;
  /** Longest wait for one answer. */
  readonly timeoutMs: number;
}

const SHA = createHash("sha1").update(CONSUME_SCRIPT).digest("hex");
/** Failures in a row after which the connection is given up. */
const MAX_FAILURES = 3;
const MAX_QUEUE = 10_000;

const isNoScript = (error: unknown): boolean => error instanceof Error && error.message.startsWith("NOSCRIPT");

/** Why it failed, without addresses: a code of Node's, the first word of Redis' own error, or `error`. */
function causeOf(error: unknown): string {
  if (isRecord(error) && typeof error.code === "string") return error.code;
  const word = error instanceof Error ? /^[A-Z]{3,16}(?= )/.exec(error.message)?.[0] : undefined;
  return word ?? "error";
}

/**
 * Counts in one Redis (5 or newer; not a cluster). It connects in the background: a Redis that is away, hangs or answers
 * with errors is detected within three requests, is not asked while it is so, and is used again once it answers.
 */
export class RedisStore implements LimitStore {
  readonly #opts: RedisStoreOptions;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #loop: ReconnectLoop;
  #client: RedisClient | undefined;
  #failures = 0;

  constructor(opts: RedisStoreOptions, modules: { readonly log: Log; readonly metrics: Metrics }) {
    this.#opts = opts;
    this.#log = modules.log;
    this.#metrics = modules.metrics;
    this.#metrics.set(gatewayLimitStoreUp, 0);
    this.#loop = new ReconnectLoop(() => this.#connect());
  }

  isUp(): boolean {
    return this.#client !== undefined;
  }

  async consume(limits: readonly StoreLimit[], items: number): Promise<StoreVerdict | undefined> {
    const client = this.#client;
    if (client === undefined) return undefined;
    const { keyPrefix, timeoutMs } = this.#opts;
    const args = [
      String(limits.length),
      ...limits.map(({ key }) => `${keyPrefix}:${key}`),
      String(items),
      ...limits.flatMap(({ requests, windowMs }) => [requests, windowMs, tickMsOf(windowMs)].map(String)),
    ];
    let cause = "timeout";
    const asked = runScript(client, args).catch((error: unknown) => {
      cause = causeOf(error);
    });
    const verdict = readVerdict(await within(asked, timeoutMs), limits.length);
    if (verdict === undefined) this.#onFailure(client, cause);
    else if (client === this.#client) {
      this.#failures = 0;
      this.#loop.resetBackoff();
    }
    return verdict;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const stopped = this.#loop.stop();
    if (this.#client !== undefined) this.#onLost(this.#client, "end");
    await stopped;
  }

  async #connect(): Promise<boolean> {
    const client = await createRedisClient(this.#opts.url, "turnpike-limits", MAX_QUEUE);
    let cause = "timeout";
    client.on("error", (error: unknown) => {
      cause = causeOf(error);
      this.#onLost(client, cause);
    });
    client.on("end", () => this.#onLost(client, "end"));
    const opening = (async () => {
      await client.connect();
      return await client.sendCommand(["SCRIPT", "LOAD", CONSUME_SCRIPT]);
    })().catch((error: unknown) => {
      cause = causeOf(error);
    });
    const loaded = await within(opening, CONNECT_TIMEOUT_MS);
    if (loaded === undefined || this.#loop.isStopped) {
      destroyRedisClient(client);
      this.#metrics.count(gatewayLimitStoreFailuresTotal, { cause });
      this.#log.debug({ cause }, "the store of the limits cannot be reached");
      return false;
    }
    this.#failures = 0;
    this.#client = client;
    this.#metrics.set(gatewayLimitStoreUp, 1);
    this.#log.info({}, "connected to the store of the limits: limits are shared");
    return true;
  }

  #onFailure(client: RedisClient, cause: string): void {
    this.#metrics.count(gatewayLimitStoreFailuresTotal, { cause });
    if (client === this.#client && ++this.#failures >= MAX_FAILURES) this.#onLost(client, cause);
  }

  #onLost(client: RedisClient, cause: string): void {
    if (client !== this.#client) return;
    this.#client = undefined;
    this.#metrics.set(gatewayLimitStoreUp, 0);
    if (!this.#loop.isStopped)
      this.#log.warn({ cause }, "the connection to the store of the limits is lost: limits are applied without it");
    destroyRedisClient(client);
    this.#loop.onLost();
  }
}

async function runScript(client: RedisClient, args: readonly string[]): Promise<unknown> {
  try {
    return await client.sendCommand(["EVALSHA", SHA, ...args]);
  } catch (error) {
    if (!isNoScript(error)) throw error;
    return await client.sendCommand(["EVAL", CONSUME_SCRIPT, ...args]);
  }
}

function readVerdict(reply: unknown, limits: number): StoreVerdict | undefined {
  const verdict = Array.isArray(reply) ? readNumbers(reply.map(Number), limits) : undefined;
  // Lua counts from one.
  return verdict === undefined ? undefined : { ...verdict, refusedBy: verdict.refusedBy - 1 };
}
