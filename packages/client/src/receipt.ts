import { isRecord, sameAddress } from "@turnpike/base";
import { decodePaymentResponseHeader } from "@x402/fetch";
import { textOf } from "./answers.ts";
import { type PaymentFacts, readPayment } from "./payment-header.ts";
import type { ClaimedReceipt, PurchaseReceipt } from "./types.ts";

/** Hash of an EVM transaction, which is the `transaction` of `eip155` networks (x402 v2, SettleResponse). */
const TRANSACTION = /^0x[0-9a-fA-F]{64}$/;
/** Id of a settlement of our gateway; another maker's extension of this name has no id for us. */
const SETTLEMENT_ID = /^stl_[A-Za-z0-9_-]{1,40}$/;
/** Maximum UTF-16 units of a receipt's value that are repeated. */
const MAX_SHOWN_LENGTH = 80;

/** The receipt of an answer. Exactly one of the two is there. */
export interface ReadReceipt {
  /** One whose every field fits the payment: of success, or of a failure. */
  readonly fitting: PurchaseReceipt | undefined;
  readonly claimed: ClaimedReceipt | undefined;
}

/** Fields that are compared with the payment. */
const COMPARED = ["network", "transaction", "payer", "payTo", "asset", "amount"] as const;
type Field = (typeof COMPARED)[number];

const NAMES: Readonly<Record<Field, string>> = {
  network: "network",
  transaction: "transaction",
  payer: "payer",
  payTo: "receiver",
  asset: "token",
  amount: "amount",
};

const shown = (value: unknown): string => JSON.stringify((textOf(value) ?? "").slice(0, MAX_SHOWN_LENGTH));

function typeName(value: unknown): string {
  return Array.isArray(value) ? "a list" : `of the type ${typeof value}`;
}

const EXPECTED: Readonly<Record<Field, (text: string, facts: PaymentFacts) => string | undefined>> = {
  network: (text, { network }) =>
    text === network ? undefined : `its network is ${shown(text)}, and ${network} was signed`,
  transaction: (text) =>
    TRANSACTION.test(text) ? undefined : `its transaction ${shown(text)} is not a transaction hash`,
  payer: (text, { from }) => (sameAddress(text, from) ? undefined : `its payer is ${shown(text)}, not ${from}`),
  payTo: (text, { to }) => (sameAddress(text, to) ? undefined : `its receiver is ${shown(text)}, not ${to}`),
  asset: (text, { asset }) => (sameAddress(text, asset) ? undefined : `its token is ${shown(text)}, not ${asset}`),
  amount: (text, { value }) =>
    text === value.toString() ? undefined : `its amount is ${shown(text)}, and ${value} was signed`,
};

/** Fields that a receipt of success has (x402 v2, SettleResponse). A failure may have no transaction. */
const REQUIRED: ReadonlySet<Field> = new Set(["network", "transaction"]);

/**
 * Difference between a receipt and the payment that it came for, as a clause; undefined where it fits. Each present field is compared: one
 * of a wrong type fits nothing. A null is an absent member: pip's x402 leaves such out, and sellers that write its models themselves do not.
 */
function misfitOf(receipt: Readonly<Record<string, unknown>>, payment: string): string | undefined {
  const facts = readPayment(payment);
  if (facts === undefined) return "the payment cannot be read";
  for (const field of COMPARED) {
    const value = receipt[field] ?? undefined;
    const isRequired = receipt.success === true && REQUIRED.has(field);
    if (value === undefined && !isRequired) continue;
    if (value === "" && receipt.success !== true) continue;
    if (value !== undefined && typeof value !== "string")
      return `its ${NAMES[field]} is ${typeName(value)}, and no text`;
    const misfit = EXPECTED[field](value ?? "", facts);
    if (misfit !== undefined) return misfit;
  }
  return undefined;
}

/** The receipt of the answer to a payment; undefined when there is none that can be read. */
export function readReceipt(headers: Headers, payment: string): ReadReceipt | undefined {
  const header = headers.get("payment-response");
  if (header === null) return undefined;
  let json: unknown;
  try {
    json = decodePaymentResponseHeader(header);
  } catch {
    return undefined;
  }
  if (!isRecord(json)) return undefined;
  const { extensions } = json;
  const settlement = isRecord(extensions) ? extensions.settlement : undefined;
  const id = isRecord(settlement) ? settlement.id : undefined;
  const receipt: PurchaseReceipt = {
    success: json.success === true,
    transaction: textOf(json.transaction) ?? "",
    network: textOf(json.network) ?? "",
    payer: textOf(json.payer),
    payTo: textOf(json.payTo),
    amount: textOf(json.amount),
    asset: textOf(json.asset),
    errorReason: textOf(json.errorReason),
    settlementId: typeof id === "string" && SETTLEMENT_ID.test(id) ? id : undefined,
  };
  const misfit = misfitOf(json, payment);
  return misfit === undefined
    ? { fitting: receipt, claimed: undefined }
    : { fitting: undefined, claimed: { ...receipt, misfit } };
}
