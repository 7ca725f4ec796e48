import type { NetworkId, SettlementId } from "@turnpike/base";
import type { BlockName, ForeignScan, ScanCursor, UnresolvedQuery } from "../ledger-types.ts";
import type { Evidence, PaymentRecord } from "../types.ts";
import type { SqlValue, Statement } from "./database.ts";
import { committing, type LedgerParts, onlyRow } from "./parts.ts";
import { type PaymentRow, rowToRecord } from "./rows.ts";

const MAX_BIGINT = 2n ** 63n - 1n;

interface BlockRow {
  readonly block_number: string;
  readonly block_hash: `0x${string}`;
}

interface CursorRow {
  readonly is_due: boolean;
  readonly scanned_to: string | null;
  readonly final_block: string | null;
}

function readBlock(value: string | null | undefined): bigint | undefined {
  return value == null ? undefined : BigInt(value);
}

/** The lists that a reconciler works through until nothing of a payment can change any more, and how far it has come. */
export class ReconciliationLists {
  readonly #parts: LedgerParts;

  constructor(parts: LedgerParts) {
    this.#parts = parts;
  }

  submitted(network: NetworkId, limit: number): Promise<readonly PaymentRecord[]> {
    return this.#records(this.#parts.statements.submitted, [network, limit]);
  }

  unresolved({ network, closedBySeconds, limit }: UnresolvedQuery): Promise<readonly PaymentRecord[]> {
    return this.#records(this.#parts.statements.unresolved, [network, Math.floor(closedBySeconds), limit]);
  }

  async unfinalBlocks(network: NetworkId, limit: number, before?: BlockName): Promise<readonly BlockName[]> {
    const { database, statements } = this.#parts;
    const values = [network, (before?.blockNumber ?? MAX_BIGINT).toString(), before?.blockHash ?? "", limit];
    const rows = await database.run<BlockRow>(statements.unfinalBlocks, values);
    return rows.map(({ block_number, block_hash }) => ({ blockNumber: BigInt(block_number), blockHash: block_hash }));
  }

  unfinalIn(
    network: NetworkId,
    { blockNumber, blockHash }: BlockName,
    limit: number,
  ): Promise<readonly PaymentRecord[]> {
    return this.#records(this.#parts.statements.unfinalIn, [network, blockNumber.toString(), blockHash, limit]);
  }

  finalise(network: NetworkId, blocks: readonly BlockName[]): Promise<void> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "finalise", async () => {
      await database.run(statements.finalise, [
        network,
        blocks.map(({ blockNumber }) => blockNumber.toString()),
        blocks.map(({ blockHash }) => blockHash),
      ]);
    });
  }

  async newestFinal(network: NetworkId): Promise<BlockName | undefined> {
    const { database, statements } = this.#parts;
    const [row] = await database.run<{ block_number: string; block_hash: `0x${string}` }>(statements.newestFinal, [
      network,
    ]);
    if (row === undefined) return undefined;
    return { blockNumber: BigInt(row.block_number), blockHash: row.block_hash };
  }

  unswept(network: NetworkId, chainTimeSeconds: number, limit: number): Promise<readonly PaymentRecord[]> {
    return this.#records(this.#parts.statements.unswept, [network, Math.floor(chainTimeSeconds), limit]);
  }

  swept(ids: readonly SettlementId[], isKept = false): Promise<void> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "swept", async () => {
      await database.run(statements.swept, [ids, isKept]);
    });
  }

  async unknownTransfers<Place extends Pick<Evidence, "blockHash" | "logIndex">>(
    network: NetworkId,
    places: readonly Place[],
  ): Promise<readonly Place[]> {
    const { database, statements } = this.#parts;
    const values = [network, places.map(({ blockHash }) => blockHash), places.map(({ logIndex }) => logIndex)];
    const rows = await database.run<{ place: number }>(statements.unknownTransfers, values);
    return rows.flatMap(({ place }) => places[place - 1] ?? []);
  }

  beginScan(
    { network, node, receivers }: ForeignScan,
    pauseMs: number,
  ): Promise<ScanCursor & { readonly isDue: boolean }> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "beginScan", async () => {
      const [row] = await database.run<CursorRow>(statements.beginScan, [network, node, receivers, pauseMs]);
      // None: another process makes the row at this moment.
      return {
        isDue: row?.is_due === true,
        scannedTo: readBlock(row?.scanned_to),
        finalBlock: readBlock(row?.final_block),
      };
    });
  }

  moveCursor(
    { network, node, receivers }: ForeignScan,
    was: bigint | undefined,
    { scannedTo, finalBlock }: ScanCursor,
  ): Promise<boolean> {
    const { database, statements, faults } = this.#parts;
    return committing(faults, "moveCursor", async () => {
      const blocks = [was, scannedTo, finalBlock].map((block) => block?.toString() ?? null);
      const values = [network, node, receivers, ...blocks];
      const rows = await database.run<{ moved: boolean }>(statements.moveCursor, values);
      return onlyRow(rows, "moveCursor").moved;
    });
  }

  async #records(statement: Statement, values: readonly SqlValue[]): Promise<readonly PaymentRecord[]> {
    return (await this.#parts.database.run<PaymentRow>(statement, values)).map(rowToRecord);
  }
}
