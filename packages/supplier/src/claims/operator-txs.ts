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
  wasRun,
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
  /** First and last height at which sending it is of use. */
  readonly fromBlocks: bigint;
  readonly toBlocks: bigint;
  /** Gas beyond the usual of its kind; 0 by default. */
  readonly extraGas?: bigint;
  /** Worth of the message: a raised fee is not above it. Undefined: any. */
  readonly valueUpokt?: bigint;
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
  /** Maximum that a fee is raised to as a window ends; 100,000 by default. */
  readonly maxFeeUpokt?: bigint;
}

interface OperatorTxsModules {
  readonly client: ChainClient;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
  /** Ends what waits for the node. */
  readonly signal: AbortSignal;
}

/** A transaction as it is signed with one fee. */
interface SignedVersion {
  readonly hash: string;
  readonly bytes: Uint8Array;
  readonly fee: readonly Amount[];
  readonly feeUpokt: bigint;
}

/**
 * A transaction on its way. Its versions differ in their fees alone and have one timeout, so that the chain takes one of them at
 * most.
 */
interface PendingTx {
  readonly kind: TxKind;
  readonly batch: readonly BatchItem[];
  readonly unsigned: UnsignedTx;
  readonly timeoutNanos: bigint;
  /** The newest first. */
  readonly versions: SignedVersion[];
  sentAtBlocks: bigint;
  broadcastAtBlocks: bigint;
}

interface BatchItem {
  readonly wanted: WantedMessage;
  readonly message: Any;
}

/** A refusal of a transaction, where a smaller one may be accepted. */
interface Refusal {
  /** Codespace and code. Undefined: it is for one of the messages, or for the length. */
  readonly reason: string | undefined;
}

const NANOS_PER_SECOND = 1_000_000_000;
const TX_TIMEOUT_MS = 120_000;
const MAX_MESSAGES = 100;
/**
 * Maximum bytes of the messages of one transaction, where it has several: a simulation sends each byte as two hex digits, and a
 * node's RPC accepts a body of 1,000,000 bytes (`max_body_bytes` of CometBFT).
 */
const MAX_BYTES = 490_000;
/** Growth of the maximum bytes with each transaction that a node accepts, after connections that were lost. */
const GROWTH_BYTES = 10_000;
/** Bytes above which a lost connection may be a node's refusal of the length. */
const LARGE_BYTES = 100_000;
/** HTTP status of a request that a node's RPC, or a proxy before it, does not read: CometBFT's and nginx's for one that is too long. */
const TOO_LONG_STATUS: ReadonlySet<unknown> = new Set([400, 413]);
/**
 * Failures in a row after which no more of new transactions, or of those sent again, is sent before the next block: each may take as
 * long as the node is waited for.
 */
const MAX_FAILURES = 3;
/** Refusals of one message in a row, all for one reason, after which transactions refused for it are not halved. */
const MAX_SINGLE_REFUSALS = 3;
/** Text of a refusal that is for one message of a transaction (`runMsgs` in `baseapp.go` of the SDK). */
const OF_MESSAGE = /message index: \d/;
/** Maximum gas of the messages of one transaction, by the estimate for messages that are not simulated; a block's, where that is less. */
const MAX_GAS = 30_000_000n;
/** Maximum wait for the maximum gas of a block. */
const BLOCK_GAS_MS = 5_000;
/**
 * Refusals by which a node accepts no smaller transaction either: its fee is too low for its gas, or the mempool is full
 * (`types/errors/errors.go` of the SDK).
 */
