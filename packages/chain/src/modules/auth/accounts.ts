import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { AppError, utf8ToBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { moduleAddressBytes } from "@turnpike/crypto";
import {
  type Any,
  AnySchema,
  auth,
  createMessage,
  type Decoded,
  decodeMessage,
  packAny,
  typeUrlOf,
} from "@turnpike/proto";
import { addressText } from "../../state/addresses.ts";
import { keptCodec, messageCodec, noKey, pairCodec, rawCodec, uint64Codec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { readAny } from "../../state/read-message.ts";

/** Name of the module, and of its part of the state. */
export const AUTH_MODULE = "auth";

/** An account of the state. */
export interface Account {
  readonly base: auth.BaseAccount;
  /** Set for a module's account. */
  readonly module?: { readonly name: string; readonly permissions: readonly string[] };
}

/** The parameters that a chain has unless its genesis says otherwise. */
export const DEFAULT_AUTH_PARAMS: auth.Params = createMessage(auth.ParamsSchema, {
  maxMemoCharacters: 256n,
  txSigLimit: 7n,
  txSizeCostPerByte: 10n,
  sigVerifyCostEd25519: 590n,
  sigVerifyCostSecp256k1: 1000n,
});

const module = AUTH_MODULE;
const BASE_URL = typeUrlOf(auth.BaseAccountSchema);
const MODULE_URL = typeUrlOf(auth.ModuleAccountSchema);

/** Parameters of accounts and transactions. */
export const authParams = new Collection({
  module,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: keptCodec(messageCodec(auth.ParamsSchema)),
});
/** Accounts as `Any`, by address bytes. */
export const accountsByAddress = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: rawCodec,
  value: keptCodec(messageCodec(AnySchema)),
});
/** The number that the next account gets. */
export const nextAccountNumber = new Collection({ module, prefix: Uint8Array.of(2), key: noKey, value: uint64Codec });
/** Address bytes by account number. */
export const addressByNumber = new Collection({
  module,
  prefix: utf8ToBytes("accountNumber"),
  key: uint64Codec,
  value: rawCodec,
});
/** Unordered transactions that can still be repeated: their timeout in nanoseconds, and their signer. */
export const unorderedNonces = new Collection({
  module,
  prefix: Uint8Array.of(90),
  key: pairCodec(uint64Codec, rawCodec),
  value: rawCodec,
});

/** The parameters. */
export function getAuthParams(ctx: Context): auth.Params {
  return authParams.get(ctx, undefined) ?? DEFAULT_AUTH_PARAMS;
}

type ReadInner = <Desc extends DescMessage>(schema: Desc, any: Any) => Decoded<MessageShape<Desc>>;

/** Reads an account out of its `Any`; undefined for another type. */
export function unpackAccount(any: Any, readInner: ReadInner = readAny): Account | undefined {
  if (any.typeUrl === BASE_URL) {
    const decoded = readInner(auth.BaseAccountSchema, any);
    return decoded.ok ? { base: decoded.message } : undefined;
  }
  if (any.typeUrl !== MODULE_URL) return undefined;
  const decoded = readInner(auth.ModuleAccountSchema, any);
  if (!decoded.ok || decoded.message.baseAccount === undefined) return undefined;
  const { baseAccount, name, permissions } = decoded.message;
  return { base: baseAccount, module: { name, permissions } };
}

// What the state holds was read when it was written.
const readStored: ReadInner = (schema, { value }) => decodeMessage(schema, value);

/** The `Any` of an account. */
export function packAccount({ base, module: owner }: Account): Any {
  if (owner === undefined) return packAny(auth.BaseAccountSchema, base);
  return packAny(
    auth.ModuleAccountSchema,
    createMessage(auth.ModuleAccountSchema, {
      baseAccount: base,
      name: owner.name,
      permissions: [...owner.permissions],
    }),
  );
}

// What the state gives twice is unpacked once.
const unpacked = new WeakMap<Any, Account>();

/** The account of an address, which is not to be changed; undefined when there is none. */
export function getAccount(ctx: Context, address: Bytes): Account | undefined {
  const any = accountsByAddress.get(ctx, address);
  if (any === undefined) return undefined;
  const account = unpacked.get(any) ?? unpackAccount(any, readStored);
  if (account === undefined) throw new AppError("CHAIN_STORE_DAMAGED", { detail: { account: addressText(address) } });
  unpacked.set(any, account);
  return account;
}

/** Writes an account, new or changed, and its number's entry. Costs what the SDK's unique index does. */
export function setAccount(ctx: Context, address: Bytes, account: Account): void {
  const number = account.base.accountNumber;
  const old = getAccount(ctx, address);
  if (old?.base.accountNumber === number) {
    // Its entry is there: every transaction changes its signers' accounts, and next to none their numbers.
    addressByNumber.chargeReplacement(ctx, number, address);
  } else {
    if (old !== undefined) addressByNumber.remove(ctx, old.base.accountNumber);
    if (addressByNumber.has(ctx, number)) {
      throw new AppError("INTERNAL", { detail: { account: addressText(address), number: number.toString() } });
    }
    addressByNumber.set(ctx, number, address);
  }
  accountsByAddress.set(ctx, address, packAccount(account));
}

/** Makes an account, with the next number. */
export function createAccount(ctx: Context, address: Bytes, owner?: Account["module"]): Account {
  const accountNumber = nextAccountNumber.get(ctx, undefined) ?? 0n;
  const base = createMessage(auth.BaseAccountSchema, { address: addressText(address), accountNumber });
  const account: Account = owner === undefined ? { base } : { base, module: owner };
  nextAccountNumber.set(ctx, undefined, accountNumber + 1n);
  setAccount(ctx, address, account);
  return account;
}

/** Writes an account that is new, with the number that it has. */
export function addAccount(ctx: Context, address: Bytes, account: Account): void {
  const number = account.base.accountNumber;
  setAccount(ctx, address, account);
  if (number >= (nextAccountNumber.get(ctx, undefined) ?? 0n)) nextAccountNumber.set(ctx, undefined, number + 1n);
}

/** Makes an account when an address has none: an address that receives coins has one from then on. */
export function ensureAccount(ctx: Context, address: Bytes): void {
  if (!accountsByAddress.has(ctx, address)) createAccount(ctx, address);
}

/** Account of a module, made when it is missing. */
export function ensureModuleAccount(ctx: Context, name: string, permissions: readonly string[]): Account {
  const address = moduleAddressBytes(name);
  return getAccount(ctx, address) ?? createAccount(ctx, address, { name, permissions });
}

/**
 * Notes that a signer used a timeout; false when it did before. Entries leave once the block time is past them, when the
 * transaction is refused for its age.
 */
export function addUnorderedNonce(ctx: Context, signer: Bytes, timeoutNanos: bigint): boolean {
  const key = [timeoutNanos, signer] as const;
  if (unorderedNonces.has(ctx, key)) return false;
  unorderedNonces.set(ctx, key, new Uint8Array(0));
  return true;
}

/** Nonces that one block removes at most. Those that are left do no harm, and go with the next blocks. */
const MOST_EXPIRED_PER_BLOCK = 10_000;

/** Removes nonces that no transaction can repeat at this block time, the oldest first. */
export function removeExpiredNonces(ctx: Context): void {
  const to = uint64Codec.encode(ctx.block.timeNanos);
  let left = MOST_EXPIRED_PER_BLOCK;
  for (const [key] of unorderedNonces.entries(ctx, { to })) {
    unorderedNonces.remove(ctx, key);
    left--;
    if (left === 0) return;
  }
}
