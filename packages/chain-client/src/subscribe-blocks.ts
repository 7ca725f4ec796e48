import { setTimeout as delay } from "node:timers/promises";
import { AppError, type Log, silentLog } from "@turnpike/base";
import { BlockSocket } from "./block-socket.ts";
import { ChainRpc } from "./rpc.ts";
import { nanosOfTime, recordOf, recordsOf, textOf, wholeOf } from "./rpc-values.ts";

/** A block that was committed. */
export interface BlockMark {
  readonly heightBlocks: bigint;
  /** Of its header: 64 upper-case hex digits. */
  readonly hash: string;
  /** Nanoseconds since 1970. */
  readonly timeNanos: bigint;
  readonly chainId: string;
}

export interface SubscribeBlocksOptions {
  /** The node's RPC: `http://127.0.0.1:26657`. */
  readonly url: string;
  /** First block that is wanted; without one the newest. */
  readonly fromHeightBlocks?: bigint;
  /** Ends the subscription, without an error. */
  readonly signal?: AbortSignal;
  /**
   * Between pings, and between questions for the newest height. A node that answers no ping is given up, and so is a
   * subscription that has not named a block which the node had an interval before. 10,000 by default.
   */
  readonly pingMs?: number;
  /** First pause before another connection, doubled up to 5,000; 100 by default. */
  readonly retryMs?: number;
}

export interface SubscribeBlocksModules {
  readonly log?: Log;
}

/** Blocks that are asked for at once, which is all that waits here. CometBFT answers no more. */
const PAGE_BLOCKS = 20n;
/** Of several nodes behind one address one may lag; one that is further behind is of another chain, or one before was. */
const MOST_LAG_BLOCKS = 20n;
const PING_MS = 10_000;
const LONGEST_RETRY_MS = 5_000;

interface Page extends BlockMark {
  readonly previousHash: string;
}

function marksOf(answer: Readonly<Record<string, unknown>>): Page[] {
  const marks = recordsOf(answer.block_metas).map(({ block_id: id, header: given }) => {
    const header = recordOf(given);
    return {
      heightBlocks: wholeOf(header.height),
      hash: textOf(recordOf(id).hash),
      timeNanos: nanosOfTime(textOf(header.time)),
      chainId: textOf(header.chain_id),
      previousHash: textOf(recordOf(header.last_block_id).hash),
    };
  });
  return marks.sort((a, b) => (a.heightBlocks < b.heightBlocks ? -1 : 1));
}

/** One WebSocket, and what it should have named by now. */
interface Connection {
  /** Newest height that it named, or that the node had when the subscription began. */
  heardBlocks: bigint;
  /** Newest height that the node had when it was last asked. */
  dueBlocks: bigint;
  readonly end: (reason: string) => void;
}

function heard(connection: Connection, heightBlocks: bigint): void {
  if (heightBlocks > connection.heardBlocks) connection.heardBlocks = heightBlocks;
}

/**
 * Knows how far the chain is: the node names new heights over a WebSocket, which is opened again when it ends. The node is
 * asked now and then too: a WebSocket may be open, answer pings and yet name no block.
 */
class HeightWatch implements AsyncDisposable {
  readonly #options: SubscribeBlocksOptions;
  readonly #rpc: ChainRpc;
  readonly #log: Log;
  readonly #ended = new AbortController();
  readonly #signal: AbortSignal;
  readonly #work: Promise<void>;
  #heightBlocks = 0n;
  /** The newest answer that is far below a height which was named before the node was asked. */
  #lowAnswer: { readonly heightBlocks: bigint; readonly namedBlocks: bigint } | undefined;
  #connection: Connection | undefined;
  #isAsking = false;
  #wake: () => void = () => {};
  #changed: Promise<void>;