const REFUSALS_OF_ANY_SIZE: ReadonlySet<number> = new Set([13, 20]);
/** CometBFT's refusal of a transaction above its `max_tx_bytes`, which it gives without a check. */
const TOO_LARGE = /tx too large/i;
/** A transaction that is in no block after so many may have been dropped: another version is made. */
const GIVE_UP_BLOCKS = 3n;
/** Versions of a transaction that are looked up. */
const MAX_VERSIONS = 8;
/** Percent of the simulated gas. */
const GAS_ADJUSTMENT = 150n;
/** Gas of one message that cannot be simulated. */
const BLIND_GAS: Readonly<Record<TxKind, bigint>> = { claim: 300_000n, proof: 600_000n };
/** The chain charges ten for a byte of a transaction, and thirty for one of a proof that it stores. */
const BLIND_GAS_PER_BYTE = 45n;
/** Longest wait for all transactions that are looked up after a block. */
const RECONCILE_MS = 5_000;
const MAX_FEE_UPOKT = 100_000n;
/** Last blocks of a window in which each raises the fee of what is in no block yet, to so many times that of the block before. */
const RAISING_BLOCKS = 4n;
const RAISE_FACTOR = 8n;
const KNOWN = /already exists in cache/;
const NO_REFUSALS = { reason: undefined, count: 0 };

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
  /** Maximum bytes of a transaction's messages: less than {@link MAX_BYTES} after connections that were lost. */
  #maxBytes = MAX_BYTES;
  /** Transactions in a row for which the node could not be reached. */
  #failures = 0;
  /** Refusals of single messages in a row that are for one reason. */
  #singleRefusals: { readonly reason: string | undefined; readonly count: number } = NO_REFUSALS;
  /** Maximum gas of a block as far as it is known; undefined: any. */
  #maxBlockGas: bigint | undefined;
  #account: { readonly chainId: string; readonly accountNumber: bigint } | undefined;

  constructor(options: OperatorTxsOptions, { client, log, metrics, faults, signal }: OperatorTxsModules) {
    this.#options = {
      txTimeoutMs: TX_TIMEOUT_MS,
      maxMessages: MAX_MESSAGES,
      feeFor: usualFee,
      maxFeeUpokt: MAX_FEE_UPOKT,
      ...options,
    };
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
      const included = await this.#includedOf(tx, signal);
      if (included !== undefined || timeNanos >= tx.timeoutNanos) this.#drop(tx);
      if (included === undefined) continue;
      const { kind, batch } = tx;
      const keys = batch.map(({ wanted }) => wanted.key);
      const [{ feeUpokt }, found] = included;
      const isGood = found.code === 0;
      this.#count(kind, isGood ? "included" : "failed");
      if (!isGood) this.#sayFailed(kind, found);
      ended.push({ kind, keys, feeUpokt, isGood });
    }
    return ended;
  }

  async #includedOf({ versions }: PendingTx, signal: AbortSignal): Promise<[SignedVersion, IncludedTx] | undefined> {
    for (const version of versions) {
      const included = await this.#client.tx(version.hash, signal).catch(() => undefined);
      // One that was not run has cost nothing, and is sent again as it is.
      if (included !== undefined && wasRun(included)) return [version, included];
    }
    return undefined;
  }

  /** Sees to it that messages get into a block. Faults are logged: the next block brings another attempt. */
  async send(kind: TxKind, wanted: readonly WantedMessage[], newest: BlockMark): Promise<void> {
    const fresh: WantedMessage[] = [];
    const again = new Set<PendingTx>();
    for (const item of wanted) {
      const pending = this.#pending.get(item.key);
      if (pending === undefined) fresh.push(item);
      else if (newest.timeNanos >= pending.timeoutNanos) {
        this.#drop(pending);
        fresh.push(item);
      } else again.add(pending);
    }
    this.#singleRefusals = NO_REFUSALS;
    if (fresh.length > 0) this.#maxBlockGas = await this.#queryBlockGas();
    for (const early of [true, false]) {
      const items = fresh.filter(({ isEarly }) => isEarly === early);
      if (items.length > 0) await this.#sendNew(kind, items, newest);
    }
    // Behind the new ones: these may be what the node loses connections for.
    await this.#sendAllAgain([...again], newest);
  }

  async #sendAllAgain(again: readonly PendingTx[], newest: BlockMark): Promise<void> {
    this.#failures = 0;
    const ordered = again
      .map((pending) => ({ pending, bytes: bytesOf(pending.batch) }))
      .sort((a, b) => a.bytes - b.bytes);
    for (const { pending } of ordered) {
      if (this.#failures >= MAX_FAILURES) return;
      await this.#sendAgain(pending, newest);
    }
  }

  async #sendAgain(pending: PendingTx, newest: BlockMark): Promise<void> {
    const { heightBlocks } = newest;
    if (pending.broadcastAtBlocks >= heightBlocks) return;
    pending.broadcastAtBlocks = heightBlocks;
    await this.#broadcast(pending, this.#raise(pending, newest) ? "raised" : "sent-again");
  }

  /** Signs a transaction anew with a higher fee, when a window of its messages ends or it may have been dropped. */
  #raise(pending: PendingTx, { heightBlocks }: BlockMark): boolean {
    const { batch, unsigned, versions } = pending;
    const [current] = versions;
    const isOverdue = heightBlocks >= pending.sentAtBlocks + GIVE_UP_BLOCKS;
    const fee = this.#feeAt(unsigned.gasLimit, batch, heightBlocks);
    const isHigher = current === undefined || feeUpoktOf(fee) * 10n >= current.feeUpokt * 11n;
    if (!isHigher && !isOverdue) return false;
    // Another gas limit: a node must not take it for the one that it has seen and lost. A higher one may be above a block's.
    const gasLimit = unsigned.gasLimit - (isHigher ? 0n : BigInt(versions.length));
    versions.unshift(this.#signed({ ...unsigned, gasLimit, fee: isHigher ? fee : (current?.fee ?? fee) }));
    versions.splice(MAX_VERSIONS);
    pending.sentAtBlocks = heightBlocks;
    return true;
  }

  /** The usual fee, raised with each of the last blocks of a window, but for the first height at which there was something to send. */
  #feeAt(gasLimit: bigint, batch: readonly BatchItem[], heightBlocks: bigint): readonly Amount[] {
    const { feeFor, maxFeeUpokt } = this.#options;
    const raises = batch.map(({ wanted: { fromBlocks, toBlocks } }) =>
      least(heightBlocks - fromBlocks, RAISING_BLOCKS - (toBlocks - heightBlocks)),
    );
    const highest = raises.reduce((high, one) => (one > high ? one : high), 0n);
    const worth = batch.reduce((sum, { wanted }) => sum + (wanted.valueUpokt ?? maxFeeUpokt), 0n);
    return feeFor(gasLimit).map(({ denom, amount }) => {
      const raised = least(amount * RAISE_FACTOR ** highest, least(maxFeeUpokt, worth));
      return { denom, amount: denom === "upokt" && raised > amount ? raised : amount };
    });
  }

  /** Maximum gas of a block, which parameters of the consensus may change; the last that was known where the node does not say. */
  async #queryBlockGas(): Promise<bigint | undefined> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(BLOCK_GAS_MS)]);
    try {
      const gas = await this.#client.maxBlockGas(signal);
      return gas < 0n ? undefined : gas;
    } catch (cause) {
      this.#log.debug({ cause }, "the maximum gas of a block is not known");
      return this.#maxBlockGas;
    }
  }

  #withinBlock(gas: bigint): bigint {
    return this.#maxBlockGas === undefined ? gas : least(gas, this.#maxBlockGas);
  }

  /**
   * Sends the smallest messages first, and apart from large ones: a buyer decides on the length of a proof, and one that a node does
   * not read must not keep others back.
   */
  async #sendNew(kind: TxKind, wanted: readonly WantedMessage[], newest: BlockMark): Promise<void> {
    const maxGas = this.#withinBlock(MAX_GAS);
    const isEarly = wanted[0]?.isEarly === true;
    this.#failures = 0;
    let batch: BatchItem[] = [];
    let gas = 0n;
    for (const item of await smallestFirst(wanted)) {
      const bytes = bytesOf(batch);
      const isFull =
        batch.length >= this.#options.maxMessages ||
        bytes + bytesOf([item]) > this.#maxBytes ||
        (bytesOf([item]) > LARGE_BYTES && bytesOf(batch.slice(0, 1)) <= LARGE_BYTES) ||
        gas + estimatedGas(kind, item) > maxGas;
      if (isFull) {
        await this.#sendBatch(kind, batch, newest, isEarly);
        batch = [];
        gas = 0n;
      }
      if (this.#failures >= MAX_FAILURES) return;
      batch.push(item);
      gas += estimatedGas(kind, item);
    }
    await this.#sendBatch(kind, batch, newest, isEarly);
  }

  async #sendBatch(kind: TxKind, batch: readonly BatchItem[], newest: BlockMark, isEarly: boolean): Promise<void> {
    if (batch.length === 0 || this.#failures >= MAX_FAILURES) return;
    const refusal = await this.#sendWhole(kind, batch, newest, isEarly);
    if (refusal === undefined) return;
    const { reason } = refusal;
    const count = reason !== undefined && reason === this.#singleRefusals.reason ? this.#singleRefusals.count : 0;
    if (batch.length === 1) {
      this.#singleRefusals = { reason, count: count + 1 };
      return;
    }
    if (count >= MAX_SINGLE_REFUSALS) {
      this.#log.error({ kind, reason, messages: batch.length }, "the chain refuses transactions of any size");
      return;
    }
    // One message that the chain refuses must not keep the others out, and a smaller transaction may be accepted.
    const half = batch.length >> 1;
    await this.#sendBatch(kind, batch.slice(0, half), newest, isEarly);
    await this.#sendBatch(kind, batch.slice(half), newest, isEarly);
  }

  /** Returns a refusal where parts of the transaction may be accepted. */
  async #sendWhole(
    kind: TxKind,
    batch: readonly BatchItem[],
    newest: BlockMark,
    isEarly: boolean,
  ): Promise<Refusal | undefined> {
    let pending: PendingTx;
    try {
      pending = await this.#sign(kind, batch, newest, isEarly);
    } catch (cause) {
      if (!isRefusal(cause)) {
        this.#failed(kind, batch);
        this.#log.warn(
          { cause, kind, messages: batch.length },
          "a transaction cannot be made; the next block brings another attempt",
        );
        return bytesOf(batch) > LARGE_BYTES ? { reason: undefined } : undefined;
      }
      const isWithoutAccount = cause.detail?.missingAccount !== undefined;
      const refusal = isWithoutAccount ? undefined : { reason: reasonOf(cause, batch) };
      if (batch.length > 1 && refusal !== undefined) return refusal;
      this.#count(kind, "refused");
      this.#log.error(
        { kind, text: cause.message, session: batch[0]?.wanted.key },
        "the chain refuses a claim or proof",
      );
      return refusal;
    }
    for (const { wanted } of batch) this.#pending.set(wanted.key, pending);
    await this.#faults.reach(kind === "claim" ? "supplier.claim.signed" : "supplier.proof.signed");
    const refusal = await this.#broadcast(pending, "sent");
    await this.#faults.reach(kind === "claim" ? "supplier.claim.sent" : "supplier.proof.sent");
    return refusal;
  }

  async #sign(kind: TxKind, batch: readonly BatchItem[], newest: BlockMark, isEarly: boolean): Promise<PendingTx> {
    const { signer, feeFor, txTimeoutMs } = this.#options;
    const { chainId, accountNumber } = await this.#known();
    this.#mark = (this.#mark + 1) % NANOS_PER_SECOND;
    const timeoutNanos = unorderedUntil(newest.timeNanos, txTimeoutMs, this.#mark);
    const order: TxOrder = { kind: "unordered", timeoutNanos };
    const messages = batch.map(({ message }) => message);
    const shared: Omit<UnsignedTx, "gasLimit" | "fee"> = { messages, chainId, accountNumber, order };
    const trial = isEarly ? undefined : signTx({ ...shared, gasLimit: 0n, fee: feeFor(1n) }, signer);
    const simulated = trial === undefined ? undefined : await this.#simulated(trial, batch);
    const gas = simulated ?? batch.reduce((sum, item) => sum + estimatedGas(kind, item), 0n);
    const gasLimit = this.#withinBlock(gas);
    const { heightBlocks } = newest;
    const unsigned: UnsignedTx = { ...shared, gasLimit, fee: this.#feeAt(gasLimit, batch, heightBlocks) };
    const versions = [this.#signed(unsigned)];
    return {
      kind,
      batch,
      unsigned,
      timeoutNanos,
      versions,
      sentAtBlocks: heightBlocks,
      broadcastAtBlocks: heightBlocks,
    };
  }

  /** Gas by a simulation; undefined of a single message that is too long for one: it is sent without. */
  async #simulated(trial: Uint8Array, batch: readonly BatchItem[]): Promise<bigint | undefined> {
    try {
      return ((await this.#client.simulate(trial, this.#signal)) * GAS_ADJUSTMENT) / 100n;
    } catch (cause) {
      this.#signal.throwIfAborted();
      const isLong = isTooLong(cause) || (isAppError(cause, "CHAIN_UNREACHABLE") && bytesOf(batch) > LARGE_BYTES);
      if (batch.length > 1 || !isLong) throw cause;
      this.#log.info({ cause, session: batch[0]?.wanted.key }, "a transaction is sent without a simulation");
      return undefined;
    }
  }

  /** Notes that the node could not be reached. Where that may be for the length of a transaction, the next ones are shorter. */
  #failed(kind: TxKind, batch: readonly BatchItem[]): void {
    this.#failures++;
    this.#count(kind, "unreachable");
    const bytes = bytesOf(batch);
    if (batch.length > 1 && bytes > LARGE_BYTES) this.#maxBytes = bytes >> 1;
  }

  #signed(tx: UnsignedTx): SignedVersion {
    const bytes = signTx(tx, this.#options.signer);
    return { hash: bytesToHex(sha256(bytes)).toUpperCase(), bytes, fee: tx.fee, feeUpokt: feeUpoktOf(tx.fee) };
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

  /** Returns a refusal where the node may accept a smaller transaction. */
  async #broadcast(pending: PendingTx, outcome: "sent" | "sent-again" | "raised"): Promise<Refusal | undefined> {
    const { kind, batch, versions } = pending;
    const [version] = versions;
    if (version === undefined) return undefined;
    const { bytes, feeUpokt } = version;
    try {
      const { code, codespace, log, hash } = await this.#client.broadcast(bytes, this.#signal);
      this.#failures = 0;
      if (code === 0) {
        this.#count(kind, outcome);
        this.#singleRefusals = NO_REFUSALS;
        this.#maxBytes = Math.min(this.#maxBytes + GROWTH_BYTES, MAX_BYTES);
        this.#log.info({ kind, hash, messages: batch.length, feeUpokt }, "a transaction was sent");
        return undefined;
      }
      this.#count(kind, "refused");
      if (outcome === "raised" && versions.length > 1) {
        // The version before is still there, and the node replaces none, or not at this fee.
        versions.shift();
        this.#log.warn({ kind, code, codespace, text: log, feeUpokt }, "the node does not replace a transaction");
        return undefined;
      }
      this.#drop(pending);
      this.#log.error({ kind, code, codespace, text: log }, "the node refuses a transaction");
      if (codespace === "sdk" && REFUSALS_OF_ANY_SIZE.has(code)) return undefined;
      return { reason: `${codespace} ${code}` };
    } catch (cause) {
      if (isAppError(cause, "TX_FAILED") && KNOWN.test(cause.message)) {
        // The node has it; whether it is still in the mempool shows in the next blocks.
        this.#failures = 0;
        return undefined;
      }
      if (isTooLong(cause) || (isAppError(cause, "TX_FAILED") && TOO_LARGE.test(cause.message))) {
        this.#count(kind, "refused");
        this.#drop(pending);
        this.#log.error({ kind, text: cause.message, messages: batch.length }, "the node refuses a transaction");
        return { reason: reasonOf(cause, batch) };
      }
      this.#failed(kind, batch);
      this.#log.warn(
        { cause, kind },
        "whether a transaction was sent is not known; the next block brings another attempt",
      );
      return undefined;
    }
  }

  #sayFailed(kind: TxKind, { code, codespace, log, hash }: IncludedTx): void {
    this.#log.error({ kind, code, codespace, text: log, hash }, "a transaction failed in its block");
  }

  #drop(pending: PendingTx): void {
    for (const { wanted } of pending.batch) {
      if (this.#pending.get(wanted.key) === pending) this.#pending.delete(wanted.key);
    }
  }

  #count(kind: TxKind, outcome: string): void {
    this.#metrics.count(supplierTxsTotal, { kind, outcome });
  }
}

