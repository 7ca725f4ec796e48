import { AppError, type Clock } from "@turnpike/base";
import { Batcher } from "../batcher.ts";
import type { BoundedMap } from "../bounded-map.ts";
import type { EvmRpc } from "../evm/rpc.ts";
import { type ChainAccess, hasCode } from "./reading.ts";

interface Question {
  readonly account: string;
  readonly settle: (answer: Promise<boolean>) => void;
}

const MAX_BATCH = 98;

/** Reads of one chain which accounts have code; many questions share one exchange. */
export class CodeReader {
  readonly #maxQueued: number;
  readonly #access: ChainAccess;
  readonly #noCode: BoundedMap<string, true>;
  readonly #clock: Clock;
  readonly #batcher: Batcher<Question>;
  readonly #asked = new Map<string, Promise<boolean>>();

  /** `noCode` is shared with the checker of plain accounts: one that had no code lately is not asked for again. */
  constructor(
    opts: { readonly maxExchanges: number; readonly maxQueued: number },
    modules: { readonly access: ChainAccess; readonly noCode: BoundedMap<string, true>; readonly clock: Clock },
  ) {
    this.#maxQueued = opts.maxQueued;
    this.#access = modules.access;
    this.#noCode = modules.noCode;
    this.#clock = modules.clock;
    const bounds = { maxBatch: MAX_BATCH, maxRunning: opts.maxExchanges };
    this.#batcher = new Batcher(bounds, (batch) => this.#exchange(batch));
  }

  /** @throws AppError SETTLEMENT_UNAVAILABLE when the chain does not answer, OVERLOADED when too many wait. */
  hasCode(named: string): Promise<boolean> {
    const account = named.toLowerCase();
    if (this.#noCode.get(account, this.#clock.monotonicMs()) === true) return Promise.resolve(false);
    const asked = this.#asked.get(account);
    if (asked !== undefined) return asked;
    if (this.#batcher.waiting >= this.#maxQueued) return Promise.reject(new AppError("OVERLOADED"));
    const { promise: answer, resolve: settle } = Promise.withResolvers<boolean>();
    this.#asked.set(account, answer);
    this.#batcher.add({ account, settle });
    return answer;
  }

  async #exchange(batch: readonly Question[]): Promise<void> {
    const replies = this.#access.rpc.batch(
      batch.map(({ account }) => ({ method: "eth_getCode", params: [account, "latest"] })),
    );
    for (const [at, { account, settle }] of batch.entries()) {
      this.#asked.delete(account);
      settle(this.#read(account, at, replies));
    }
    await replies.catch(() => undefined);
  }

  async #read(account: string, at: number, replies: ReturnType<EvmRpc["batch"]>): Promise<boolean> {
    const found = hasCode((await replies)[at], this.#access);
    if (!found) this.#noCode.set(account, true, this.#clock.monotonicMs());
    return found;
  }
}
