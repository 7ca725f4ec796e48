import type { Address, ErrorCode, NetworkId, ServiceId, SettlementId } from "@turnpike/base";
import type { Evidence, PayerKind, PaymentKey, PaymentRecord, PaymentState, StoredAnswer } from "./types.ts";

/** What a claim holds on to. */
export interface NewClaim {
  readonly key: PaymentKey;
  readonly payTo: Address;
  readonly value: bigint;
  readonly validAfter: bigint;
  readonly validBefore: bigint;
  readonly signature: Uint8Array;
  readonly kind: PayerKind;
  readonly serviceId: ServiceId;
  readonly payloadDigest: Uint8Array;
  readonly requestHash: Uint8Array;
  readonly identifier: string | undefined;
  /** Payer's balance, and the block at which it was read: settlements of later blocks still count as in flight. */
  readonly balance: bigint;
  readonly balanceBlock: bigint;
}

/** Result of {@link Ledger.claim}. */
export type ClaimResult =
  /** Ours to work on. `waits`: too many payments of its payer are in flight, until {@link Ledger.admitPlain} admits it. */
  | { readonly kind: "claimed"; readonly id: SettlementId; readonly waits?: true }
  /** The nonce is taken, in any state but `released`. Who asks compares digest and hash. */
  | { readonly kind: "exists"; readonly record: PaymentRecord }
  /** The payer used this payment identifier before; `record` is that payment. */
  | { readonly kind: "identifier"; readonly record: PaymentRecord }
  /**
   * The balance does not cover this payment and those in flight. `unsettled`: it would if those that are being settled
   * had left it already, which the chain may have done before the ledger could see it.
   */
  | { readonly kind: "insufficient"; readonly unsettled: boolean }
  /** An operator has blocked the payer. */
  | { readonly kind: "blocked" };

/** An account whose code runs in its settlements, and what its lost gas is counted under. */
export interface WalletSubjects {
  readonly payer: Address;
  /** `code:<hash>`, `delegate:<address>` (EIP-7702) or `factory:<address>` (ERC-6492); none for an account without code. */
  readonly classes: readonly string[];
}

/**
 * Result of {@link Ledger.admitWallet}. `wait`: too many settlements of its payer or of its code are in flight. `blocked`:
 * they have lost gas lately. `lost`: the payment's own transaction was mined and did not settle it.
 */
export type WalletAdmission = "admitted" | "wait" | "blocked" | "lost";

/** A mined transaction that did not settle a plain account's payment. */
export interface PlainFailure {
  readonly transaction: `0x${string}`;
  /** Payer's share of the gas that settled nothing. */
  readonly gas: bigint;
  /** True when the payment is not sent again. */
  readonly isLost: boolean;
}

/** The payer or code whose settlements in flight are as many as it may have. */
export interface WalletBound {
  /** `payer:<address>`, or one of {@link WalletSubjects.classes}. */
  readonly subject: string;
  /** Number of them. */
  readonly places: number;
}

/** A payment of an account whose value is reserved. */
export interface InFlightPayment {
  readonly nonce: `0x${string}`;
  /** In the asset's smallest unit. */
  readonly value: bigint;
}

/** A relayer key that this process holds, with the fencing token of its lease. */
export interface RelayerLease {
  readonly network: NetworkId;
  readonly relayer: Address;
  /** Grows with every new holder; every write names it, and a write with an old one is refused. */
  readonly epoch: bigint;
  /** The next transaction nonce that the ledger knows to be free. */
  readonly nextNonce: number;
}

/** One signed transaction. Replacements of one nonce share the batch. */
export interface JournaledTransaction {
  readonly hash: `0x${string}`;
  readonly raw: Uint8Array;
  readonly maxFeePerGas: bigint;
  readonly maxPriorityFeePerGas: bigint;
  /** True when it carries no payment: an empty call that only uses the nonce up. */
  readonly cancels: boolean;
}

/** A batch: one relayer nonce, one or more transactions that replace each other, one or more payments. */
export interface BatchRecord {
  readonly id: bigint;
  readonly network: NetworkId;
  readonly relayer: Address;
  readonly nonce: number;
  readonly gasLimit: bigint;
  /** Oldest first. */
  readonly transactions: readonly JournaledTransaction[];
  readonly payments: readonly PaymentRecord[];
  readonly createdAtMs: number;
  readonly state: "open" | "mined";
  /** An operator wants it cancelled. */
  readonly cancelRequested: boolean;
  /** A re-organisation has taken the block of its transaction. */
  readonly reopened: boolean;
}

