import { randomBytes } from "node:crypto";
import { AppError, bytesToHex, type ErrorCode, hexToBytes, type SettlementId } from "@turnpike/base";
import type { ClaimResult, NewClaim } from "../ledger-types.ts";
import { mayBeSent } from "./database-errors.ts";
import { createGroup } from "./group.ts";
import { ledgerOrphansReleasedTotal } from "./metrics.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";
import { type PaymentRow, rowToRecord } from "./rows.ts";

type ClaimRow = { readonly [Name in keyof PaymentRow]: PaymentRow[Name] } & {
  readonly placed: boolean;
  readonly outcome: "claimed" | "exists" | "identifier" | "insufficient" | "unsettled" | "blocked" | "fenced";
};

/** Few under way, so that those that come meanwhile share one commit. */
const CLAIM_GROUP = { maxBatch: 100, maxRunning: 2 };
const ORPHAN_PAGE = 500;
const ORPHAN_REASON: ErrorCode = "SERVICE_UNAVAILABLE";

/** 160 random bits: a settlement is not found by guessing. */
function newSettlementId(): SettlementId {
  return `stl_${randomBytes(20).toString("base64url")}` as SettlementId;
}

/** @throws AppError INTERNAL: a payment that was read has a good one. */
export function nonceBytes(nonce: string): Uint8Array {
  const bytes = hexToBytes(nonce, 32);
  if (bytes === undefined) throw new AppError("INTERNAL", { detail: { what: "a nonce that is not 32 bytes of hex" } });
  return bytes;
}

/** A claim as the statement reads it; the names are those of its columns. */
interface WantedRow {
  readonly holder: string;
  readonly id: SettlementId;
  readonly network: string;
  readonly payer: string;
  readonly [column: string]: string | null;
}

function bytea(bytes: Uint8Array): string {
  return `\\x${bytesToHex(bytes)}`;
}

function wantedRow(claim: NewClaim, holder: string, id: SettlementId): WantedRow {
  const { network, asset, from, nonce } = claim.key;
  return {
    holder,
    id,
    network,
    asset: asset.toLowerCase(),
    payer: from.toLowerCase(),
    nonce: bytea(nonceBytes(nonce)),
    pay_to: claim.payTo,
    value: claim.value.toString(),
    valid_after: claim.validAfter.toString(),
    valid_before: claim.validBefore.toString(),
    signature: bytea(claim.signature),
    kind: claim.kind,
    service_id: claim.serviceId,
    payload_digest: bytea(claim.payloadDigest),
    request_hash: bytea(claim.requestHash),
    identifier: claim.identifier ?? null,
    balance: claim.balance.toString(),
    balance_block: claim.balanceBlock.toString(),
  };
}

/** A call of `claim`. */
interface Attempt {
  readonly wanted: NewClaim;
  readonly id: SettlementId;
  /** The holder under which it may have been committed. */
  openAs: string | undefined;
}

/** One order for all processes, so that groups which wait for each other's payers cannot wait in a circle. */
function byPayer(a: WantedRow, b: WantedRow): number {
  if (a.payer !== b.payer) return a.payer < b.payer ? -1 : 1;
  return a.network === b.network ? 0 : a.network < b.network ? -1 : 1;
}

/** Claims, and their release. */
export class Claims {
  readonly #parts: LedgerParts;
  readonly #claimAs: (wanted: WantedRow) => Promise<ClaimRow>;

  constructor(parts: LedgerParts) {
    const { database, statements, sells, queueLimit } = parts;
    this.#parts = parts;
    this.#claimAs = createGroup<WantedRow, ClaimRow>({ ...CLAIM_GROUP, maxWaiting: queueLimit }, async (wanted) => {
      const sorted = wanted.toSorted(byPayer);
      const rows = await database.run<ClaimRow>(statements.claim, [JSON.stringify(sorted), sells]);
      const results = new Map(sorted.map((row, at) => [row, rows[at]]));
      return wanted.flatMap((row) => results.get(row) ?? []);
    });
  }

  async claim(wanted: NewClaim): Promise<ClaimResult> {
    const { faults, holder } = this.#parts;
    const attempt: Attempt = { wanted, id: newSettlementId(), openAs: undefined };
    try {
      return await committing(faults, "claim", () => this.#claim(attempt));
    } catch (error) {
      // Its caller cannot work on a claim that it does not know of. What was refused before it was sent must not use up
      // the room of those that may have been committed.
      if (attempt.openAs !== undefined) holder.abandon(attempt.id, attempt.openAs, "LEDGER_UNAVAILABLE");
      throw error;
    }
  }

  async release(id: SettlementId, reason: ErrorCode): Promise<boolean> {
    const { database, statements, holder, faults } = this.#parts;
    const name = holder.current();
    try {
      return await committing(faults, "release", async () => {
        const rows = await database.run(statements.release, [name, [id], [reason]]);
        return rows.length === 1;
      });
    } catch (error) {
      holder.abandon(id, name, reason);
      throw error;
    }
  }

  releaseOrphans(): Promise<number> {
    const { database, statements, faults, metrics, log } = this.#parts;
    return committing(faults, "releaseOrphans", async () => {
      const values = [ORPHAN_REASON, ORPHAN_PAGE];
      let total = 0;
      for (;;) {
        const rows = await database.run<{ released: string }>(statements.releaseOrphans, values);
        const released = Number(onlyRow(rows, "releaseOrphans").released);
        total += released;
        if (released < ORPHAN_PAGE) break;
      }
      if (total > 0) {
        metrics.count(ledgerOrphansReleasedTotal, {}, total);
        log.warn({ released: total }, "claims of dead processes were released");
      }
      return total;
    });
  }

  async #claim(attempt: Attempt): Promise<ClaimResult> {
    const { holder } = this.#parts;
    const { id } = attempt;
    const name = holder.current();
    let row = await this.#send(attempt, name);
    if (row.outcome === "fenced") row = await this.#send(attempt, await holder.replace(name));
    switch (row.outcome) {
      case "claimed":
        return { kind: "claimed", id, ...(row.placed ? {} : { waits: true }) };
      case "exists":
      case "identifier":
        return { kind: row.outcome, record: rowToRecord(row) };
      case "insufficient":
      case "unsettled":
        return { kind: "insufficient", unsettled: row.outcome === "unsettled" };
      case "blocked":
        return { kind: "blocked" };
      case "fenced":
        throw new AppError("LEDGER_FENCED", { detail: { method: "claim" } });
    }
  }

  async #send(attempt: Attempt, name: string): Promise<ClaimRow> {
    if (!this.#parts.holder.maySell()) {
      throw new AppError("LEDGER_UNAVAILABLE", { detail: { method: "claim", sells: false } });
    }
    const wanted = wantedRow(attempt.wanted, name, attempt.id);
    attempt.openAs = name;
    try {
      const row = await this.#claimAs(wanted);
      if (row.outcome !== "claimed") attempt.openAs = undefined;
      return row;
    } catch (error) {
      if (!mayBeSent(error)) attempt.openAs = undefined;
      throw error;
    }
  }
}
