import { AppError } from "@turnpike/base";
import { auth, createMessage, typeUrlOf } from "@turnpike/proto";
import { parseAddress } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { type Module, messageHandler, moduleGenesis } from "../../state/module.ts";
import { done, fail, SDK } from "../../state/outcome.ts";
import {
  AUTH_MODULE,
  accountsByAddress,
  addAccount,
  authParams,
  DEFAULT_AUTH_PARAMS,
  ensureModuleAccount,
  getAuthParams,
  nextAccountNumber,
  removeExpiredNonces,
  unpackAccount,
} from "./accounts.ts";
import { authQueries } from "./queries.ts";

/** What the module of accounts needs to know of the chain. */
export interface AuthOptions {
  /** Accounts of modules with their permissions, in the order in which a genesis numbers them. */
  readonly moduleAccounts: Readonly<Record<string, readonly string[]>>;
  /** Address whose messages change parameters. */
  readonly authority: string;
}

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the accounts is not valid: ${why}.` });

/** A fault of parameters, in the SDK's words; undefined when they are valid. */
function paramsFault(params: auth.Params): string | undefined {
  if (params.txSigLimit === 0n) return "invalid tx signature limit: 0";
  if (params.sigVerifyCostEd25519 === 0n) return "invalid ED25519 signature verification cost: 0";
  if (params.sigVerifyCostSecp256k1 === 0n) return "invalid SECK256k1 signature verification cost: 0";
  if (params.maxMemoCharacters === 0n) return "invalid max memo characters: 0";
  return params.txSizeCostPerByte === 0n ? "invalid tx size cost per byte: 0" : undefined;
}

/** The module of accounts, their keys and sequences. */
export function authModule({ moduleAccounts, authority }: AuthOptions): Module {
  function init(ctx: Context, state: auth.GenesisState): undefined {
    const params = state.params ?? DEFAULT_AUTH_PARAMS;
    const fault = paramsFault(params);
    if (fault !== undefined) throw invalid(fault);
    authParams.set(ctx, undefined, params);
    const accounts = state.accounts.map((any) => {
      const account = unpackAccount(any);
      if (account === undefined) throw invalid(`an account of type ${any.typeUrl}`);
      return account;
    });
    // The SDK sorts by number, and moves up a number that is taken.
    accounts.sort((a, b) => (a.base.accountNumber < b.base.accountNumber ? -1 : 1));
    for (const { base, ...rest } of accounts) {
      const address = parseAddress(base.address);
      if (!address.ok || accountsByAddress.has(ctx, address.value)) throw invalid(`the account ${base.address}`);
      const next = nextAccountNumber.get(ctx, undefined) ?? 0n;
      const accountNumber = base.accountNumber > next ? base.accountNumber : next;
      addAccount(ctx, address.value, { ...rest, base: { ...base, accountNumber } });
    }
    for (const [name, permissions] of Object.entries(moduleAccounts)) ensureModuleAccount(ctx, name, permissions);
  }

  return {
    name: AUTH_MODULE,
    messages: {
      [typeUrlOf(auth.MsgUpdateParamsSchema)]: messageHandler(
        auth.MsgUpdateParamsSchema,
        auth.MsgUpdateParamsResponseSchema,
        {
          signers: (message) => [message.authority],
          run(ctx, message) {
            if (message.authority !== authority) {
              const kind = {
                codespace: "gov",
                code: 8,
                text: "expected gov account as only signer for proposal message",
              };
              return fail(
                kind,
                `expected authority account as only signer for proposal message; invalid authority; expected ${authority}, got ${message.authority}`,
              );
            }
            const params = message.params ?? createMessage(auth.ParamsSchema);
            const fault = paramsFault(params);
            if (fault !== undefined) return fail(SDK.invalidRequest, fault);
            authParams.set(ctx, undefined, params);
            return done(createMessage(auth.MsgUpdateParamsResponseSchema));
          },
        },
      ),
    },
    queries: authQueries(Object.keys(moduleAccounts)),
    genesis: moduleGenesis(auth.GenesisStateSchema, {
      init,
      export: (ctx) =>
        createMessage(auth.GenesisStateSchema, {
          params: getAuthParams(ctx),
          accounts: [...accountsByAddress.entries(ctx)].map(([, any]) => any),
        }),
    }),
    beginBlock: removeExpiredNonces,
  };
}
