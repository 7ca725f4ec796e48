import { createHash } from "node:crypto";
import { AppError, type Clock, type FaultPoints, noFaults, systemClock } from "@turnpike/base";
import { microUsdText } from "./budget.ts";
import type { JournalRecord, RecordedOutcome } from "./journal-records.ts";
import { authorizationId, untakeableFromMs } from "./payment-header.ts";
import { RequestLocks } from "./request-locks.ts";
import type {
  CountedPayment,
  ExpiredPayment,
  OpenPayment,
  PurchaseReceipt,
  ResumedPayment,
  SpendEnd,
  SpendJournal,
  SpendOutcome,
  SpendReservation,
} from "./types.ts";

/** Each has a default. */
export interface SpendJournalModules {
  readonly clock?: Clock;
  readonly faults?: FaultPoints;
}

/** Destination of records. */
export interface RecordSink extends AsyncDisposable {
  /** Writes one record, on the disk before it resolves where it is `durable`. Rejects when it may not be there. */
  append(record: JournalRecord, durable: boolean): Promise<void>;
}

/** Calls that a journal holds at once whose end is not known: each is kept in memory. */
const MAX_HELD = 10_000;

/** Maximum number of charged payments that are remembered, so that none counts again when it is presented for its answer. */
const MAX_CHARGED = 10_000;

/** A record of one payment. */
type EntryRecord = Exclude<JournalRecord, { t: "journal" }>;

interface Entry {
  readonly id: number;
  readonly service: string;
  readonly requestHash: string;
  readonly microUsd: bigint;
  payment?: string;
  authorizationId?: string;
  signedAt?: string;
  receipt?: PurchaseReceipt;
  /** A call of this process has it. */
  busy: boolean;
  /** Outcome that the newest try showed. It replaces none of the facts below, which only grow. */
  outcome: ResumedPayment["outcome"];
  /** True where the chain showed that it was taken. */
  isUsed: boolean;
  /** Number of results that said that it was charged, and that its call is over: the newest is to be acknowledged. */
  results: number;
  /** From when on it can no longer be taken, in milliseconds since the Unix epoch. */
  untakeableFromMs: number;
  readonly ended: PromiseWithResolvers<SpendEnd>;
}

/** True for a record that no later one replaces. */
const isFact = (record: EntryRecord): boolean =>
  record.t === "receipt" || (record.t === "end" && (record.outcome === "used" || record.outcome === "unacknowledged"));

/** True for what was taken for good, and is held only until its caller is informed. */
const isTaken = ({ isUsed, results }: Entry): boolean => isUsed || results > 0;

/** Id of the newest result that said that a payment was charged. */
const resultIdOf = ({ payment = "", results }: Entry): string =>
  `${createHash("sha256").update(payment).digest("hex").slice(0, 32)}-${results}`;

const noSink: RecordSink = {
  async append() {},
  async [Symbol.asyncDispose]() {},
};

const openOf = (entry: Entry): OpenPayment[] =>
  entry.payment === undefined
    ? []
    : [
        {
          service: entry.service,
          requestHash: entry.requestHash,
          usd: microUsdText(entry.microUsd),
          payment: entry.payment,
          signedAt: entry.signedAt ?? "",
        },
      ];

/** The sums of a journal, and what it holds; the rules of what counts as spent are all here. */
export class SpendBook implements SpendJournal {
  #sink: RecordSink = noSink;
  readonly #clock: Clock;
  readonly #faults: FaultPoints;
  readonly #entries = new Map<number, Entry>();
  readonly #locks = new RequestLocks();
  /** Payments that ended as charged, by their id; the oldest goes first. */
  readonly #charged = new Map<string, CountedPayment>();
  #findOthers: (() => Promise<void>) | undefined;
  #chargedMicroUsd = 0n;
  #heldMicroUsd = 0n;
  #calls = 0;
  #nextId = 0;

  constructor(modules: SpendJournalModules) {
    this.#clock = modules.clock ?? systemClock;
    this.#faults = modules.faults ?? noFaults;
  }

