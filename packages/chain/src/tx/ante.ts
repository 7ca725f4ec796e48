import { utf8ToBytes } from "@turnpike/base";
import { getAuthParams } from "../modules/auth/accounts.ts";
import { parseAddress } from "../state/addresses.ts";
import type { Context } from "../state/context.ts";
import { done, fail, type Outcome, SDK } from "../state/outcome.ts";
import type { DecodedTx } from "./decode.ts";
import { deductFee, type GasPrice } from "./fees.ts";
import {
  consumeMissingSignatures,
  consumeSignatureGas,
  incrementSequences,
  setPublicKeys,
  signaturesOf,
  verifySignatures,
} from "./signatures.ts";
import { goTimeText, timeoutNanosOf } from "./times.ts";
import type { VerifySignature } from "./verified-signatures.ts";

const MOST_GAS = (1n << 63n) - 1n;

function checkForm({ fee, body, raw, signers, authInfo }: DecodedTx, simulates: boolean): Outcome<undefined> {
  if (body.extensionOptions.length > 0) return fail(SDK.unknownExtensionOptions);
  if (fee.gasLimit > MOST_GAS) {
    return fail(SDK.invalidRequest, `invalid gas supplied; ${fee.gasLimit} > ${MOST_GAS}`);
  }
  const negative = fee.amount.some((coin) => coin.amount.startsWith("-"));
  if (negative) {
    const text = fee.amount.map((coin) => `${coin.amount}${coin.denom}`).join(",");
    return fail(SDK.insufficientFee, `invalid fee provided: ${text}`);
  }
  if (fee.granter !== "" && !parseAddress(fee.granter).ok) {
    return fail(SDK.invalidAddress, `invalid fee granter address (${fee.granter})`);
  }
  if (simulates && raw.signatures.length < signers.length) return done(undefined);
  if (raw.signatures.length === 0) return fail(SDK.noSignatures);
  if (raw.signatures.length !== signers.length) {
    const text = `wrong number of signers; expected ${signers.length}, got ${raw.signatures.length}`;
    return fail(SDK.unauthorized, text);
  }
  if (authInfo.signerInfos.length > signers.length) {
    const text = `invalid number of signer;  expected: ${signers.length}, got ${authInfo.signerInfos.length}`;
    return fail(SDK.unauthorized, text);
  }
  return done(undefined);
}

function checkTimeouts(ctx: Context, { body }: DecodedTx): Outcome<undefined> {
  const { heightBlocks, timeNanos } = ctx.block;
  if (body.timeoutHeight > 0n && heightBlocks > body.timeoutHeight) {
    return fail(SDK.txTimeoutHeight, `block height: ${heightBlocks}, timeout height: ${body.timeoutHeight}`);
  }
  const timeout = timeoutNanosOf(body);
  if (timeout !== undefined && timeNanos > timeout) {
    const times = `block time: ${goTimeText(timeNanos)}, timeout timestamp: ${goTimeText(timeout)}`;
    return fail(SDK.txTimeout, times);
  }
  return done(undefined);
}

/** What the checks before the messages go by. */
export interface AnteOptions {
  /** What the mempool asks for; what is in a block is not asked. */
  readonly gasPrices: readonly GasPrice[];
  readonly verify: VerifySignature;
}

/**
 * The checks before the messages of a transaction, in the SDK's order: form, timeouts, memo, gas of its bytes, fee, keys,
 * gas of its signatures, signatures, sequences. On a fault the caller's writes and events must be undone.
 */
export function runAnte(ctx: Context, tx: DecodedTx, { gasPrices, verify }: AnteOptions): Outcome<undefined> {
  const simulates = ctx.mode === "simulate";
  const form = checkForm(tx, simulates);
  if (!form.ok) return form;
  const timeouts = checkTimeouts(ctx, tx);
  if (!timeouts.ok) return timeouts;
  const memoBytes = BigInt(utf8ToBytes(tx.body.memo).length);
  const most = getAuthParams(ctx).maxMemoCharacters;
  if (memoBytes > most) {
    const text = `maximum number of characters is ${most} but received ${memoBytes} characters`;
    return fail(SDK.memoTooLarge, text);
  }
  const params = getAuthParams(ctx);
  ctx.gas.consume(params.txSizeCostPerByte * BigInt(tx.bytes.length), "txSize");
  // Counted again with the members of multisig keys, once the fee is paid; reading each costs time before.
  const infos = tx.authInfo.signerInfos.length;
  if (BigInt(infos) > params.txSigLimit) {
    return fail(SDK.tooManySignatures, `signatures: ${infos}, limit: ${params.txSigLimit}`);
  }
  const given = signaturesOf(tx);
  if (!given.ok) return given;
  if (simulates) consumeMissingSignatures(ctx, tx, given.value, params);
  const paid = deductFee(ctx, tx, gasPrices);
  if (!paid.ok) return paid;
  const keys = setPublicKeys(ctx, tx, given.value);
  if (!keys.ok) return keys;
  const counted = consumeSignatureGas(ctx, tx, given.value);
  if (!counted.ok) return counted;
  const verified = verifySignatures(ctx, tx, given.value, verify);
  if (!verified.ok) return verified;
  incrementSequences(ctx, tx);
  return done(undefined);
}
