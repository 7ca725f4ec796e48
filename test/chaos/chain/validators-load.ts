import { setTimeout as delay } from "node:timers/promises";
import { isAppError, systemClock } from "@turnpike/base";
import { ChainClient, type ChainSigner, signTx } from "@turnpike/chain-client";
import { bank, base, createMessage, packAny } from "@turnpike/proto";

/** Options of {@link SteadyLoad}. */
export interface SteadyLoadOptions {
  readonly chainId: string;
  /** Who pays, and its account's number. */
  readonly signer: ChainSigner;
  readonly accountNumber: bigint;
  /** Who is paid. */
  readonly to: string;
  /** Pause between transactions, in milliseconds. */
  readonly everyMs: number;
  /** RPC of the nodes that are there now; they take turns. */
  readonly targets: () => readonly string[];
}

// The chain takes ten minutes from its newest block, which lies back while it stands still.
const TIMEOUT_NANOS = 300_000_000_000n;
const ASK_MS = 3_000;
const LOOK_MS = 200;
/** Oldest transactions that are looked for at once. */
const LOOKED_FOR = 10;
const GAS = 300_000n;

/**
 * Transfers at a steady pace, each to the next node, and what became of them. They are unordered: what a node that dies
 * takes with it holds up no other.
 */
export class SteadyLoad implements AsyncDisposable {
  /** Height by hash, of transactions that a node said are in a block. */
  readonly told = new Map<string, bigint>();
  /** Hashes that a node took into its mempool and that no node has named since. */
  readonly pending = new Set<string>();
  /** What nodes refused, as text. */
  readonly refused: string[] = [];
  sent = 0;
  readonly #options: SteadyLoadOptions;
  readonly #stopping = new AbortController();
  readonly #clients = new Map<string, ChainClient>();
  readonly #sending: Promise<void>;
  readonly #looking: Promise<void>;
  #isDone = false;
  #mark = 0n;

  constructor(options: SteadyLoadOptions) {
    this.#options = options;
    this.#sending = this.#send();
    this.#looking = this.#look();
  }

  /** Sends no more, and waits until what is pending is in blocks, or the time is over. */
  async drain(timeoutMs: number): Promise<void> {
    this.#stopping.abort();
    await this.#sending;
    const endMs = performance.now() + timeoutMs;
    while (this.pending.size > 0 && performance.now() < endMs) await delay(LOOK_MS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    this.#isDone = true;
    await Promise.all([this.#sending, this.#looking]);
    for (const client of this.#clients.values()) await client[Symbol.asyncDispose]();
  }

  #client(turn: number): ChainClient | undefined {
    const urls = this.#options.targets();
    const url = urls[turn % urls.length];
    if (url === undefined) return undefined;
    const client = this.#clients.get(url) ?? new ChainClient({ url, timeoutMs: ASK_MS }, { clock: systemClock });
    this.#clients.set(url, client);
    return client;
  }

  #tx(): Uint8Array {
    const { signer, to, chainId, accountNumber } = this.#options;
    const send = createMessage(bank.MsgSendSchema, {
      fromAddress: signer.address,
      toAddress: to,
      amount: [createMessage(base.CoinSchema, { denom: "upokt", amount: "1" })],
    });
    // The chain tells an account's unordered transactions apart by this time alone.
    const timeoutNanos = BigInt(Date.now()) * 1_000_000n + TIMEOUT_NANOS + this.#mark++;
    const fee = [{ denom: "upokt", amount: 1n }];
    const unsigned = { messages: [packAny(bank.MsgSendSchema, send)], chainId, accountNumber, gasLimit: GAS, fee };
    return signTx({ ...unsigned, order: { kind: "unordered", timeoutNanos } }, signer);
  }

  async #send(): Promise<void> {
    const { signal } = this.#stopping;
    for (let turn = 0; !signal.aborted; turn++) {
      const client = this.#client(turn);
      try {
        if (client !== undefined) {
          this.sent++;
          const { hash, code, log } = await client.broadcast(this.#tx());
          if (code === 0) this.pending.add(hash);
          else this.refused.push(log);
        }
      } catch (error) {
        // The node died meanwhile, or is cut off.
        if (isAppError(error, "TX_FAILED")) this.refused.push(error.message);
        else if (!isAppError(error, "CHAIN_UNREACHABLE")) throw error;
      }
      await delay(this.#options.everyMs, undefined, { signal }).catch(() => {});
    }
  }

  async #look(): Promise<void> {
    for (let turn = 0; !this.#isDone; turn++) {
      const client = this.#client(turn);
      for (const hash of [...this.pending].slice(0, LOOKED_FOR)) {
        const found = await client?.tx(hash).catch((error: unknown) => {
          if (isAppError(error)) return undefined;
          throw error;
        });
        if (found === undefined) continue;
        if (found.code !== 0) this.refused.push(found.log);
        this.told.set(hash, found.heightBlocks);
        this.pending.delete(hash);
      }
      // What was never gossiped must not hide what was.
      const [oldest] = this.pending;
      if (oldest !== undefined && this.pending.size > LOOKED_FOR) {
        this.pending.delete(oldest);
        this.pending.add(oldest);
      }
      await delay(LOOK_MS);
    }
  }
}
