import { bytesEqual, bytesToBase64 } from "@turnpike/base";
import { isCosmosPublicKey, publicKeyToAddressBytes } from "@turnpike/crypto";
import {
  type Any,
  type auth,
  createMessage,
  cryptoSecp256k1,
  decodeMessage,
  encodeMessage,
  packAny,
  signing,
  tx as txs,
  typeUrlOf,
} from "@turnpike/proto";
import { type Account, addUnorderedNonce, getAccount, getAuthParams, setAccount } from "../modules/auth/accounts.ts";
import { addressText } from "../state/addresses.ts";
import { type Context, chainEvent } from "../state/context.ts";
import { done, fail, type Outcome, SDK } from "../state/outcome.ts";
import type { Bytes } from "../types.ts";
import type { DecodedTx } from "./decode.ts";
import { timeoutNanosOf } from "./times.ts";
import type { VerifySignature } from "./verified-signatures.ts";

const KEY_URL = typeUrlOf(cryptoSecp256k1.PubKeySchema);
const LONGEST_UNORDERED_NANOS = 600_000_000_000n;
const UNORDERED_GAS = 2240n;

/** The key of an `Any`; undefined when it is no valid secp256k1 key. */
function keyOf(any: Any): Bytes | undefined {
  if (any.typeUrl !== KEY_URL) return undefined;
  const decoded = decodeMessage(cryptoSecp256k1.PubKeySchema, any.value);
  return decoded.ok && isCosmosPublicKey(decoded.message.key) ? decoded.message.key : undefined;
}

function signerAccount(ctx: Context, address: Bytes): Outcome<Account> {
  const account = getAccount(ctx, address);
  if (account !== undefined) return done(account);
  return fail(SDK.unknownAddress, `account ${addressText(address)} does not exist`);
}

function changed(account: Account, change: Partial<auth.BaseAccount>): Account {
  return { ...account, base: { ...account.base, ...change } };
}

/** Keeps the keys of signers that never signed before, and tells sequences and signatures as events. */
export function setPublicKeys(ctx: Context, tx: DecodedTx): Outcome<undefined> {
  const infos = tx.authInfo.signerInfos;
  if (infos.length > tx.signers.length) return signerCountFault(tx);
  for (const [i, info] of infos.entries()) {
    const address = tx.signers[i];
    if (info.publicKey === undefined || address === undefined) continue;
    const key = keyOf(info.publicKey);
    if (key === undefined) {
      return fail(SDK.invalidPublicKey, `unrecognized public key type: ${info.publicKey.typeUrl}`);
    }
    if (ctx.mode !== "simulate" && !bytesEqual(publicKeyToAddressBytes(key), address)) {
      const text = `pubKey does not match signer address ${addressText(address)} with signer index: ${i}`;
      return fail(SDK.invalidPublicKey, text);
    }
    const account = signerAccount(ctx, address);
    if (!account.ok) return account;
    if (account.value.base.pubKey !== undefined) continue;
    const pubKey = packAny(cryptoSecp256k1.PubKeySchema, createMessage(cryptoSecp256k1.PubKeySchema, { key }));
    setAccount(ctx, address, changed(account.value, { pubKey }));
  }
  for (const [i, info] of infos.entries()) {
    const address = addressText(tx.signers[i] ?? new Uint8Array(0));
    if (!tx.body.unordered) ctx.events.push(chainEvent("tx", { acc_seq: `${address}/${info.sequence}` }));
    const signature = bytesToBase64(tx.raw.signatures[i] ?? new Uint8Array(0));
    ctx.events.push(chainEvent("tx", { signature }));
  }
  return done(undefined);
}

function signerCountFault(tx: DecodedTx): Outcome<undefined> {
  const text = `invalid number of signer;  expected: ${tx.signers.length}, got ${tx.authInfo.signerInfos.length}`;
  return fail(SDK.unauthorized, text);
}

/** Counts the signatures, and takes the gas of verifying them. */
export function consumeSignatureGas(ctx: Context, tx: DecodedTx): Outcome<undefined> {
  const count = tx.authInfo.signerInfos.length;
  const { txSigLimit } = getAuthParams(ctx);
  if (BigInt(count) > txSigLimit) {
    return fail(SDK.tooManySignatures, `signatures: ${count}, limit: ${txSigLimit}`);
  }
  const params = getAuthParams(ctx);
  for (const address of tx.signers.slice(0, count)) {
    const account = signerAccount(ctx, address);
    if (!account.ok) return account;
    ctx.gas.consume(params.sigVerifyCostSecp256k1, "ante verify: secp256k1");
  }
  return done(undefined);
}

