import { AppError } from "@turnpike/base";
import { authz, createMessage } from "@turnpike/proto";
import { parseAddress } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { type MessageHandler, type Module, moduleGenesis } from "../../state/module.ts";
import type { Handlers } from "./exec.ts";
import { AUTHZ_MODULE, grants, removeExpiredGrants, setGrant, shownGrant } from "./grants.ts";
import { authzMessages, checkExpiration, grantedType } from "./messages.ts";
import { AUTHZ_QUERIES } from "./queries.ts";

/** What the module of grants needs to know of the chain. */
export interface AuthzOptions {
  /** The handlers of all messages of the machine. Asked when a message is run: this module is one of those that have them. */
  readonly handlers: () => Handlers;
}

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the grants is not valid: ${why}.` });

/**
 * The handlers of modules, put together when they are first asked for: what {@link AuthzOptions} takes while the list that
 * this module is part of is still being made.
 */
export function handlersOf(modules: () => readonly Module[]): () => Handlers {
  let handlers: ReadonlyMap<string, MessageHandler> | undefined;
  return () => {
    handlers ??= new Map(modules().flatMap((module) => Object.entries(module.messages ?? {})));
    return handlers;
  };
}

// What has ended already is passed over, as the SDK does.
function init(ctx: Context, { authorization: list }: authz.GenesisState): undefined {
  for (const { granter: from, grantee: to, authorization, expiration } of list) {
    const grant = createMessage(authz.GrantSchema, {
      ...(authorization === undefined ? {} : { authorization }),
      ...(expiration === undefined ? {} : { expiration }),
    });
    if (!checkExpiration(ctx, grant).ok) continue;
    const granter = parseAddress(from);
    const grantee = parseAddress(to);
    const typeUrl = grantedType(grant);
    if (!granter.ok || !grantee.ok) throw invalid(`the grant of ${from} to ${to}`);
    if (!typeUrl.ok) throw invalid(`the grant of ${from} to ${to}: ${typeUrl.fault.text}`);
    setGrant(ctx, { granter: granter.value, grantee: grantee.value, typeUrl: typeUrl.value }, grant);
  }
}

/** The module of grants, by which one account runs messages of another: the only way to change parameters. */
export function authzModule({ handlers }: AuthzOptions): Module {
  return {
    name: AUTHZ_MODULE,
    messages: authzMessages(handlers),
    queries: AUTHZ_QUERIES,
    genesis: moduleGenesis(authz.GenesisStateSchema, {
      init,
      export: (ctx) =>
        createMessage(authz.GenesisStateSchema, {
          authorization: [...grants.entries(ctx)].map(([[granter, [grantee]], grant]) =>
            shownGrant(granter, grantee, grant),
          ),
        }),
    }),
    beginBlock: removeExpiredGrants,
  };
}
