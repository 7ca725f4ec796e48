import { authz, createMessage, decodeMessage, typeUrlOf } from "@turnpike/proto";
import { addressFault, parseAddress } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, fail, type Outcome, SDK } from "../../state/outcome.ts";
import { timestampNanos } from "../../state/timestamps.ts";
import { ensureAccount } from "../auth/accounts.ts";
import { AUTHZ } from "./errors.ts";
import { execute, type Handlers, innerSpending } from "./exec.ts";
import { type GrantKey, removeGrant, setGrant } from "./grants.ts";

const GENERIC_URL = typeUrlOf(authz.GenericAuthorizationSchema);
const INVALID_TYPE = { codespace: "sdk", code: 29, text: "invalid type" };
// The last second of year 9999: the SDK's own encoding knows no later time.
const LAST_SECOND = 253_402_300_799n;

/** Time as Go's RFC 3339 prints it, in UTC and whole seconds. */
function timeText(nanos: bigint): string {
  return new Date(Number(nanos / 1_000_000_000n) * 1000).toISOString().replace(".000Z", "Z");
}

/** The type URL that a grant is for, or why this chain does not take the grant. */
export function grantedType(grant: authz.Grant): Outcome<string> {
  const any = grant.authorization;
  if (any === undefined) return fail(INVALID_TYPE, "authorization is nil");
  if (any.typeUrl !== GENERIC_URL) {
    return fail(AUTHZ.unknownAuthorization, `only ${GENERIC_URL} can be granted on this chain, got ${any.typeUrl}`);
  }
  const decoded = decodeMessage(authz.GenericAuthorizationSchema, any.value);
  if (!decoded.ok) return fail(SDK.txDecode, decoded.fault);
  if (decoded.message.msg.includes("\0")) return fail(INVALID_TYPE, "the type holds a zero byte");
  return done(decoded.message.msg);
}

/** A fault unless a grant ends after the block, or never. */
export function checkExpiration(ctx: Context, { expiration }: authz.Grant): Outcome<undefined> {
  if (expiration === undefined) return done(undefined);
  const { seconds, nanos } = expiration;
  const known = seconds >= 0n && seconds <= LAST_SECOND && nanos >= 0 && nanos < 1_000_000_000;
  if (!known) return fail(AUTHZ.invalidExpiration, "the time is before 1970 or after 9999");
  if (timestampNanos(expiration) > ctx.block.timeNanos) return done(undefined);
  const now = timeText(ctx.block.timeNanos);
  const text = `expiration must be after the current block time (${now}), got ${timeText(timestampNanos(expiration))}`;
  return fail(AUTHZ.invalidExpiration, text);
}

function parties({
  granter,
  grantee,
}: {
  readonly granter: string;
  readonly grantee: string;
}): Outcome<Omit<GrantKey, "typeUrl">> {
  if (granter.toLowerCase() === grantee.toLowerCase()) return fail(AUTHZ.granteeIsGranter);
  const to = parseAddress(grantee);
  if (!to.ok) return fail(SDK.invalidAddress, `invalid grantee address: ${addressFault(grantee) ?? ""}`);
  const from = parseAddress(granter);
  if (!from.ok) return fail(SDK.invalidAddress, `invalid granter address: ${addressFault(granter) ?? ""}`);
  return done({ granter: from.value, grantee: to.value });
}

function grant(ctx: Context, message: authz.MsgGrant, handlers: Handlers): Outcome<authz.MsgGrantResponse> {
  const who = parties(message);
  if (!who.ok) return who;
  const given = message.grant ?? createMessage(authz.GrantSchema);
  const typeUrl = grantedType(given);
  if (!typeUrl.ok) return typeUrl;
  ensureAccount(ctx, who.value.grantee);
  if (!handlers.has(typeUrl.value)) return fail(INVALID_TYPE, `${typeUrl.value} doesn't exist.`);
  const lasts = checkExpiration(ctx, given);
  if (!lasts.ok) return lasts;
  setGrant(ctx, { ...who.value, typeUrl: typeUrl.value }, given);
  return done(createMessage(authz.MsgGrantResponseSchema));
}

function revoke(ctx: Context, message: authz.MsgRevoke): Outcome<authz.MsgRevokeResponse> {
  const who = parties(message);
  if (!who.ok) return who;
  const { msgTypeUrl: typeUrl } = message;
  if (typeUrl === "") return fail(SDK.invalidRequest, "missing msg method name");
  if (removeGrant(ctx, { ...who.value, typeUrl })) return done(createMessage(authz.MsgRevokeResponseSchema));
  const whose = `granter: ${message.granter}, grantee: ${message.grantee}`;
  return fail(AUTHZ.noAuthorization, `failed to delete grant with given ${whose} & msgType: ${typeUrl} `);
}

/** Handlers of the messages about grants, by type URL. */
export function authzMessages(handlers: () => Handlers): Record<string, MessageHandler> {
  return {
    [typeUrlOf(authz.MsgExecSchema)]: messageHandler(authz.MsgExecSchema, authz.MsgExecResponseSchema, {
      signers: (message) => [message.grantee],
      spending: (message) => innerSpending(message, handlers()),
      run: (ctx, message) => execute(ctx, message, handlers()),
    }),
    [typeUrlOf(authz.MsgGrantSchema)]: messageHandler(authz.MsgGrantSchema, authz.MsgGrantResponseSchema, {
      signers: (message) => [message.granter],
      run: (ctx, message) => grant(ctx, message, handlers()),
    }),
    [typeUrlOf(authz.MsgRevokeSchema)]: messageHandler(authz.MsgRevokeSchema, authz.MsgRevokeResponseSchema, {
      signers: (message) => [message.granter],
      run: revoke,
    }),
  };
}
