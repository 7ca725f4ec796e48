import { utf8ToBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import {
  type AminoJson,
  AnySchema,
  base,
  createMessage,
  encodeMessage,
  quoteText,
  signing,
  TimestampSchema,
  toAminoJson,
  tx as txs,
} from "@turnpike/proto";
import type { DecodedTx } from "./decode.ts";

/** What a signature covers beside the transaction. */
export interface SignerFacts {
  readonly chainId: string;
  readonly accountNumber: bigint;
  readonly sequence: bigint;
}

/** The parts of a transaction that a signature covers. */
export type SignedParts = Pick<DecodedTx, "raw" | "body" | "fee">;

/** The bytes that a signature is of, or why the transaction has none in this mode. */
export type SignDocument =
  | { readonly ok: true; readonly bytes: Bytes }
  | { readonly ok: false; readonly fault: string };

function listJson(parts: readonly AminoJson[]): AminoJson {
  const texts: string[] = [];
  for (const part of parts) {
    if (!part.ok) return part;
    texts.push(part.json);
  }
  return { ok: true, json: `[${texts.join(",")}]` };
}

function aminoDocument({ body, fee }: SignedParts, { chainId, accountNumber, sequence }: SignerFacts): AminoJson {
  const hasExtensions = body.extensionOptions.length > 0 || body.nonCriticalExtensionOptions.length > 0;
  const text = "SIGN_MODE_LEGACY_AMINO_JSON does not support protobuf extension options: invalid request";
  if (hasExtensions) return { ok: false, fault: text };
  // The document does not hold what is not known: anybody could add it to a signed transaction.
  const [unknown] = body.$unknown ?? [];
  if (unknown !== undefined) {
    return { ok: false, fault: `errUnknownField "/cosmos.tx.v1beta1.TxBody": {TagNum: ${unknown.no}}` };
  }
  const amount = listJson(fee.amount.map((coin) => toAminoJson(base.CoinSchema, coin)));
  if (!amount.ok) return amount;
  const messages = listJson(body.messages.map((any) => toAminoJson(AnySchema, any)));
  if (!messages.ok) return messages;
  const { timeoutTimestamp } = body;
  const timeout = timeoutTimestamp === undefined ? undefined : toAminoJson(TimestampSchema, timeoutTimestamp);
  if (timeout?.ok === false) return timeout;
  const granter = fee.granter === "" ? "" : `,"granter":${quoteText(fee.granter)}`;
  const payer = fee.payer === "" ? "" : `,"payer":${quoteText(fee.payer)}`;
  const members = [
    `"account_number":"${accountNumber}"`,
    `"chain_id":${quoteText(chainId)}`,
    `"fee":{"amount":${amount.json},"gas":"${fee.gasLimit}"${granter}${payer}}`,
    `"memo":${quoteText(body.memo)}`,
    `"msgs":${messages.json}`,
    `"sequence":"${sequence}"`,
    ...(body.timeoutHeight === 0n ? [] : [`"timeout_height":"${body.timeoutHeight}"`]),
    ...(timeout === undefined ? [] : [`"timeout_timestamp":${timeout.json}`]),
    ...(body.unordered ? ['"unordered":true'] : []),
  ];
  return { ok: true, json: `{${members.join(",")}}` };
}

/** The document that a signer of a transaction signs in a mode. */
export function signDocument(tx: SignedParts, mode: signing.SignMode, facts: SignerFacts): SignDocument {
  if (mode === signing.SignMode.DIRECT) {
    const { bodyBytes, authInfoBytes } = tx.raw;
    const { chainId, accountNumber } = facts;
    const document = createMessage(txs.SignDocSchema, { bodyBytes, authInfoBytes, chainId, accountNumber });
    return { ok: true, bytes: encodeMessage(txs.SignDocSchema, document) };
  }
  if (mode !== signing.SignMode.LEGACY_AMINO_JSON) {
    const name = signing.SignModeSchema.values.find(({ number }) => number === mode)?.name ?? String(mode);
    return { ok: false, fault: `unsupported sign mode ${name}` };
  }
  const document = aminoDocument(tx, facts);
  return document.ok ? { ok: true, bytes: utf8ToBytes(document.json) } : document;
}
