import {
  type Address,
  bytesToHex0x,
  type ErrorCode,
  type NetworkId,
  type ServiceId,
  type SettlementId,
} from "@turnpike/base";
import type { LedgerSums } from "../ledger-types.ts";
import type { PayerKind, PaymentRecord, PaymentState } from "../types.ts";

/** A payment as the driver gives it. */
export interface PaymentRow {
  readonly id: string;
  readonly network: string;
  readonly asset: string;
  readonly payer: string;
  readonly nonce: Uint8Array;
  readonly pay_to: string;
  readonly value: string;
  readonly valid_after: string;
  readonly valid_before: string;
  readonly signature: Uint8Array;
  readonly kind: string;
  readonly service_id: string;
  readonly payload_digest: Uint8Array;
  readonly request_hash: Uint8Array;
  readonly identifier: string | null;
  readonly state: string;
  readonly reason: string | null;
  readonly transaction_hash: string | null;
  readonly block_number: string | null;
  readonly block_hash: string | null;
  readonly log_index: number | null;
  readonly answer_expires_ms: number | null;
  readonly created_ms: number;
  readonly updated_ms: number;
}

const PLAIN = [
  "id",
  "network",
  "asset",
  "payer",
  "nonce",
  "pay_to",
  "value",
  "valid_after",
  "valid_before",
  "signature",
  "kind",
  "service_id",
  "payload_digest",
  "request_hash",
  "identifier",
  "state",
  "reason",
  "transaction_hash",
  "block_number",
  "block_hash",
  "log_index",
] as const;

const milliseconds = (column: string): string => `floor(extract(epoch from ${column}) * 1000)::float8`;

/** The select list that {@link rowToRecord} reads; `source` is a table, an alias or a composite in parentheses. */
export function paymentColumns(source: string): string {
  return [
    ...PLAIN.map((name) => `${source}.${name} as ${name}`),
    `${milliseconds(`${source}.answer_expires_at`)} as answer_expires_ms`,
    `${milliseconds(`${source}.created_at`)} as created_ms`,
    `${milliseconds(`${source}.updated_at`)} as updated_ms`,
  ].join(", ");
}

const isBlock = (
  row: PaymentRow,
): row is PaymentRow & { block_number: string; block_hash: string; log_index: number } =>
  row.block_number !== null && row.block_hash !== null && row.log_index !== null;

// The table's checks hold these texts to what the types say.
export function rowToRecord(row: PaymentRow): PaymentRecord {
  const transaction = row.transaction_hash === null ? undefined : (row.transaction_hash as `0x${string}`);
  return {
    id: row.id as SettlementId,
    key: {
      network: row.network as NetworkId,
      asset: row.asset as Address,
      from: row.payer as Address,
      nonce: bytesToHex0x(row.nonce),
    },
    payTo: row.pay_to as Address,
    value: BigInt(row.value),
    validAfter: BigInt(row.valid_after),
    validBefore: BigInt(row.valid_before),
    signature: row.signature,
    kind: row.kind as PayerKind,
    serviceId: row.service_id as ServiceId,
    payloadDigest: row.payload_digest,
    requestHash: row.request_hash,
    identifier: row.identifier ?? undefined,
    state: row.state as PaymentState,
    reason: (row.reason as ErrorCode | null) ?? undefined,
    transaction,
    evidence:
      isBlock(row) && transaction !== undefined
        ? {
            transaction,
            blockNumber: BigInt(row.block_number),
            blockHash: row.block_hash as `0x${string}`,
            logIndex: row.log_index,
          }
        : undefined,
    answerExpiresAtMs: row.answer_expires_ms ?? undefined,
    createdAtMs: row.created_ms,
    updatedAtMs: row.updated_ms,
  };
}

/** A signed transaction of an open batch, with its batch. */
export interface BatchRow {
  readonly id: string;
  readonly nonce: string;
  /** Only where batches of several keys are listed. */
  readonly relayer?: string;
  readonly gas_limit: string;
  readonly created_ms: number;
  readonly hash: string;
  readonly raw: Uint8Array;
  readonly max_fee_per_gas: string;
  readonly max_priority_fee_per_gas: string;
  readonly cancels: boolean;
  readonly cancel_requested: boolean;
  readonly reopened: boolean;
}

/** A payment of an open batch. */
export interface BatchPaymentRow extends PaymentRow {
  readonly batch: string;
}

/** One asset's payments in one state, as the view `books` gives them. */
export interface SumsRow {
  readonly network: string;
  readonly asset: string;
  readonly state: PaymentState;
  readonly payments: string;
  readonly value: string;
}

const none = { count: 0, value: 0n };

/** Gathers the view's rows by asset; states without payments are zero. */
export function sumsOf(rows: readonly SumsRow[]): readonly LedgerSums[] {
  return [...Map.groupBy(rows, (row) => `${row.network} ${row.asset}`).values()].flatMap((group): LedgerSums[] => {
    const [first] = group;
    if (first === undefined) return [];
    const states: Record<PaymentState, { count: number; value: bigint }> = {
      claimed: none,
      released: none,
      signed: none,
      submitted: none,
      settled: none,
      failed: none,
      owed: none,
      disputed: none,
    };
    for (const row of group) states[row.state] = { count: Number(row.payments), value: BigInt(row.value) };
    return [{ network: first.network as NetworkId, asset: first.asset as Address, states }];
  });
}