function checkUnordered(ctx: Context, tx: DecodedTx): Outcome<undefined> {
  const timeout = timeoutNanosOf(tx.body);
  if (timeout === undefined) {
    return fail(SDK.invalidRequest, "unordered transaction must have timeout_timestamp set");
  }
  if (timeout < ctx.block.timeNanos) {
    return fail(SDK.invalidRequest, "unordered transaction has a timeout_timestamp that has already passed");
  }
  if (timeout > ctx.block.timeNanos + LONGEST_UNORDERED_NANOS) {
    return fail(SDK.invalidRequest, "unordered tx ttl exceeds 10m0s");
  }
  ctx.gas.consume(UNORDERED_GAS, "unordered tx");
  if (ctx.mode === "simulate") return done(undefined);
  for (const signer of tx.signers) {
    if (addUnorderedNonce(ctx, signer, timeout)) continue;
    const hex = Buffer.from(signer).toString("hex");
    const text = `failed to add unordered nonce: already used timeout ${timeout} for address ${hex}`;
    return fail(SDK.invalidRequest, text);
  }
  return done(undefined);
}

interface Signing {
  readonly accountNumber: bigint;
  readonly chainId: string;
  readonly verify: VerifySignature;
}

function signs(tx: DecodedTx, i: number, account: Account, { accountNumber, chainId, verify }: Signing): boolean {
  const info = tx.authInfo.signerInfos[i];
  const signature = tx.raw.signatures[i];
  const key = account.base.pubKey === undefined ? undefined : keyOf(account.base.pubKey);
  const mode = info?.modeInfo?.sum;
  if (mode?.case !== "single" || mode.value.mode !== signing.SignMode.DIRECT) return false;
  if (key === undefined || signature === undefined) return false;
  const { bodyBytes, authInfoBytes } = tx.raw;
  const document = createMessage(txs.SignDocSchema, { bodyBytes, authInfoBytes, chainId, accountNumber });
  return verify(encodeMessage(txs.SignDocSchema, document), signature, key);
}

/** Checks sequences, or the timeout of an unordered transaction, and every signature. */
export function verifySignatures(ctx: Context, tx: DecodedTx, verify: VerifySignature): Outcome<undefined> {
  const { chainId, heightBlocks } = ctx.block;
  const infos = tx.authInfo.signerInfos;
  if (infos.length !== tx.signers.length && ctx.mode !== "simulate") return signerCountFault(tx);
  if (tx.body.unordered) {
    const unordered = checkUnordered(ctx, tx);
    if (!unordered.ok) return unordered;
  }
  for (const [i, address] of tx.signers.entries()) {
    const found = signerAccount(ctx, address);
    if (!found.ok) return found;
    const account = found.value;
    if (ctx.mode !== "simulate" && account.base.pubKey === undefined) {
      return fail(SDK.invalidPublicKey, "pubkey on account is not set");
    }
    const { sequence } = account.base;
    const given = infos[i]?.sequence ?? 0n;
    if (tx.body.unordered && given > 0n) {
      return fail(SDK.invalidRequest, "sequence is not allowed for unordered transactions");
    }
    if (!tx.body.unordered && given !== sequence) {
      return fail(SDK.wrongSequence, `account sequence mismatch, expected ${sequence}, got ${given}`);
    }
    if (ctx.mode === "simulate" || ctx.mode === "recheck") continue;
    const number = heightBlocks === 0n ? 0n : account.base.accountNumber;
    if (signs(tx, i, account, { accountNumber: number, chainId, verify })) continue;
    const where = `please verify account number (${number}) and chain-id (${chainId})`;
    return fail(
      SDK.unauthorized,
      `signature verification failed; ${where}: (unable to verify single signer signature)`,
    );
  }
  return done(undefined);
}

/** Moves the sequences of all signers on; an unordered transaction has none. */
export function incrementSequences(ctx: Context, tx: DecodedTx): void {
  if (tx.body.unordered) return;
  for (const address of tx.signers) {
    const account = getAccount(ctx, address);
    if (account !== undefined) setAccount(ctx, address, changed(account, { sequence: account.base.sequence + 1n }));
  }
}
