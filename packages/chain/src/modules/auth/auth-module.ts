import { auth, createMessage, typeUrlOf } from "@turnpike/proto";
import { type Module, messageHandler } from "../../state/module.ts";
import { done, fail, SDK } from "../../state/outcome.ts";
import { AUTH_MODULE, authParams, removeExpiredNonces } from "./accounts.ts";
import { authGenesis, type ModuleAccounts } from "./genesis.ts";
import { paramsFault } from "./params.ts";
import { authQueries } from "./queries.ts";

/** What the module of accounts needs to know of the chain. */
export interface AuthOptions {
  readonly moduleAccounts: ModuleAccounts;
  /** Address whose messages change parameters. */
  readonly authority: string;
}

const NOT_GOV = { codespace: "gov", code: 8, text: "expected gov account as only signer for proposal message" };

/** The module of accounts, their keys and sequences. */
export function authModule({ moduleAccounts, authority }: AuthOptions): Module {
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
              const text = `invalid authority; expected ${authority}, got ${message.authority}`;
              return fail(NOT_GOV, `expected authority account as only signer for proposal message; ${text}`);
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
    genesis: authGenesis(moduleAccounts),
    beginBlock: removeExpiredNonces,
  };
}