/** A block of a settlement. */
export type BlockName = Pick<Evidence, "blockNumber" | "blockHash">;

/** Which payments {@link Ledger.unresolved} lists: `signed` and `submitted` ones. */
export interface UnresolvedQuery {
  readonly network: NetworkId;
  /** Those whose window closed at or before this time of the chain, in Unix seconds, of any key. */
  readonly closedBySeconds: number;
  /** Beside them those whose batch is mined: it has not settled them. */
  readonly limit: number;
}

/** Names a scan for payments that the ledger does not know: one node, for these receivers. */
export interface ForeignScan {
  readonly network: NetworkId;
  readonly node: string;
  /** A digest of them. */
  readonly receivers: string;
}

/** How far a scan has come. */
export interface ScanCursor {
  /** The last block that was scanned; undefined before there is one. */
  readonly scannedTo: bigint | undefined;
  /** The newest final block by the node's last answer; undefined before there is one. */
  readonly finalBlock: bigint | undefined;
}

/** Maximum settlements of a day, in UTC by the database's clock, for a name. */
export interface SettlementBudget {
  readonly name: string;
  readonly perDay: number;
}

/** What was summed over all payments of one asset, in its smallest unit. */
export interface LedgerSums {
  readonly network: NetworkId;
  readonly asset: Address;
  /** Count and sum by state; every payment is in exactly one. */
  readonly states: Readonly<Record<PaymentState, { readonly count: number; readonly value: bigint }>>;
}

/**
 * The durable record of all payments, in PostgreSQL. Each method is one database transaction; when it returns, what it
 * says is on disk. It throws AppError LEDGER_UNAVAILABLE when the database cannot be reached, and LEDGER_FENCED when
 * this process no longer holds what it writes with.
 */
export interface Ledger extends AsyncDisposable {
  /** Takes `(network, asset, from, nonce)`, and reserves its value from the payer's balance, atomically. */
  claim(claim: NewClaim): Promise<ClaimResult>;
  /** Looks a payment up by its name on the chain. */
  find(key: PaymentKey): Promise<PaymentRecord | undefined>;
  /** Looks a payment up by payer and payment identifier; one that was released, or can no longer be settled, has none. */
  findByIdentifier(network: NetworkId, from: Address, identifier: string): Promise<PaymentRecord | undefined>;
  /** The payment while this id is its claim; undefined once it was released and claimed again, for whatever request. */
  get(id: SettlementId): Promise<PaymentRecord | undefined>;
  /** The newest claim of the authorization that this id claimed. It may be for another request, and other terms. */
  newest(id: SettlementId): Promise<PaymentRecord | undefined>;
  /** Payments of an account that are claimed, signed or submitted, in no order. */
  inFlight(network: NetworkId, asset: Address, from: Address, limit: number): Promise<readonly InFlightPayment[]>;
  /**
   * The stored answer; undefined before it is committed and after its retention. With `settledWithinMs` also where its payment
   * was settled longer ago, by the database's clock, or is not settled.
   */
  answer(id: SettlementId, settledWithinMs?: number): Promise<StoredAnswer | undefined>;
  /** True where {@link Ledger.answer} would return one; reads no answer. */
  hasAnswer(id: SettlementId, settledWithinMs: number): Promise<boolean>;
  /** Gives a claim of this process up: nothing was charged. False when it was no longer ours. */
  release(id: SettlementId, reason: ErrorCode): Promise<boolean>;
  /** Releases the claims of processes that are dead; returns how many. Run at start and on a timer. */
  releaseOrphans(): Promise<number>;