  constructor(options: SubscribeBlocksOptions, { rpc, log }: { readonly rpc: ChainRpc; readonly log: Log }) {
    this.#options = options;
    this.#rpc = rpc;
    this.#log = log;
    const { signal } = options;
    this.#signal = signal === undefined ? this.#ended.signal : AbortSignal.any([signal, this.#ended.signal]);
    this.#changed = new Promise((resolve) => {
      this.#wake = resolve;
    });
    this.#signal.addEventListener("abort", () => this.#wake());
    const checks = setInterval(() => void this.#check(), options.pingMs ?? PING_MS);
    this.#work = this.#connect().finally(() => clearInterval(checks));
  }

  get signal(): AbortSignal {
    return this.#signal;
  }

  /**
   * Newest height, as soon as it is at least the wanted one; undefined when the subscription ended.
   * @throws AppError CHAIN_MISMATCH when the node is far below what was named before
   */
  async atLeast(heightBlocks: bigint): Promise<bigint | undefined> {
    while (!this.#signal.aborted && this.#lowAnswer === undefined && this.#heightBlocks < heightBlocks) {
      await this.#changed;
    }
    if (this.#signal.aborted) return undefined;
    if (this.#lowAnswer === undefined) return this.#heightBlocks;
    const { heightBlocks: low, namedBlocks } = this.#lowAnswer;
    throw new AppError("CHAIN_MISMATCH", { message: `The node is at height ${low}; before it was at ${namedBlocks}.` });
  }

  #report(heightBlocks: bigint): void {
    if (heightBlocks <= this.#heightBlocks) return;
    this.#heightBlocks = heightBlocks;
    this.#change();
  }

  #change(): void {
    const wake = this.#wake;
    this.#changed = new Promise((resolve) => {
      this.#wake = resolve;
    });
    wake();
  }

  /** The newest height of the application, whose state is then readable; 0 when the node does not answer. */
  async #askHeight(): Promise<bigint> {
    // Heights that are named while the answer is under way say nothing against it.
    const namedBlocks = this.#heightBlocks;
    const answer = await this.#rpc.call("abci_info", {}, this.#signal).catch(() => undefined);
    const heightBlocks = answer?.ok === true ? wholeOf(recordOf(answer.result.response).last_block_height) : 0n;
    this.#report(heightBlocks);
    const isLow = heightBlocks > 0n && heightBlocks + MOST_LAG_BLOCKS < namedBlocks;
    this.#lowAnswer = isLow ? { heightBlocks, namedBlocks } : undefined;
    if (isLow) this.#change();
    return heightBlocks;
  }

  /** What was committed before the subscription began is not named by it. */
  async #catchUp(connection: Connection): Promise<void> {
    heard(connection, await this.#askHeight());
  }

  async #check(): Promise<void> {
    const connection = this.#connection;
    if (connection !== undefined && connection.dueBlocks > connection.heardBlocks) {
      connection.end(`it has not named block ${connection.dueBlocks}`);
    }
    if (this.#isAsking) return;
    this.#isAsking = true;
    const dueBlocks = await this.#askHeight();
    this.#isAsking = false;
    if (connection !== undefined) connection.dueBlocks = dueBlocks;
  }

  async #connect(): Promise<void> {
    const { url, pingMs = PING_MS, retryMs = 100 } = this.#options;
    let pauseMs = retryMs;
    while (!this.#signal.aborted) {
      const over = Promise.withResolvers<string>();
      const connection: Connection = { heardBlocks: 0n, dueBlocks: 0n, end: over.resolve };
      this.#connection = connection;
      const socket = new BlockSocket(
        { url, pingMs },
        {
          subscribed: () => {
            pauseMs = retryMs;
            void this.#catchUp(connection);
          },
          height: (heightBlocks) => {
            heard(connection, heightBlocks);
            this.#report(heightBlocks);
          },
          closed: over.resolve,
        },
        { log: this.#log },
      );
      const stop = (): void => socket[Symbol.dispose]();
      this.#signal.addEventListener("abort", stop, { once: true });
      const reason = await over.promise;
      this.#signal.removeEventListener("abort", stop);
      this.#connection = undefined;
      stop();
      if (this.#signal.aborted) return;
      this.#log.warn({ reason, pauseMs }, "the chain's subscription ended; it is opened again");
      await delay(pauseMs, undefined, { signal: this.#signal }).catch(() => {});
      pauseMs = Math.min(pauseMs * 2, LONGEST_RETRY_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort();
    await this.#work;
  }
}

/** A page of blocks; none when the node does not answer or has none of them yet. */
async function pageOf(rpc: ChainRpc, first: bigint, last: bigint, signal: AbortSignal): Promise<Page[]> {
  const params = { minHeight: `${first}`, maxHeight: `${last}` };
  const answer = await rpc.call("blockchain", params, signal).catch(() => undefined);
  return answer?.ok === true ? marksOf(answer.result) : [];
}

/**
 * The chain's blocks, every height exactly once and in order, over restarts of the node and lost connections. At most one
 * page of blocks waits here: who reads slowly reads later, not less.
 * @throws AppError HEIGHT_UNAVAILABLE when the node has dropped a block that is wanted, CHAIN_MISMATCH when a block does not
 * follow the one before, or the node is far below what it had, USAGE when the URL is none
 */
export async function* subscribeBlocks(
  options: SubscribeBlocksOptions,
  { log = silentLog }: SubscribeBlocksModules,
): AsyncGenerator<BlockMark, void, undefined> {
  await using rpc = new ChainRpc({ url: options.url, connections: 1 });
  await using watch = new HeightWatch(options, { rpc, log });
  let next = options.fromHeightBlocks;
  let previousHash: string | undefined;
  for (;;) {
    const newest = await watch.atLeast(next ?? 1n);
    if (newest === undefined) return;
    next ??= newest;
    const last = next + PAGE_BLOCKS - 1n < newest ? next + PAGE_BLOCKS - 1n : newest;
    const page = await pageOf(rpc, next, last, watch.signal);
    if (page.length === 0) {
      await delay(options.retryMs ?? 100, undefined, { signal: watch.signal }).catch(() => {});
    }
    for (const { previousHash: before, ...mark } of page) {
      if (watch.signal.aborted) return;
      if (mark.heightBlocks !== next) {
        const message = `The node has no block ${next} any more; the next that it has is ${mark.heightBlocks}.`;
        throw new AppError("HEIGHT_UNAVAILABLE", { message });
      }
      if (previousHash !== undefined && before !== previousHash) {
        throw new AppError("CHAIN_MISMATCH", { message: `Block ${next} of the node does not follow the one before.` });
      }
      previousHash = mark.hash;
      next += 1n;
      yield mark;
    }
  }
}
