import { AppError, bytesEqual } from "@turnpike/base";
import { auth, createMessage } from "@turnpike/proto";
import { addressText, parseAddress } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { addressType, numberType, recordType, type ValueOf } from "../../state/genesis-types.ts";
import { genesisList, type ModuleGenesis, moduleGenesis } from "../../state/module.ts";
import { accountKeyAddress, isKnownKeyType, readAccountKey } from "./account-keys.ts";
import {
  accountsByAddress,
  addAccount,
  addUnorderedNonce,
  authParams,
  DEFAULT_AUTH_PARAMS,
  ensureModuleAccount,
  getAuthParams,
  nextAccountNumber,
  unorderedNonces,
  unpackAccount,
} from "./accounts.ts";
import { paramsFault } from "./params.ts";

/** Accounts of modules with their permissions, in the order in which a genesis numbers them. */
export type ModuleAccounts = Readonly<Record<string, readonly string[]>>;

// Room for every account that will ever come, and for the codec's 64 bits.
const MOST_NUMBER = 1n << 62n;
const MAX_NANOS = 9n * 10n ** 18n - 1n;
const NONCE = recordType({
  address: addressType,
  timeout_nanos: numberType((nanos) => (nanos <= MAX_NANOS ? undefined : `more than ${MAX_NANOS}`)),
});

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the accounts is not valid: ${why}.` });

const compare = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0);

// Who has the key has the account; keys of other kinds sign nothing here.
function isOwnKey({ pubKey }: auth.BaseAccount, address: Uint8Array): boolean {
  if (pubKey === undefined || !isKnownKeyType(pubKey)) return true;
  const key = readAccountKey(pubKey);
  return key !== undefined && bytesEqual(accountKeyAddress(key), address);
}

function addAccounts(ctx: Context, state: auth.GenesisState): void {
  const accounts = state.accounts.map((any) => {
    const account = unpackAccount(any);
    if (account === undefined) throw invalid(`an account of type ${any.typeUrl}`);
    return account;
  });
  // The SDK sorts by number, and moves up a number that is taken. Of those without one, which its tools write as 0, that is right;
  // two accounts of one number are a fault of the file: one of them would sign with another number than it has there.
  accounts.sort((a, b) => compare(a.base.accountNumber, b.base.accountNumber));
  for (const [i, { base }] of accounts.entries()) {
    if (base.accountNumber === 0n || accounts[i - 1]?.base.accountNumber !== base.accountNumber) continue;
    throw invalid(
      `auth.accounts has the account number ${base.accountNumber} twice, the second time of ${base.address}`,
    );
  }
  for (const { base, ...rest } of accounts) {
    const address = parseAddress(base.address);
    if (!address.ok || accountsByAddress.has(ctx, address.value)) throw invalid(`the account ${base.address}`);
    if (!isOwnKey(base, address.value)) throw invalid(`the key of the account ${base.address}`);
    if (base.accountNumber > MOST_NUMBER) throw invalid(`the number of the account ${base.address}`);
    const next = nextAccountNumber.get(ctx, undefined) ?? 0n;
    const accountNumber = base.accountNumber > next ? base.accountNumber : next;
    addAccount(ctx, address.value, { ...rest, base: { ...base, accountNumber } });
  }
}

function addNonces(ctx: Context, nonces: readonly ValueOf<typeof NONCE>[]): undefined {
  for (const { address: text, timeout_nanos: timeoutNanos } of nonces) {
    const address = parseAddress(text);
    if (!address.ok || !addUnorderedNonce(ctx, address.value, timeoutNanos)) {
      throw invalid(`unordered_nonces has ${timeoutNanos} of ${text} twice`);
    }
  }
}

function* exportNonces(ctx: Context): Generator<ValueOf<typeof NONCE>> {
  for (const [[timeoutNanos, signer]] of unorderedNonces.entries(ctx)) {
    yield { address: addressText(signer), timeout_nanos: timeoutNanos };
  }
}

/**
 * Genesis of the accounts: that of the SDK, and as `unordered_nonces` the unordered transactions that can still be repeated,
 * which the SDK's has no place for.
 */
export function authGenesis(moduleAccounts: ModuleAccounts): ModuleGenesis {
  return moduleGenesis(auth.GenesisStateSchema, {
    init(ctx, state) {
      const params = state.params ?? DEFAULT_AUTH_PARAMS;
      const fault = paramsFault(params);
      if (fault !== undefined) throw invalid(fault);
      authParams.set(ctx, undefined, params);
      addAccounts(ctx, state);
      for (const [name, permissions] of Object.entries(moduleAccounts)) ensureModuleAccount(ctx, name, permissions);
      return undefined;
    },
    export: (ctx) =>
      createMessage(auth.GenesisStateSchema, {
        params: getAuthParams(ctx),
        accounts: [...accountsByAddress.entries(ctx)].map(([, any]) => any),
      }),
    lists: [genesisList("unordered_nonces", NONCE, { init: addNonces, export: exportNonces })],
  });
}