/** Gas of a message that is not simulated. */
const estimatedGas = (kind: TxKind, { wanted: { extraGas = 0n }, message }: BatchItem): bigint =>
  BLIND_GAS[kind] + BLIND_GAS_PER_BYTE * BigInt(message.value.length) + extraGas;

/** The messages that can be made, the smallest first. */
async function smallestFirst(wanted: readonly WantedMessage[]): Promise<readonly BatchItem[]> {
  const items: BatchItem[] = [];
  for (const one of wanted) {
    const message = await one.message();
    if (message !== undefined) items.push({ wanted: one, message });
  }
  return items.sort((a, b) => a.message.value.length - b.message.value.length);
}

const bytesOf = (batch: readonly BatchItem[]): number =>
  batch.reduce((sum, { message }) => sum + message.value.length, 0);

/** Returns true when a node, or a proxy before it, did not read a request. */
const isTooLong = (cause: unknown): cause is AppError =>
  isAppError(cause, "CHAIN_UNREACHABLE") && TOO_LONG_STATUS.has(cause.detail?.status);

/** Returns true when a transaction was refused, by the chain or for its length. */
const isRefusal = (cause: unknown): cause is AppError => isAppError(cause, "TX_FAILED") || isTooLong(cause);

/** Reason of a refusal that is neither for one message nor, as far as it can be, for the length. */
function reasonOf({ message, detail }: AppError, batch: readonly BatchItem[]): string | undefined {
  if (bytesOf(batch) > LARGE_BYTES || OF_MESSAGE.test(message)) return undefined;
  const parts = [detail?.codespace, detail?.code, detail?.status];
  const codes = parts.filter((part) => typeof part === "string" || typeof part === "number");
  return codes.join(" ") || "too large";
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);

const feeUpoktOf = (fee: readonly Amount[]): bigint =>
  fee.reduce((sum, { denom, amount }) => (denom === "upokt" ? sum + amount : sum), 0n);
