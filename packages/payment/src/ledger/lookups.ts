import { type Address, bytesToHex, type NetworkId, type SettlementId } from "@turnpike/base";
import type { InFlightPayment } from "../ledger-types.ts";
import type { PaymentKey, PaymentRecord, StoredAnswer } from "../types.ts";
import { nonceBytes } from "./claims.ts";
import type { SqlValue, Statement } from "./database.ts";
import { createGroup } from "./group.ts";
import { type LedgerParts, onlyRow } from "./parts.ts";
import { type PaymentRow, rowToRecord } from "./rows.ts";

interface PlacedRow extends PaymentRow {
  /** Place of what was asked for, from 1. */
  readonly place: number;
}

type Lookup<Key> = (key: Key) => Promise<PaymentRow | undefined>;

const READ_GROUP = { maxBatch: 100, maxRunning: 2 };

/** Looks payments up. Calls that come together share a statement. */
export class Lookups {
  readonly #parts: LedgerParts;
  readonly #find: Lookup<PaymentKey>;
  readonly #get: Lookup<SettlementId>;
  readonly #newest: Lookup<SettlementId>;

  constructor(parts: LedgerParts) {
    this.#parts = parts;
    const { statements } = parts;
    this.#find = this.#grouped(statements.find, (keys) => [
      keys.map(({ network }) => network),
      keys.map(({ asset }) => asset.toLowerCase()),
      keys.map(({ from }) => from.toLowerCase()),
      keys.map(({ nonce }) => bytesToHex(nonceBytes(nonce))),
    ]);
    this.#get = this.#grouped(statements.get, (ids) => [ids]);
    this.#newest = this.#grouped(statements.newest, (ids) => [ids]);
  }

  async find(key: PaymentKey): Promise<PaymentRecord | undefined> {
    const row = await this.#find(key);
    return row && rowToRecord(row);
  }

  async findByIdentifier(network: NetworkId, from: string, identifier: string): Promise<PaymentRecord | undefined> {
    const { database, statements } = this.#parts;
    const values = [network, from.toLowerCase(), identifier];
    const [row] = await database.run<PaymentRow>(statements.findByIdentifier, values);
    return row && rowToRecord(row);
  }

  async get(id: SettlementId): Promise<PaymentRecord | undefined> {
    const row = await this.#get(id);
    return row && rowToRecord(row);
  }

  async newest(id: SettlementId): Promise<PaymentRecord | undefined> {
    const row = await this.#newest(id);
    return row && rowToRecord(row);
  }

  async inFlight(
    network: NetworkId,
    asset: Address,
    from: Address,
    limit: number,
  ): Promise<readonly InFlightPayment[]> {
    const { database, statements } = this.#parts;
    const account = `${network} ${asset.toLowerCase()} ${from.toLowerCase()}`;
    const rows = await database.run<{ nonce: `0x${string}`; value: string }>(statements.inFlight, [account, limit]);
    return rows.map(({ nonce, value }) => ({ nonce, value: BigInt(value) }));
  }

  async answer(id: SettlementId, settledWithinMs?: number): Promise<StoredAnswer | undefined> {
    const { database, statements } = this.#parts;
    const values = [id, settledWithinMs ?? null];
    const [row] = await database.run<{ content_type: string; body: Uint8Array }>(statements.answer, values);
    return row && { contentType: row.content_type, body: row.body };
  }

  async hasAnswer(id: SettlementId, settledWithinMs: number): Promise<boolean> {
    const { database, statements } = this.#parts;
    const rows = await database.run<{ found: boolean }>(statements.hasAnswer, [id, settledWithinMs]);
    return onlyRow(rows, "hasAnswer").found;
  }

  /** The statement's rows name the place of the key that they are for; a key without one has no payment. */
  #grouped<Key>(statement: Statement, values: (keys: readonly Key[]) => readonly SqlValue[]): Lookup<Key> {
    const { database, queueLimit } = this.#parts;
    return createGroup({ ...READ_GROUP, maxWaiting: queueLimit }, async (keys: readonly Key[]) => {
      const rows = await database.run<PlacedRow>(statement, values(keys));
      const byPlace = new Map(rows.map((row) => [row.place, row]));
      return keys.map((_, at) => byPlace.get(at + 1));
    });
  }
}
