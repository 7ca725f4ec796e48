import { randomInt } from "node:crypto";
import { AppError, bytesToHex, type FaultPoints, isAppError, type Log, type Metrics } from "@turnpike/base";
import {
  type Amount,
  type BlockMark,
  type ChainClient,
  type ChainSigner,
  type IncludedTx,
  signTx,
  type TxOrder,
  type UnsignedTx,
  unorderedUntil,
  usualFee,
} from "@turnpike/chain-client";
import { sha256 } from "@turnpike/crypto";
import type { Any } from "@turnpike/proto";
import { supplierTxsTotal } from "../metrics.ts";

/** What a transaction holds. */
export type TxKind = "claim" | "proof";

/** A message that is wanted in a block. */
export interface WantedMessage {
  /** The same for the same message of the same session: while a transaction with it is under way no other is made. */
  readonly key: string;
  /** Made when a transaction is. Undefined: it cannot be made. */
  readonly message: () => Promise<Any | undefined>;
  /** True when the chain accepts it only from the next block on: then it cannot be simulated. */
  readonly isEarly: boolean;
}

/** A transaction that ended. */
export interface EndedTx {
  readonly kind: TxKind;
  /** Of its messages. */
  readonly keys: readonly string[];
  readonly feeUpokt: bigint;
  readonly isGood: boolean;
}

interface OperatorTxsOptions {
  readonly signer: ChainSigner;
  /** How long after the newest block's time a transaction may be included; 120,000 by default. */
  readonly txTimeoutMs?: number;
  /** Most messages of one transaction; 100 by default. */
  readonly maxMessages?: number;
  /** Fee for so much gas; one upokt for a million units by default. */
  readonly feeFor?: (gasLimit: bigint) => readonly Amount[];
}

interface OperatorTxsModules {
  readonly client: ChainClient;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
  /** Ends what waits for the node. */
  readonly signal: AbortSignal;
}

interface PendingTx {
  readonly kind: TxKind;
  readonly keys: readonly string[];
  readonly hash: string;
  readonly bytes: Uint8Array;
  readonly feeUpokt: bigint;
  readonly sentAtBlocks: bigint;
  readonly timeoutNanos: bigint;
  broadcastAtBlocks: bigint;
}

const NANOS_PER_SECOND = 1_000_000_000;
const TX_TIMEOUT_MS = 120_000;
const MAX_MESSAGES = 100;
/** A node's mempool accepts a megabyte. */
const MAX_BYTES = 1_000_000;
/** A transaction that is in no block after so many may have been dropped: another one is made. */
const GIVE_UP_BLOCKS = 3n;
/** Percent of the simulated gas. */
const GAS_ADJUSTMENT = 150n;
/** Gas of one message that cannot be simulated. */
const BLIND_GAS: Readonly<Record<TxKind, bigint>> = { claim: 300_000n, proof: 600_000n };
/** The chain charges ten a byte. */
const BLIND_GAS_PER_BYTE = 15n;
/** Longest wait for all transactions that are looked up after a block. */
const RECONCILE_MS = 5_000;
const KNOWN = /already exists in cache/;

/**
 * Claims and proofs of one operator on their way into blocks. Each call is made again after every block until its messages
 * are seen on the chain: a transaction that is under way is sent again as it is, one that failed or vanished is replaced.
 */
export class OperatorTxs {
  readonly #options: Required<OperatorTxsOptions>;
  readonly #client: ChainClient;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #faults: FaultPoints;
  readonly #signal: AbortSignal;
  readonly #pending = new Map<string, PendingTx>();
  #mark = randomInt(NANOS_PER_SECOND);
  #account: { readonly chainId: string; readonly accountNumber: bigint } | undefined;

  constructor(options: OperatorTxsOptions, { client, log, metrics, faults, signal }: OperatorTxsModules) {
    this.#options = { txTimeoutMs: TX_TIMEOUT_MS, maxMessages: MAX_MESSAGES, feeFor: usualFee, ...options };
    this.#client = client;
    this.#log = log;
    this.#metrics = metrics;
    this.#faults = faults;
    this.#signal = signal;
  }

