import { type Any, base, createMessage, encodeMessage, signing, tx } from "@turnpike/proto";
import type { Amount } from "./amounts.ts";
import { type ChainSigner, packPublicKey } from "./signer.ts";

/**
 * Where a transaction stands among its signer's: behind the ones before, or (unordered) by itself, until a time at most ten
 * minutes after the block's.
 */
export type TxOrder =
  | { readonly kind: "ordered"; readonly sequence: bigint; readonly timeoutNanos?: bigint }
  | { readonly kind: "unordered"; readonly timeoutNanos: bigint };

/** A transaction before it is signed, by one signer. */
export interface UnsignedTx {
  readonly messages: readonly Any[];
  readonly chainId: string;
  readonly accountNumber: bigint;
  readonly order: TxOrder;
  readonly gasLimit: bigint;
  readonly fee: readonly Amount[];
  readonly memo?: string;
  /** Last block that may hold it; 0 for any. */
  readonly timeoutHeight?: bigint;
}

const NANOS = 1_000_000_000n;

function bodyOf({ messages, memo, timeoutHeight, order }: UnsignedTx): tx.TxBody {
  const timeout = order.timeoutNanos;
  return createMessage(tx.TxBodySchema, {
    messages: [...messages],
    memo: memo ?? "",
    timeoutHeight: timeoutHeight ?? 0n,
    unordered: order.kind === "unordered",
    ...(timeout === undefined
      ? {}
      : { timeoutTimestamp: { seconds: timeout / NANOS, nanos: Number(timeout % NANOS) } }),
  });
}

function feeOf({ fee, gasLimit }: UnsignedTx): tx.Fee {
  return createMessage(tx.FeeSchema, {
    amount: fee.map(({ denom, amount }) => createMessage(base.CoinSchema, { denom, amount: amount.toString() })),
    gasLimit,
  });
}

/** A transaction without signatures, as `--generate-only` shows it. */
export function unsignedTx(unsigned: UnsignedTx): tx.Tx {
  return createMessage(tx.TxSchema, {
    body: bodyOf(unsigned),
    authInfo: createMessage(tx.AuthInfoSchema, { fee: feeOf(unsigned) }),
  });
}

function authInfoBytes(unsigned: UnsignedTx, signer: ChainSigner): Uint8Array {
  const { order } = unsigned;
  const authInfo = createMessage(tx.AuthInfoSchema, {
    signerInfos: [
      {
        publicKey: packPublicKey(signer.publicKey),
        modeInfo: { sum: { case: "single", value: { mode: signing.SignMode.DIRECT } } },
        sequence: order.kind === "ordered" ? order.sequence : 0n,
      },
    ],
    fee: feeOf(unsigned),
  });
  return encodeMessage(tx.AuthInfoSchema, authInfo);
}

/** Bytes of a transaction, signed with SIGN_MODE_DIRECT. */
export function signTx(unsigned: UnsignedTx, signer: ChainSigner): Uint8Array {
  const body = encodeMessage(tx.TxBodySchema, bodyOf(unsigned));
  const authInfo = authInfoBytes(unsigned, signer);
  const document = createMessage(tx.SignDocSchema, {
    bodyBytes: body,
    authInfoBytes: authInfo,
    chainId: unsigned.chainId,
    accountNumber: unsigned.accountNumber,
  });
  const signature = signer.sign(encodeMessage(tx.SignDocSchema, document));
  const raw = createMessage(tx.TxRawSchema, { bodyBytes: body, authInfoBytes: authInfo, signatures: [signature] });
  return encodeMessage(tx.TxRawSchema, raw);
}
