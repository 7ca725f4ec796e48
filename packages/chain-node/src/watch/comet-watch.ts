import { isAppError, type Log, type Metrics } from "@turnpike/base";
import { type CometRpc, unreachable } from "../abci/comet-rpc.ts";
import { RpcValue } from "../abci/rpc-read.ts";
import { paced, timerWait, type Wait } from "../engine/pacer.ts";
import {
  chainCatchingUp,
  chainEngineUp,
  chainMempoolBytes,
  chainMempoolTxs,
  chainPeers,
  chainValidators,
} from "../metrics.ts";

export interface CometWatchOptions {
  /** Time between two looks; 5 s by default. */
  readonly everyMs?: number;
}

export interface CometWatchModules {
  /** Becomes the watch's own, and ends with it: its time and size limits are those of a look. */
  readonly rpc: CometRpc;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly wait?: Wait;
}

/** What CometBFT says of itself. */
export interface CometFacts {
  readonly peers: number;
  /** Undefined where it has none yet. */
  readonly validators: number | undefined;
  readonly mempoolTxs: number;
  readonly mempoolBytes: number;
  readonly isCatchingUp: boolean;
}

const EVERY_MS = 5_000;
// CometBFT starts after us, and may be busy for a moment.
const WARN_AFTER = 3;
const GONE_WITH_IT = [chainPeers, chainValidators, chainMempoolTxs, chainMempoolBytes, chainCatchingUp];

/** Asks CometBFT's RPC for what the application cannot know: peers, mempool, whether it catches up. */
export class CometWatch implements AsyncDisposable {
  readonly #rpc: CometRpc;
  readonly #metrics: Metrics;
  readonly #log: Log;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #facts: CometFacts | undefined;
  #failures = 0;

  constructor({ everyMs }: CometWatchOptions, { rpc, metrics, log, wait }: CometWatchModules) {
    this.#rpc = rpc;
    this.#metrics = metrics;
    this.#log = log;
    const modules = { wait: wait ?? timerWait };
    this.#running = paced(everyMs ?? EVERY_MS, () => this.#look(), this.#stop.signal, modules);
  }

  /** What it said last; undefined while it does not answer. */
  get facts(): CometFacts | undefined {
    return this.#facts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    // Ends a question that is under way.
    this.#rpc[Symbol.dispose]();
    await this.#running;
  }

  async #look(): Promise<void> {
    try {
      const facts = await this.#ask();
      if (this.#failures >= WARN_AFTER) this.#log.info({ ...facts }, "CometBFT answers again");
      this.#failures = 0;
      this.#show(facts);
    } catch (cause) {
      if (this.#stop.signal.aborted) return;
      if (!isAppError(cause, "CHAIN_UNREACHABLE")) throw cause;
      this.#failures++;
      // The stack would say nothing: it is always this place.
      const error = cause.cause instanceof Error ? cause.cause.message : cause.message;
      if (this.#failures === WARN_AFTER) this.#log.warn({ error }, "CometBFT's RPC does not answer");
      this.#showNone();
    }
  }

  async #ask(): Promise<CometFacts> {
    const [status, net, mempool, set] = await Promise.all([
      this.#get("status", {}),
      this.#get("net_info", {}),
      this.#get("num_unconfirmed_txs", {}),
      // Refused before the first block.
      this.#rpc.call("validators", { page: "1", per_page: "1" }),
    ]);
    return {
      peers: net.at("n_peers").number(),
      validators: set.ok ? new RpcValue(set.result, "result").at("total").number() : undefined,
      mempoolTxs: mempool.at("total").number(),
      mempoolBytes: mempool.at("total_bytes").number(),
      isCatchingUp: status.at("sync_info").at("catching_up").boolean(),
    };
  }

  async #get(method: string, params: Readonly<Record<string, unknown>>): Promise<RpcValue> {
    const answer = await this.#rpc.call(method, params);
    if (!answer.ok) throw unreachable(`CometBFT refused ${method}: ${answer.text}.`);
    return new RpcValue(answer.result, "result");
  }

  #show(facts: CometFacts): void {
    this.#facts = facts;
    this.#metrics.set(chainEngineUp, 1);
    this.#metrics.set(chainPeers, facts.peers);
    this.#metrics.set(chainMempoolTxs, facts.mempoolTxs);
    this.#metrics.set(chainMempoolBytes, facts.mempoolBytes);
    this.#metrics.set(chainCatchingUp, facts.isCatchingUp ? 1 : 0);
    if (facts.validators === undefined) this.#metrics.remove?.(chainValidators, {});
    else this.#metrics.set(chainValidators, facts.validators);
  }

  /** Nothing is known: an old figure would look like a new one. */
  #showNone(): void {
    this.#facts = undefined;
    this.#metrics.set(chainEngineUp, 0);
    for (const spec of GONE_WITH_IT) this.#metrics.remove?.(spec, {});
  }
}
