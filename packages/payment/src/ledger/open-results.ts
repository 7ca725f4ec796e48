import type { SettlementId } from "@turnpike/base";
import { committing, type LedgerParts } from "./parts.ts";

/** Longer than any request may ask for a result. */
const RETENTION_MS = 7 * 86_400_000;

/** Results of a facilitator that the request which claimed the payment did not get: one more may have each. */
export class OpenResults {
  readonly #parts: LedgerParts;

  constructor(parts: LedgerParts) {
    this.#parts = parts;
  }

  openResult(id: SettlementId): Promise<void> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "openResult", async () => {
      await database.run(statements.openResult, [id, RETENTION_MS]);
    });
  }

  takeResult(id: SettlementId, isFirst: boolean): Promise<boolean> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "takeResult", async () => {
      const rows = await database.run(isFirst ? statements.takeFirstResult : statements.takeResult, [id]);
      return rows.length === 1;
    });
  }
}