  /** Takes in a record of an earlier process; false when it does not follow from those before it. */
  replay(record: JournalRecord): boolean {
    if (record.t === "journal") {
      this.#chargedMicroUsd = record.chargedMicroUsd;
      this.#calls = record.calls;
      this.#nextId = record.nextId;
      return true;
    }
    if (record.t === "reserve") {
      if (record.id < this.#nextId) return false;
      this.#nextId = record.id + 1;
      this.#hold(record, false);
      return true;
    }
    const entry = this.#entries.get(record.id);
    if (entry === undefined) return false;
    if (record.t === "signed") this.#sign(entry, record.payment, record.signedAt);
    else if (record.t === "receipt") entry.receipt ??= record.receipt;
    else {
      // Those of before are no more in a file that was written anew.
      if (record.result !== undefined && record.result > 0) entry.results = record.result - 1;
      this.#end(entry, record.outcome);
    }
    return true;
  }

  /** Ends the replay: what was never signed is given back. */
  replayed(): void {
    for (const entry of this.#entries.values()) if (entry.payment === undefined) this.#drop(entry);
  }

  /** Writes to a sink from now on, and owns it; undefined: to memory alone. */
  writeTo(sink: RecordSink | undefined): void {
    this.#sink = sink ?? noSink;
  }

  /** Everything that still counts, as the records of a new file. */
  *records(): Generator<JournalRecord> {
    const held = [...this.#entries.values()];
    const nextId = held[0]?.id ?? this.#nextId;
    const calls = this.#calls - held.filter(({ payment }) => payment !== undefined).length;
    yield { t: "journal", version: 1, chargedMicroUsd: this.#chargedMicroUsd, calls, nextId };
    for (const entry of held) yield* this.#recordsOf(entry);
  }

  *#recordsOf({ id, payment, signedAt = "", receipt, ...entry }: Entry): Generator<EntryRecord> {
    const { service, requestHash, microUsd, outcome, isUsed, results } = entry;
    yield { t: "reserve", id, service, requestHash, microUsd };
    if (payment === undefined) return;
    yield { t: "signed", id, payment, signedAt };
    if (receipt !== undefined) yield { t: "receipt", id, receipt };
    if (isUsed) yield { t: "end", id, outcome: "used" };
    if (results > 0) yield { t: "end", id, outcome: "unacknowledged", result: results };
    else if (outcome !== "open") yield { t: "end", id, outcome };
  }

  // No await before the price is taken out: what is checked and what is taken are one step.
  async reserve(call: Parameters<SpendJournal["reserve"]>[0]): Promise<SpendReservation> {
    const { service, requestHash, microUsd, totalMicroUsd } = call;
    this.#assertCovered(microUsd, totalMicroUsd);
    const entry = this.#hold({ id: this.#nextId++, service, requestHash, microUsd }, true);
    try {
      await this.#sink.append({ t: "reserve", id: entry.id, service, requestHash, microUsd }, false);
      await this.#faults.reach("journal.reserved");
    } catch (error) {
      this.#drop(entry);
      throw error;
    }
    return this.#reservation(entry);
  }

  async lock(requestHash: string, signal: AbortSignal | undefined): Promise<Disposable> {
    using locked = new DisposableStack();
    const lock = locked.use(await this.#locks.take(requestHash, signal));
    await this.#findOthers?.();
    locked.move();
    return lock;
  }

  /** Looks for payments of other journals whenever a call is going to look for one, or to sign. */
  findOthersBy(find: () => Promise<void>): void {
    this.#findOthers = find;
  }

  /**
   * Takes over what another journal holds: the same request presents it again. A fault in between leaves it in both, where it counts
   * twice until this is done again.
   * @throws AppError SPEND_JOURNAL.
   */
  async takeOver(other: SpendBook): Promise<void> {
    for (const entry of other.#entries.values()) {
      if (entry.payment === undefined || entry.busy) continue;
      await this.#copy(entry);
      await other.#endAndWrite(entry, "moved");
    }
  }

  async #copy(entry: Entry): Promise<void> {
    // There is one where an earlier try was cut off in between: its facts may be missing.
    const mine = [...this.#entries.values()].find(({ payment }) => payment === entry.payment);
    const id = mine?.id ?? this.#nextId;
    const records = [...this.#recordsOf(entry)].map((record) => ({ ...record, id }));
    const missing = mine === undefined ? records : records.filter(isFact);
    try {
      for (const record of missing) {
        this.replay(record);
        // One after the other: without the first one the others mean nothing.
        await this.#sink.append(record, record === missing.at(-1));
      }
    } catch (error) {
      const copied = this.#entries.get(id);
      if (mine === undefined && copied !== undefined) this.#drop(copied);
      throw error;
    }
  }

  /** Drops what counts elsewhere. */
  #move(entry: Entry): void {
    this.#drop(entry);
    this.#calls--;
  }

  tryLock(requestHash: string): Disposable | undefined {
    return this.#locks.tryTake(requestHash);
  }

  resume(requestHash: string, payment?: string): ReturnType<SpendJournal["resume"]> {
    for (const entry of this.#entries.values()) {
      if (entry.busy || entry.requestHash !== requestHash) continue;
      // A payment that was refused, and can no longer be taken, is presented only to a caller that names it.
      if (payment === undefined ? this.#isRefused(entry) : entry.payment !== payment) continue;
      const [open] = openOf(entry);
      if (open === undefined) continue;
      entry.busy = true;
      const { outcome, isUsed, results, receipt } = entry;
      return { open, outcome, isUsed, isCharged: results > 0, receipt, reservation: this.#reservation(entry) };
    }
    return undefined;
  }

  async acknowledge(resultId: string): Promise<void> {
    for (const entry of this.#entries.values()) {
      if (entry.results === 0 || resultIdOf(entry) !== resultId) continue;
      await this.#endAndWrite(entry, "charged");
      return;
    }
  }

  counted(payment: string): CountedPayment | undefined {
    const id = authorizationId(payment);
    for (const entry of this.#entries.values()) {
      if (entry.authorizationId !== id) continue;
      const { requestHash, microUsd, outcome } = entry;
      const isOpen = outcome === "open" && !isTaken(entry);
      return { requestHash, usd: microUsdText(microUsd), state: isOpen ? "open" : "held" };
    }
    return this.#charged.get(id);
  }

  open(): readonly OpenPayment[] {
    return [...this.#entries.values()].flatMap((entry) =>
      entry.outcome === "open" && !isTaken(entry) ? openOf(entry) : [],
    );
  }

  expired(): readonly ExpiredPayment[] {
    return [...this.#entries.values()].flatMap((entry) => {
      const { payment, requestHash, busy } = entry;
      if (payment === undefined || busy || isTaken(entry) || !this.#isExpired(entry)) return [];
      // A payment that was used without an answer is held, so that its caller learns it before anything else is signed.
      return [{ payment, requestHash, end: (end) => this.#endAndWrite(entry, end === "charged" ? "used" : end) }];
    });
  }

  pendingCount(): number {
    return this.#entries.size;
  }

  sums(): ReturnType<SpendJournal["sums"]> {
    let takenMicroUsd = 0n;
    for (const entry of this.#entries.values()) {
      if (isTaken(entry) || entry.outcome === "claimed") takenMicroUsd += entry.microUsd;
    }
    return {
      chargedMicroUsd: this.#chargedMicroUsd + takenMicroUsd,
      openMicroUsd: this.#heldMicroUsd - takenMicroUsd,
      calls: this.#calls,
    };
  }

  [Symbol.asyncDispose](): PromiseLike<void> {
    return this.#sink[Symbol.asyncDispose]();
  }

  #assertCovered(microUsd: bigint, totalMicroUsd: bigint | undefined): void {
    const spent = this.#chargedMicroUsd + this.#heldMicroUsd;
    if (microUsd < 0n || (totalMicroUsd !== undefined && spent + microUsd > totalMicroUsd)) {
      const left = totalMicroUsd === undefined || totalMicroUsd < spent ? 0n : totalMicroUsd - spent;
      const { chargedMicroUsd, openMicroUsd } = this.sums();
      throw new AppError("BUDGET_SPENT", {
        message:
          `The call costs ${microUsdText(microUsd)} USD and ${microUsdText(left)} USD are left of the budget of ` +
          `${microUsdText(totalMicroUsd ?? 0n)} USD (${microUsdText(chargedMicroUsd)} charged, ` +
          `${microUsdText(openMicroUsd)} signed and not settled); nothing was signed.`,
        detail: { spentMicroUsd: spent.toString(), microUsd: microUsd.toString() },
      });
    }
    if (this.#entries.size < MAX_HELD) return;
    const mayEnd = (entry: Entry): boolean =>
      !entry.busy && (isTaken(entry) || entry.outcome !== "open") && this.#isExpired(entry);
    const oldest = [...this.#entries.values()].find(mayEnd);
    // The chain was never asked, or never answered: it counts as spent, as it did until now.
    if (oldest !== undefined) return void this.#endAndWrite(oldest, "charged");
    throw new AppError("SPEND_JOURNAL", {
      message: `${MAX_HELD} payments of this journal have no known outcome; nothing was signed. Present them again first.`,
    });
  }

  #hold(call: Pick<Entry, "id" | "service" | "requestHash" | "microUsd">, busy: boolean): Entry {
    const { id, service, requestHash, microUsd } = call;
    const untakeable = Number.POSITIVE_INFINITY;
    const ended = Promise.withResolvers<SpendEnd>();
    const facts = { outcome: "open", isUsed: false, results: 0 } as const;
    const entry: Entry = { id, service, requestHash, microUsd, busy, ...facts, untakeableFromMs: untakeable, ended };
    this.#entries.set(id, entry);
    this.#heldMicroUsd += microUsd;
    return entry;
  }

  #drop(entry: Entry): void {
    if (this.#entries.delete(entry.id)) this.#heldMicroUsd -= entry.microUsd;
  }

  #sign(entry: Entry, payment: string, signedAt: string): void {
    if (entry.payment === undefined) this.#calls++;
    entry.payment = payment;
    entry.authorizationId = authorizationId(payment);
    entry.signedAt = signedAt;
    entry.outcome = "open";
    entry.untakeableFromMs = untakeableFromMs(payment);
  }

  #end(entry: Entry, outcome: RecordedOutcome): void {
    // Two may read the chain at once: the first one's end stands.
    if (!this.#entries.has(entry.id)) return;
    if (outcome === "charged" || outcome === "void") {
      this.#drop(entry);
      if (outcome === "charged") this.#charge(entry);
      entry.ended.resolve(outcome);
      return;
    }
    if (outcome === "moved") {
      this.#move(entry);
      return;
    }
    if (outcome === "used") entry.isUsed = true;
    else this.#endTry(entry, outcome);
    if (isTaken(entry)) entry.ended.resolve("charged");
    if (entry.payment === undefined) this.#drop(entry);
  }

  #charge({ authorizationId: id, requestHash, microUsd }: Entry): void {
    this.#chargedMicroUsd += microUsd;
    if (id === undefined) return;
    this.#charged.set(id, { requestHash, usd: microUsdText(microUsd), state: "charged" });
    const [oldest] = this.#charged.keys();
    if (this.#charged.size > MAX_CHARGED && oldest !== undefined) this.#charged.delete(oldest);
  }

  /** Ends a try. A charged payment stays charged, whatever the result of presenting it again is. */
  #endTry(entry: Entry, outcome: Exclude<SpendOutcome, "charged">): void {
    if (outcome === "unacknowledged") entry.results++;
    else entry.outcome = outcome;
  }

  async #endAndWrite(entry: Entry, outcome: RecordedOutcome): Promise<void> {
    if (!this.#entries.has(entry.id)) return;
    // A node that saw no use says nothing against one that did.
    if (outcome === "void" && isTaken(entry)) return;
    this.#end(entry, outcome);
    const result = outcome === "unacknowledged" ? entry.results : undefined;
    // An outcome that is not written is unknown after a restart: spent until it is presented, or looked up, again.
    await this.#sink.append({ t: "end", id: entry.id, outcome, result }, false).catch(() => {});
    await this.#faults.reach("journal.ended");
  }

  async #keep(entry: Entry, receipt: PurchaseReceipt, durable: boolean): Promise<void> {
    if (entry.receipt !== undefined || !this.#entries.has(entry.id)) return;
    entry.receipt = receipt;
    // Unwritten it still binds this process; after a restart the payment is open, without it.
    await this.#sink.append({ t: "receipt", id: entry.id, receipt }, durable).catch(() => {});
  }

  /** True when the gateway refused it, and it can no longer be taken. */
  #isRefused(entry: Entry): boolean {
    if (isTaken(entry)) return false;
    return (entry.outcome === "uncharged" || entry.outcome === "unserved") && this.#isExpired(entry);
  }

  #isExpired({ untakeableFromMs }: Entry): boolean {
    return untakeableFromMs <= this.#clock.nowMs();
  }

  #reservation(entry: Entry): SpendReservation {
    let ended = false;
    return {
      ended: entry.ended.promise,
      signed: async (payment) => {
        const signedAt = entry.signedAt ?? new Date(this.#clock.nowMs()).toISOString();
        try {
          // A refused payment is open again from now on; one that was taken stays that.
          if (entry.payment === payment && (entry.outcome === "open" || isTaken(entry))) return;
          await this.#faults.reach("journal.sign");
          await this.#sink.append({ t: "signed", id: entry.id, payment, signedAt }, true);
          this.#sign(entry, payment, signedAt);
          await this.#faults.reach("journal.signed");
        } catch (error) {
          ended = true;
          entry.busy = false;
          if (entry.payment === undefined) this.#drop(entry);
          throw error;
        }
      },
      shown: async (receipt) => {
        if (!ended) await this.#keep(entry, receipt, true);
      },
      end: async (outcome, receipt) => {
        if (ended) return undefined;
        ended = true;
        entry.busy = false;
        // In one write with the outcome.
        const keeping = receipt && this.#keep(entry, receipt, false);
        const ending = this.#endAndWrite(entry, outcome);
        const resultId = outcome === "unacknowledged" ? resultIdOf(entry) : undefined;
        await ending;
        await keeping;
        return resultId;
      },
    };
  }
}

/** A journal that is kept in memory alone: a crash loses what was signed. */
export function memoryJournal(modules: SpendJournalModules = {}): SpendJournal {
  return new SpendBook(modules);
}
