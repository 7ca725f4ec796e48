import { randomBytes } from "node:crypto";
import { AppError, type ErrorCode, hexToBytes, type SettlementId } from "@turnpike/base";
import type { ClaimResult, Ledger, NewClaim } from "../ledger-types.ts";
import type { PaymentKey } from "../types.ts";
import type { SqlValue } from "./database.ts";
import { ledgerOrphansTotal } from "./metrics.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";
import { type PaymentRow, rowToRecord } from "./rows.ts";

type ClaimRow = { readonly [Name in keyof PaymentRow]: PaymentRow[Name] } & {
  readonly outcome: "claimed" | "exists" | "identifier" | "insufficient" | "fenced";
};

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

function keyValues({ network, asset, from, nonce }: PaymentKey): SqlValue[] {
  return [network, asset.toLowerCase(), from.toLowerCase(), nonceBytes(nonce)];
}

function claimValues(claim: NewClaim): SqlValue[] {
  return [
    ...keyValues(claim.key),
    claim.payTo,
    claim.value.toString(),
    claim.validAfter.toString(),
    claim.validBefore.toString(),
    claim.signature,
    claim.kind,
    claim.serviceId,
    claim.payloadDigest,
    claim.requestHash,
    claim.identifier ?? null,
    claim.balance.toString(),
    claim.balanceBlock.toString(),
  ];
}

/** Claims, their release, and looking payments up. */
export function createClaims(
  parts: LedgerParts,
): Pick<Ledger, "claim" | "find" | "findByIdentifier" | "get" | "answer" | "release" | "releaseOrphans"> {
  const { database, statements, holder, faults, log, metrics } = parts;

  const claimAs = async (name: string, id: SettlementId, values: readonly SqlValue[]): Promise<ClaimRow> =>
    onlyRow(await database.run<ClaimRow>(statements.claim, [name, id, ...values]), "claim");

  const claim = async (wanted: NewClaim, id: SettlementId): Promise<ClaimResult> => {
    const values = claimValues(wanted);
    const name = holder.current();
    let row = await claimAs(name, id, values);
    if (row.outcome === "fenced") row = await claimAs(await holder.replace(name), id, values);
    switch (row.outcome) {
      case "claimed":
        return { kind: "claimed", id };
      case "exists":
      case "identifier":
        return { kind: row.outcome, record: rowToRecord(row) };
      case "insufficient":
        return { kind: "insufficient" };
      case "fenced":
        throw new AppError("LEDGER_FENCED", { detail: { method: "claim" } });
    }
  };

  return {
    async claim(wanted) {
      const id = newSettlementId();
      try {
        return await committing(faults, "claim", () => claim(wanted, id));
      } catch (error) {
        // Its caller cannot work on a claim that it does not know of.
        holder.abandon(id, holder.current(), "LEDGER_UNAVAILABLE");
        throw error;
      }
    },

    async find(key) {
      const [row] = await database.run<PaymentRow>(statements.find, keyValues(key));
      return row && rowToRecord(row);
    },

    async findByIdentifier(network, from, identifier) {
      const values = [network, from.toLowerCase(), identifier];
      const [row] = await database.run<PaymentRow>(statements.findByIdentifier, values);
      return row && rowToRecord(row);
    },

    async get(id) {
      const [row] = await database.run<PaymentRow>(statements.get, [id]);
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
