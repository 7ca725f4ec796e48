import { bytesEqual, bytesToBase64 } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import type { auth } from "@turnpike/proto";
import {
  type AccountKey,
  accountKeyAddress,
  aminoKeyBytes,
  countKeys,
  packAccountKey,
  readAccountKey,
} from "../modules/auth/account-keys.ts";
import { type Account, addUnorderedNonce, getAccount, getAuthParams, setAccount } from "../modules/auth/accounts.ts";
import { addressText } from "../state/addresses.ts";
import { type Context, chainEvent } from "../state/context.ts";
import { done, fail, failPlain, type Outcome, SDK } from "../state/outcome.ts";
import type { DecodedTx } from "./decode.ts";
import type { SignerFacts } from "./sign-documents.ts";
import { isAminoOnly, isIncomplete, readSignature, type SignatureData, signatureBytes } from "./signature-data.ts";
import { timeoutNanosOf } from "./times.ts";
import type { VerifySignature } from "./verified-signatures.ts";
import { documentsOf, signatureFault } from "./verify-signature.ts";

const LONGEST_UNORDERED_NANOS = 600_000_000_000n;
const UNORDERED_GAS = 2240n;
// Bytes of a signature and of the fields around it, as the SDK estimates a signature that is still to come.
const SIGNATURE_BYTES = 72;
/** The key that a simulation takes where there is none yet. */
const SIMULATED_KEY: AccountKey = {
  kind: "single",
  key: Buffer.from("035ad6810a47f073553ff30d2fcc7e0d3b1c0b74b61a1aaa2582344037151e143a", "hex"),
};

/** The key of an account; undefined when it has none that can sign here. */
function keyOf({ base: { pubKey } }: Account): AccountKey | undefined {
  return pubKey === undefined ? undefined : readAccountKey(pubKey);
}

/** What the signers give, in their order: a signature for each info, whether there are bytes for it or not. */
export function signaturesOf({ authInfo, raw }: DecodedTx): Outcome<SignatureData[]> {
  const given: SignatureData[] = [];
  for (const [i, info] of authInfo.signerInfos.entries()) {
    const read = readSignature(info.modeInfo, raw.signatures[i] ?? new Uint8Array(0));
    if (!read.ok) return failPlain(read.fault);
    given.push(read.data);
  }
  return done(given);
}

/** Takes the gas of the bytes of signatures that a simulated transaction will have: of all, for a multisig key. */
export function consumeMissingSignatures(
  ctx: Context,
  tx: DecodedTx,
  given: readonly SignatureData[],
  { txSizeCostPerByte, txSigLimit }: auth.Params,
): void {
  for (const [i, address] of tx.signers.entries()) {
    const signature = given[i];
    if (signature !== undefined && !isIncomplete(signature)) continue;
    const account = getAccount(ctx, address);
    const key = (account === undefined ? undefined : keyOf(account)) ?? SIMULATED_KEY;
    const keyBytes = aminoKeyBytes(key).length;
    const bytes = BigInt(SIGNATURE_BYTES + keyBytes + (keyBytes < 0x80 ? 2 : keyBytes < 0x4000 ? 3 : 4));
    ctx.gas.consume(txSizeCostPerByte * bytes * (key.kind === "multisig" ? txSigLimit : 1n), "txSize");
  }
}

function signerAccount(ctx: Context, address: Bytes): Outcome<Account> {
  const account = getAccount(ctx, address);
  if (account !== undefined) return done(account);
  return fail(SDK.unknownAddress, `account ${addressText(address)} does not exist`);
}

/** The account with these fields changed. */
export function changedAccount(account: Account, change: Partial<auth.BaseAccount>): Account {
  return { ...account, base: { ...account.base, ...change } };
}

function setPublicKey(ctx: Context, tx: DecodedTx, i: number, address: Bytes): Outcome<undefined> {
  const any = tx.authInfo.signerInfos[i]?.publicKey;
  const simulates = ctx.mode === "simulate";
  if (any === undefined && !simulates) return done(undefined);
  const key = any === undefined ? SIMULATED_KEY : readAccountKey(any);
  if (key === undefined) return fail(SDK.invalidPublicKey, `unrecognized public key type: ${any?.typeUrl}`);
  if (!simulates && !bytesEqual(accountKeyAddress(key), address)) {
    const text = `pubKey does not match signer address ${addressText(address)} with signer index: ${i}`;
    return fail(SDK.invalidPublicKey, text);
  }
  const account = signerAccount(ctx, address);
  if (!account.ok) return account;
  if (account.value.base.pubKey === undefined) {
    setAccount(ctx, address, changedAccount(account.value, { pubKey: packAccountKey(key) }));
  }
  return done(undefined);
}

