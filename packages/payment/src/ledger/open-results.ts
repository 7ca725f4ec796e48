import { setTimeout as wait } from "node:timers/promises";
import { failureCode, type SettlementId } from "@turnpike/base";
import { createGroup } from "./group.ts";
import { committing, type LedgerParts } from "./parts.ts";

/** Longer than any request may ask for a result. */
const RETENTION_MS = 7 * 86_400_000;
/** Results that close together share one statement. */
const CLOSE_EVERY_MS = 50;
const CLOSE_AGAIN_MS = 1_000;
const MAX_CLOSING = 10_000;
const LEASE_GROUP = { maxBatch: 100, maxRunning: 2 };

/** The right to each result of a facilitator: of the process that is to answer it, or of one request more. */
export class OpenResults implements AsyncDisposable {
  readonly #parts: LedgerParts;
  readonly #lease: (id: SettlementId) => Promise<void>;
  /** Holder under which this process leased or took each result. */
  readonly #holders = new Map<SettlementId, string>();
  /** Answered results whose rows are still there. */
  readonly #closing = new Map<SettlementId, string>();
  readonly #stopping = new AbortController();
  #closer: Promise<void> | undefined;

  constructor(parts: LedgerParts) {
    const { database, statements, holder, queueLimit } = parts;
    this.#parts = parts;
    this.#lease = createGroup<SettlementId, void>({ ...LEASE_GROUP, maxWaiting: queueLimit }, async (ids) => {
      const name = holder.current();
      await database.run(statements.leaseResults, [ids, name]);
      for (const id of ids) this.#holders.set(id, name);
      return ids.map(() => undefined);
    });
  }

  openResult(id: SettlementId): Promise<void> {
    const { database, statements, faults } = this.#parts;
    this.#holders.delete(id);
    return committing(faults, "openResult", async () => {
      await database.run(statements.openResult, [id, RETENTION_MS]);
    });
  }

  leaseResult(id: SettlementId): Promise<void> {
    return committing(this.#parts.faults, "leaseResult", () => this.#lease(id));
  }

  closeResult(id: SettlementId): void {
    const holder = this.#holders.get(id);
    this.#holders.delete(id);
    if (holder === undefined || this.#closing.size >= MAX_CLOSING) return;
    this.#closing.set(id, holder);
    this.#closer ??= this.#closeForever().finally(() => {
      this.#closer = undefined;
    });
  }

  async holdsResult(id: SettlementId): Promise<boolean> {
    const holder = this.#holders.get(id);
    if (holder === undefined || holder === this.#parts.holder.current()) return true;
    return this.takeResult(id, false);
  }

  async isResultOpen(id: SettlementId): Promise<boolean> {
    const { database, statements } = this.#parts;
    const [row] = await database.run<{ open: boolean }>(statements.isResultOpen, [id]);
    return row?.open === true;
  }

  takeResult(id: SettlementId, isFirst: boolean): Promise<boolean> {
    const { database, statements, holder, faults } = this.#parts;
    const name = holder.current();
    return committing(faults, "takeResult", async () => {
      const rows = isFirst
        ? await database.run(statements.takeFirstResult, [id])
        : await database.run(statements.takeResult, [id, name]);
      if (rows.length === 1 && !isFirst) this.#holders.set(id, name);
      return rows.length === 1;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#closer;
    // A holder that has ended counts as dead: what it answered must not look open.
    if (this.#closing.size > 0) await this.#close().catch(() => undefined);
  }

  async #closeForever(): Promise<void> {
    const { signal } = this.#stopping;
    const pause = (ms: number): Promise<void> => wait(ms, undefined, { signal, ref: false }).catch(() => undefined);
    await pause(CLOSE_EVERY_MS);
    while (this.#closing.size > 0 && !signal.aborted) {
      try {
        await this.#close();
      } catch (error) {
        this.#parts.log.warn({ code: failureCode(error) }, "answered results could not be recorded");
        await pause(CLOSE_AGAIN_MS);
      }
    }
  }

  async #close(): Promise<void> {
    const { database, statements } = this.#parts;
    const entries = [...this.#closing];
    await database.run(statements.closeResults, [entries.map(([id]) => id), entries.map(([, holder]) => holder)]);
    for (const [id] of entries) this.#closing.delete(id);
  }
}
