import { randomBytes } from "node:crypto";
import { AppError, bytesToHex, type ErrorCode, hexToBytes, type SettlementId } from "@turnpike/base";
import type { ClaimResult, Ledger, NewClaim } from "../ledger-types.ts";
import type { PaymentKey } from "../types.ts";
import { mayBeSent } from "./database-errors.ts";
import { createGroup } from "./group.ts";
import { ledgerOrphansTotal } from "./metrics.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";
import { type PaymentRow, rowToRecord } from "./rows.ts";

type ClaimRow = { readonly [Name in keyof PaymentRow]: PaymentRow[Name] } & {
  readonly outcome: "claimed" | "exists" | "identifier" | "insufficient" | "unsettled" | "blocked" | "fenced";
};

interface PlacedRow extends PaymentRow {
  /** Place of what was asked for, from 1. */
  readonly place: number;
}

/** Few under way, so that those that come meanwhile share one commit. */
const CLAIM_GROUP = { maxBatch: 100, maxRunning: 2 };
const READ_GROUP = { maxBatch: 100, maxRunning: 2 };
const ORPHAN_PAGE = 500;
const ORPHAN_REASON: ErrorCode = "SERVICE_UNAVAILABLE";

/** 160 random bits: nobody finds a settlement by guessing. */
function newSettlementId(): SettlementId {
  return `stl_${randomBytes(20).toString("base64url")}` as SettlementId;
}

function nonceBytes(nonce: string): Uint8Array {
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

function placed(asked: readonly unknown[], rows: readonly PlacedRow[]): readonly (PaymentRow | undefined)[] {
  const byPlace = new Map(rows.map((row) => [row.place, row]));
  return asked.map((_, at) => byPlace.get(at + 1));
}

/** Claims, their release, and looking payments up. */
export function createClaims(
  parts: LedgerParts,
): Pick<Ledger, "claim" | "find" | "findByIdentifier" | "get" | "newest" | "answer" | "release" | "releaseOrphans"> {
  const { database, statements, holder, sells, queueLimit, faults, log, metrics } = parts;
  const claimGroup = { ...CLAIM_GROUP, maxWaiting: queueLimit };
  const readGroup = { ...READ_GROUP, maxWaiting: queueLimit };

  const claimAs = createGroup<WantedRow, ClaimRow>(claimGroup, async (wanted) => {
    const sorted = wanted.toSorted(byPayer);
    const rows = await database.run<ClaimRow>(statements.claim, [JSON.stringify(sorted), sells]);
    const results = new Map(sorted.map((row, at) => [row, rows[at]]));
    return wanted.flatMap((row) => results.get(row) ?? []);
  });

  const findOne = createGroup<PaymentKey, PaymentRow | undefined>(readGroup, async (keys) => {
    const rows = await database.run<PlacedRow>(statements.find, [
      keys.map(({ network }) => network),
      keys.map(({ asset }) => asset.toLowerCase()),
      keys.map(({ from }) => from.toLowerCase()),
      keys.map(({ nonce }) => bytesToHex(nonceBytes(nonce))),
    ]);
    return placed(keys, rows);
  });

  const getOne = createGroup<SettlementId, PaymentRow | undefined>(readGroup, async (ids) =>
    placed(ids, await database.run<PlacedRow>(statements.get, [ids])),
  );

  const newestOne = createGroup<SettlementId, PaymentRow | undefined>(readGroup, async (ids) =>
    placed(ids, await database.run<PlacedRow>(statements.newest, [ids])),
  );

  const assertSeller = (): void => {
    if (!holder.maySell()) throw new AppError("LEDGER_UNAVAILABLE", { detail: { method: "claim", sells: false } });
  };

  const send = async (attempt: Attempt, name: string): Promise<ClaimRow> => {
    assertSeller();
    const wanted = wantedRow(attempt.wanted, name, attempt.id);
    attempt.openAs = name;
    try {
      const row = await claimAs(wanted);
      if (row.outcome !== "claimed") attempt.openAs = undefined;
      return row;
    } catch (error) {
      if (!mayBeSent(error)) attempt.openAs = undefined;
      throw error;
    }
  };

  const claim = async (attempt: Attempt): Promise<ClaimResult> => {
    const { id } = attempt;
    const name = holder.current();
    let row = await send(attempt, name);
    if (row.outcome === "fenced") row = await send(attempt, await holder.replace(name));
    switch (row.outcome) {
      case "claimed":
        return { kind: "claimed", id };
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
  };

  return {
    async claim(wanted) {
      const attempt: Attempt = { wanted, id: newSettlementId(), openAs: undefined };
      try {
        return await committing(faults, "claim", () => claim(attempt));
      } catch (error) {
        // Its caller cannot work on a claim that it does not know of. What was refused before it was sent must not use up
        // the room of those that may have been committed.
        if (attempt.openAs !== undefined) holder.abandon(attempt.id, attempt.openAs, "LEDGER_UNAVAILABLE");
        throw error;
      }
    },

    async find(key) {
      const row = await findOne(key);
      return row && rowToRecord(row);
    },

    async findByIdentifier(network, from, identifier) {
      const values = [network, from.toLowerCase(), identifier];
      const [row] = await database.run<PaymentRow>(statements.findByIdentifier, values);
      return row && rowToRecord(row);
    },

    async get(id) {
      const row = await getOne(id);
      return row && rowToRecord(row);
    },

    async newest(id) {
      const row = await newestOne(id);
      return row && rowToRecord(row);
    },

    async answer(id) {
      const [row] = await database.run<{ content_type: string; body: Uint8Array }>(statements.answer, [id]);
      return row && { contentType: row.content_type, body: row.body };
    },

    async release(id, reason) {
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
    },

    releaseOrphans: () =>
      committing(faults, "releaseOrphans", async () => {
        let total = 0;
        for (;;) {
          const rows = await database.run<{ released: string }>(statements.releaseOrphans, [
            ORPHAN_REASON,
            ORPHAN_PAGE,
          ]);
          const released = Number(onlyRow(rows, "releaseOrphans").released);
          total += released;
          if (released < ORPHAN_PAGE) break;
        }
        if (total > 0) {
          metrics.count(ledgerOrphansTotal, {}, total);
          log.warn({ released: total }, "claims of dead processes were released");
        }
        return total;
      }),
  };
}