  /** Takes a free or abandoned relayer key; undefined while another living process holds it. */
  leaseRelayer(network: NetworkId, relayer: Address, chainNonce: number): Promise<RelayerLease | undefined>;
  /** Releases a key that has nothing under way, so that another process can take it. */
  returnRelayer(lease: RelayerLease): Promise<void>;
  /** How many living processes have this ledger open, this one included. */
  livingHolders(): Promise<number>;
  /** Extends all leases of this process; returns the relayers that it has lost. */
  renewLeases(): Promise<readonly { readonly network: NetworkId; readonly relayer: Address }[]>;
  /**
   * Commits checked answers together with the signed transaction that settles them, before it is sent. Payments whose
   * claim was lost meanwhile make it fail as a whole with AppError LEDGER_FENCED (detail `lost`: their ids), since the
   * transaction carries them. `nonce` must be the lease's next one. A `signed` payment whose batch ended without
   * settling it may be given three times more, each time by itself; then it counts as lost.
   */
  journal(batch: {
    readonly lease: RelayerLease;
    readonly nonce: number;
    readonly gasLimit: bigint;
    readonly transaction: JournaledTransaction;
    readonly items: readonly { readonly id: SettlementId; readonly answer: StoredAnswer }[];
  }): Promise<{ readonly batchId: bigint }>;
  /** Adds a replacement with a higher fee to an open batch, before it is sent: the same payments, some of them, or none. */
  journalReplacement(lease: RelayerLease, batchId: bigint, transaction: JournaledTransaction): Promise<void>;
  /** Commits a checked answer before a remote facilitator is asked to settle: claimed → submitted. */
  journalSubmission(id: SettlementId, answer: StoredAnswer): Promise<void>;
  /** A batch's nonce is used up on the chain, by `hash`. */
  closeBatch(batchId: bigint, hash: `0x${string}`): Promise<void>;
  /** Batches that are not mined, oldest first: those of the leases of this process. */
  openBatches(network: NetworkId, relayer: Address): Promise<readonly BatchRecord[]>;
  /** signed | submitted | failed | disputed → settled. Idempotent. */
  settled(id: SettlementId, evidence: Evidence): Promise<void>;
  /**
   * {@link Ledger.settled} for many payments in one transaction. All or nothing, but for payments that the ledger does
   * not know: they are named by LEDGER_FENCED (detail `lost`), and the others are settled. Idempotent.
   */
  settledAll(items: readonly { readonly id: SettlementId; readonly evidence: Evidence }[]): Promise<void>;
  /** signed | submitted → failed: it can never be settled by what we sent, and nothing was charged. Idempotent. */
  failed(id: SettlementId, reason: ErrorCode): Promise<void>;
  /** settled → signed | submitted: the block of its evidence is gone. */
  reorganised(id: SettlementId): Promise<void>;
  /** settled | signed | submitted → disputed: served, and can no longer be settled. */
  disputed(id: SettlementId, reason: ErrorCode): Promise<void>;
  /** released | failed → owed: the chain shows that the payer paid, and we gave no answer. */
  owed(id: SettlementId, evidence: Evidence): Promise<void>;
  /** Payments `submitted` and not resolved, oldest first. */
  submitted(network: NetworkId, limit: number): Promise<readonly PaymentRecord[]>;
  /** Payments that perhaps only a reconciler can end; see {@link UnresolvedQuery}. Those that close first, first. */
  unresolved(query: UnresolvedQuery): Promise<readonly PaymentRecord[]>;
  /** Open batches with unresolved payments, of keys that no living process holds; by relayer and nonce. */
  orphanBatches(network: NetworkId, limit: number): Promise<readonly BatchRecord[]>;
  /** Blocks of settled payments that were not found to be final yet, newest first, below `before` in that order. */
  unfinalBlocks(network: NetworkId, limit: number, before?: BlockName): Promise<readonly BlockName[]>;
  /** Settled payments of such a block. */
  unfinalIn(network: NetworkId, block: BlockName, limit: number): Promise<readonly PaymentRecord[]>;
  /** The newest block of recent settlements that was final when it was looked at last. */
  newestFinal(network: NetworkId): Promise<BlockName | undefined>;
  /** Notes that the settlements of these blocks are final. */
  finalise(network: NetworkId, blocks: readonly BlockName[]): Promise<void>;
  /** Released, failed and disputed payments whose window closed before `chainTimeSeconds` and that were not swept yet. */
  unswept(network: NetworkId, chainTimeSeconds: number, limit: number): Promise<readonly PaymentRecord[]>;
  /**
   * Marks payments as swept: their authorization can no longer be used. `isKept`: it was used, and what for is not known,
   * so that they are never pruned.
   */
  swept(ids: readonly SettlementId[], isKept?: boolean): Promise<void>;
  /** Those of these transfers that are evidence of no payment of the ledger. */
  unknownTransfers<Place extends Pick<Evidence, "blockHash" | "logIndex">>(
    network: NetworkId,
    places: readonly Place[],
  ): Promise<readonly Place[]>;
  /**
   * Begins a scan for payments that the ledger does not know. It is not due while another is under way, or until `pauseMs`
   * after the last one began, by any process.
   */
  beginScan(scan: ForeignScan, pauseMs: number): Promise<ScanCursor & { readonly isDue: boolean }>;
  /** Moves the cursor of a scan from where it was; false when another process has moved it since. */
  moveCursor(scan: ForeignScan, was: bigint | undefined, cursor: ScanCursor): Promise<boolean>;
  /** Deletes answers past their retention; returns how many. */
  expireAnswers(): Promise<number>;
  /** Deletes released claims that were swept and are past their retention, with their events; returns how many. */
  pruneReleased(): Promise<number>;
  /**
   * Leaves the result of a facilitator's settlement to one request more: the one that was to have it was answered that the
   * settlement is pending, or has left.
   */
  openResult(id: SettlementId): Promise<void>;
  /** Records that this process is to answer the result, until {@link Ledger.closeResult}: when it dies before, one request more may have it. */
  leaseResult(id: SettlementId): Promise<void>;
  /** The answer with the result is written. Never throws: what cannot be recorded is tried again. */
  closeResult(id: SettlementId): void;
  /** True while this process may answer the result that it leased or took: false when it counted as dead, and another took it. */
  holdsResult(id: SettlementId): Promise<boolean>;
  /** True while {@link Ledger.takeResult} would be. */
  isResultOpen(id: SettlementId): Promise<boolean>;
  /**
   * True for one request for each {@link Ledger.openResult} before, or for a dead process that had the result. `isFirst`: also
   * without either, for the first request of all, since no request was to have this result yet.
   */
  takeResult(id: SettlementId, isFirst: boolean): Promise<boolean>;
  /**
   * Takes units, one by default, out of each budget of today, or out of none: then returns the name of the first one that has
   * fewer left. A unit is the settlement of a plain payment.
   */
  takeBudgets(budgets: readonly SettlementBudget[], units?: number): Promise<string | undefined>;
  /** Gives units back to the budgets of these names. */
  returnBudgets(names: readonly string[], units?: number): Promise<void>;
  /** The name of a budget of today that has fewer units left; takes nothing. */
  usedUpBudget(budgets: readonly SettlementBudget[], units?: number): Promise<string | undefined>;
  /**
   * Takes one of the places of settlements that run such an account's code; it is free again when the payment ends. Without
   * classes it takes none, and only says whether the payment's transaction was mined without settling it.
   */
  admitWallet(id: SettlementId, network: NetworkId, wallet: WalletSubjects): Promise<WalletAdmission>;
  /** The payer or code that a payment of this account waits for; undefined when it waits for those of all accounts. */
  walletBound(network: NetworkId, wallet: WalletSubjects): Promise<WalletBound | undefined>;
  /** Counts the gas of a mined settlement that ran such an account's code, once for each payment. */
  endWallet(
    id: SettlementId,
    network: NetworkId,
    wallet: WalletSubjects,
    run: { readonly gas: bigint; readonly isLost: boolean },
  ): Promise<void>;
  /**
   * Takes places for payments of an account without code, in their order: as many as are free. Its first are taken by their
   * claims. After a failure one of them at a time is in a transaction.
   */
  admitPlain(
    network: NetworkId,
    payer: Address,
    ids: readonly SettlementId[],
  ): Promise<ReadonlyMap<SettlementId, WalletAdmission>>;
  /** Counts a mined transaction that a payment of a plain account failed in by its payer's doing, once for each payer. */
  failPlain(payment: Pick<PaymentRecord, "id" | "key">, failure: PlainFailure): Promise<void>;
  /** Those of these accounts whose payments have failed by their doing, and that have settled nothing since; in lower case. */
  failingPayers(network: NetworkId, payers: readonly Address[]): Promise<ReadonlySet<string>>;
  /** Time for which payments of such an account are refused, since its settlements have lost gas; 0 when they are not. */
  walletPauseSeconds(network: NetworkId, wallet: WalletSubjects): Promise<number>;
  /** Sums per asset. */
  sums(): Promise<readonly LedgerSums[]>;
  /** Payments in any of these states, newest first: for a person that looks into them. Reads the whole ledger. */
  list(states: readonly PaymentState[], limit: number): Promise<readonly PaymentRecord[]>;
  /** True when the database answers, its tables are whole, and no other ledger sells for a receiver of this one. */
  ready(): Promise<boolean>;
}