  /** Looks which transactions are in a block by now. One that is in none after its timeout can be in none later. */
  async reconcile({ timeNanos }: BlockMark): Promise<readonly EndedTx[]> {
    const ended: EndedTx[] = [];
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(RECONCILE_MS)]);
    for (const tx of new Set(this.#pending.values())) {
      const found = await this.#client.tx(tx.hash, signal).catch(() => undefined);
      if (found !== undefined || timeNanos >= tx.timeoutNanos) this.#drop(tx);
      if (found === undefined) continue;
      const { kind, keys, feeUpokt } = tx;
      const isGood = found.code === 0;
      this.#count(kind, isGood ? "included" : "failed");
      if (!isGood) this.#sayFailed(kind, found);
      ended.push({ kind, keys, feeUpokt, isGood });
    }
    return ended;
  }

  /** Sees to it that messages get into a block. Faults are logged: the next block brings another attempt. */
  async send(kind: TxKind, wanted: readonly WantedMessage[], newest: BlockMark): Promise<void> {
    const fresh: WantedMessage[] = [];
    const again = new Set<PendingTx>();
    for (const item of wanted) {
      const pending = this.#pending.get(item.key);
      if (pending === undefined) fresh.push(item);
      else if (this.#isOver(pending, newest)) {
        this.#drop(pending);
        fresh.push(item);
      } else again.add(pending);
    }
    for (const pending of again) await this.#sendAgain(pending, newest);
    for (const early of [true, false]) {
      const items = fresh.filter(({ isEarly }) => isEarly === early);
      if (items.length > 0) await this.#sendNew(kind, items, newest);
    }
  }

  #isOver({ sentAtBlocks, timeoutNanos }: PendingTx, newest: BlockMark): boolean {
    return newest.heightBlocks >= sentAtBlocks + GIVE_UP_BLOCKS || newest.timeNanos >= timeoutNanos;
  }

  async #sendAgain(pending: PendingTx, { heightBlocks }: BlockMark): Promise<void> {
    if (pending.broadcastAtBlocks >= heightBlocks) return;
    pending.broadcastAtBlocks = heightBlocks;
    await this.#broadcast(pending, "sent-again");
  }

  async #sendNew(kind: TxKind, wanted: readonly WantedMessage[], newest: BlockMark): Promise<void> {
    let batch: { key: string; message: Any }[] = [];
    let bytes = 0;
    const isEarly = wanted[0]?.isEarly === true;
    const flush = async (): Promise<void> => {
      if (batch.length > 0) await this.#sendBatch(kind, batch, newest, isEarly);
      batch = [];
      bytes = 0;
    };
    for (const { key, message } of wanted) {
      const made = await message();
      if (made === undefined) continue;
      if (batch.length >= this.#options.maxMessages || bytes + made.value.length > MAX_BYTES) await flush();
      batch.push({ key, message: made });
      bytes += made.value.length;
    }
    await flush();
  }

  async #sendBatch(
    kind: TxKind,
    batch: readonly { readonly key: string; readonly message: Any }[],
    newest: BlockMark,
    isEarly: boolean,
  ): Promise<void> {
    let pending: PendingTx;
    try {
      pending = await this.#sign(kind, batch, newest, isEarly);
    } catch (cause) {
      if (!isAppError(cause, "TX_FAILED")) {
        this.#count(kind, "unreachable");
        this.#log.warn(
          { cause, kind, messages: batch.length },
          "a transaction cannot be made; the next block brings another attempt",
        );
        return;
      }
      // One message that the chain refuses must not keep the others out.
      if (batch.length > 1) {
        for (const one of batch) await this.#sendBatch(kind, [one], newest, isEarly);
        return;
      }
      this.#count(kind, "refused");
      this.#log.error({ kind, text: cause.message, session: batch[0]?.key }, "the chain refuses a claim or proof");
      return;
    }
    for (const { key } of batch) this.#pending.set(key, pending);
    await this.#faults.reach(kind === "claim" ? "supplier.claim.signed" : "supplier.proof.signed");
    await this.#broadcast(pending, "sent");
    await this.#faults.reach(kind === "claim" ? "supplier.claim.sent" : "supplier.proof.sent");
  }

  async #sign(
    kind: TxKind,
    batch: readonly { readonly key: string; readonly message: Any }[],
    newest: BlockMark,
    isEarly: boolean,
  ): Promise<PendingTx> {
    const { signer, feeFor, txTimeoutMs } = this.#options;
    const { chainId, accountNumber } = await this.#known();
    this.#mark = (this.#mark + 1) % NANOS_PER_SECOND;
    const timeoutNanos = unorderedUntil(newest.timeNanos, txTimeoutMs, this.#mark);
    const order: TxOrder = { kind: "unordered", timeoutNanos };
    const messages = batch.map(({ message }) => message);
    const shared: Omit<UnsignedTx, "gasLimit" | "fee"> = { messages, chainId, accountNumber, order };
    const blind = messages.reduce(
      (sum, { value }) => sum + BLIND_GAS[kind] + BLIND_GAS_PER_BYTE * BigInt(value.length),
      0n,
    );
    const trial = isEarly ? undefined : signTx({ ...shared, gasLimit: 0n, fee: feeFor(1n) }, signer);
    const gasLimit =
      trial === undefined ? blind : ((await this.#client.simulate(trial, this.#signal)) * GAS_ADJUSTMENT) / 100n;
    const fee = feeFor(gasLimit);
    const bytes = signTx({ ...shared, gasLimit, fee }, signer);
    const feeUpokt = fee.reduce((sum, { denom, amount }) => (denom === "upokt" ? sum + amount : sum), 0n);
    const { heightBlocks } = newest;
    return {
      kind,
      keys: batch.map(({ key }) => key),
      hash: bytesToHex(sha256(bytes)).toUpperCase(),
      bytes,
      feeUpokt,
      sentAtBlocks: heightBlocks,
      timeoutNanos,
      broadcastAtBlocks: heightBlocks,
    };
  }

  async #known(): Promise<{ readonly chainId: string; readonly accountNumber: bigint }> {
    if (this.#account !== undefined) return this.#account;
    const { signer } = this.#options;
    const [{ chainId }, account] = await Promise.all([
      this.#client.status(this.#signal),
      this.#client.account(signer.address, this.#signal),
    ]);
    if (account === undefined) {
      const message = `${signer.address} has no account on the chain: it cannot pay for claims; send it coins.`;
      throw new AppError("TX_FAILED", { message, detail: { missingAccount: signer.address } });
    }
    this.#account = { chainId, accountNumber: account.accountNumber };
    return this.#account;
  }

  async #broadcast(pending: PendingTx, outcome: "sent" | "sent-again"): Promise<void> {
    const { kind, bytes, keys } = pending;
    try {
      const { code, codespace, log, hash } = await this.#client.broadcast(bytes, this.#signal);
      if (code === 0) {
        this.#count(kind, outcome);
        this.#log.info({ kind, hash, messages: keys.length }, "a transaction was sent");
        return;
      }
      this.#drop(pending);
      this.#count(kind, "refused");
      this.#log.error({ kind, code, codespace, text: log }, "the node refuses a transaction");
    } catch (cause) {
      // The node has it; whether it is still in the mempool shows in the next blocks.
      if (isAppError(cause, "TX_FAILED") && KNOWN.test(cause.message)) return;
      this.#count(kind, "unreachable");
      this.#log.warn(
        { cause, kind },
        "whether a transaction was sent is not known; the next block brings another attempt",
      );
    }
  }

  #sayFailed(kind: TxKind, { code, codespace, log, hash }: IncludedTx): void {
    this.#log.error({ kind, code, codespace, text: log, hash }, "a transaction failed in its block");
  }

  #drop(pending: PendingTx): void {
    for (const key of pending.keys) {
      if (this.#pending.get(key) === pending) this.#pending.delete(key);
    }
  }

  #count(kind: TxKind, outcome: string): void {
    this.#metrics.count(supplierTxsTotal, { kind, outcome });
  }
}