/** Keeps the keys of signers that never signed before, and reports sequences and signatures as events. */
export function setPublicKeys(ctx: Context, tx: DecodedTx, given: readonly SignatureData[]): Outcome<undefined> {
  const infos = tx.authInfo.signerInfos;
  if (infos.length > tx.signers.length) return signerCountFault(tx);
  for (const [i, address] of tx.signers.slice(0, infos.length).entries()) {
    const set = setPublicKey(ctx, tx, i, address);
    if (!set.ok) return set;
  }
  for (const [i, signature] of given.entries()) {
    const address = addressText(tx.signers[i] ?? new Uint8Array(0));
    const sequence = infos[i]?.sequence ?? 0n;
    if (!tx.body.unordered) ctx.events.push(chainEvent("tx", { acc_seq: `${address}/${sequence}` }));
    for (const bytes of signatureBytes(signature)) {
      ctx.events.push(chainEvent("tx", { signature: bytesToBase64(bytes) }));
    }
  }
  return done(undefined);
}

function signerCountFault(tx: DecodedTx): Outcome<undefined> {
  const text = `invalid number of signer;  expected: ${tx.signers.length}, got ${tx.authInfo.signerInfos.length}`;
  return fail(SDK.unauthorized, text);
}

function checkSignatureCount(ctx: Context, tx: DecodedTx): Outcome<undefined> {
  const { txSigLimit } = getAuthParams(ctx);
  let count = 0;
  for (const { publicKey } of tx.authInfo.signerInfos) {
    const key = publicKey === undefined ? undefined : readAccountKey(publicKey);
    count += key === undefined ? 0 : countKeys(key);
    if (BigInt(count) > txSigLimit) {
      return fail(SDK.tooManySignatures, `signatures: ${count}, limit: ${txSigLimit}`);
    }
  }
  return done(undefined);
}

function consumeKeyGas(
  ctx: Context,
  params: auth.Params,
  key: AccountKey,
  signature: SignatureData,
): Outcome<undefined> {
  if (key.kind === "single") {
    ctx.gas.consume(params.sigVerifyCostSecp256k1, "ante verify: secp256k1");
    return done(undefined);
  }
  if (signature.kind === "single") {
    return failPlain("expected *signing.MultiSignatureData, got, *signing.SingleSignatureData");
  }
  let next = 0;
  for (const [i, signed] of signature.signed.entries()) {
    if (!signed) continue;
    const member = key.keys[i];
    const part = signature.parts[next++];
    if (member === undefined || part === undefined) return failPlain("a signature of a multisignature is missing");
    const counted = consumeKeyGas(ctx, params, member, part);
    if (!counted.ok) return counted;
  }
  return done(undefined);
}

/** Counts the keys that sign, and takes the gas of verifying each signature. */
export function consumeSignatureGas(ctx: Context, tx: DecodedTx, given: readonly SignatureData[]): Outcome<undefined> {
  const count = checkSignatureCount(ctx, tx);
  if (!count.ok) return count;
  const params = getAuthParams(ctx);
  for (const [i, signature] of given.entries()) {
    const account = signerAccount(ctx, tx.signers[i] ?? new Uint8Array(0));
    if (!account.ok) return account;
    const key = keyOf(account.value) ?? SIMULATED_KEY;
    const counted = consumeKeyGas(ctx, params, key, signature);
    if (!counted.ok) return counted;
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
    const text = `failed to add unordered nonce: sender ${addressText(signer)} has already used timeout ${timeout}`;
    return fail(SDK.invalidRequest, text);
  }
  return done(undefined);
}

function badSignature(given: SignatureData, { accountNumber, chainId }: SignerFacts, sequence: bigint, fault: string) {
  const failed = `signature verification failed; please verify account number (${accountNumber})`;
  if (isAminoOnly(given)) {
    return fail(SDK.unauthorized, `${failed}, sequence (${sequence}) and chain-id (${chainId})`);
  }
  return fail(SDK.unauthorized, `${failed} and chain-id (${chainId}): (${fault})`);
}

/** Checks sequences, or the timeout of an unordered transaction, and every signature. */
export function verifySignatures(
  ctx: Context,
  tx: DecodedTx,
  given: readonly SignatureData[],
  verify: VerifySignature,
): Outcome<undefined> {
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
    const givenSequence = infos[i]?.sequence ?? 0n;
    if (tx.body.unordered && givenSequence > 0n) {
      return fail(SDK.invalidRequest, "sequence is not allowed for unordered transactions");
    }
    if (!tx.body.unordered && givenSequence !== sequence) {
      return fail(SDK.wrongSequence, `account sequence mismatch, expected ${sequence}, got ${givenSequence}`);
    }
    if (ctx.mode === "simulate" || ctx.mode === "recheck") continue;
    const accountNumber = heightBlocks === 0n ? 0n : account.base.accountNumber;
    const facts: SignerFacts = { chainId, accountNumber, sequence: givenSequence };
    const key = keyOf(account);
    const signature = given[i];
    if (key === undefined || signature === undefined) return fail(SDK.invalidPublicKey, "pubkey on account is not set");
    const fault = signatureFault(key, signature, documentsOf(tx, facts), verify);
    if (fault !== undefined) return badSignature(signature, facts, sequence, fault);
  }
  return done(undefined);
}

/** Moves the sequences of all signers on; an unordered transaction has none. */
export function incrementSequences(ctx: Context, tx: DecodedTx): void {
  if (tx.body.unordered) return;
  for (const address of tx.signers) {
    const account = getAccount(ctx, address);
    if (account !== undefined)
      setAccount(ctx, address, changedAccount(account, { sequence: account.base.sequence + 1n }));
  }
}
