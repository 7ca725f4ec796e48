import type { Message } from "@bufbuild/protobuf";
import { bytesEqual } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { type Any, authz, createMessage, encodeMessage } from "@turnpike/proto";
import { addressFault, addressText, parseAddress } from "../../state/addresses.ts";
import { addEvents, type ChainEvent, type Context, withAttribute } from "../../state/context.ts";
import { STORE_GAS } from "../../state/gas.ts";
import { compactText } from "../../state/go-text.ts";
import type { MessageHandler } from "../../state/module.ts";
import { done, fail, failPlain, faultIn, type Outcome, SDK } from "../../state/outcome.ts";
import { readAny } from "../../state/read-message.ts";
import type { NamedGrant, Spending } from "../../state/spending.ts";
import { timestampNanos } from "../../state/timestamps.ts";
import { AUTHZ } from "./errors.ts";
import { getGrant } from "./grants.ts";

/** The handlers of the machine's messages, by type URL. */
export type Handlers = ReadonlyMap<string, MessageHandler>;

interface Inner {
  readonly typeUrl: string;
  readonly handler: MessageHandler;
  readonly message: Message;
}

function read(any: Any, handlers: Handlers): Outcome<Inner> {
  const { typeUrl } = any;
  const handler = handlers.get(typeUrl);
  if (handler === undefined) return fail(SDK.unknownRequest, `unrecognized message route: ${typeUrl}`);
  const decoded = readAny(handler.schema, any);
  if (!decoded.ok) return fail(SDK.txDecode, decoded.fault);
  return done({ typeUrl, handler, message: decoded.message });
}

function readAll(anys: readonly Any[], handlers: Handlers): Outcome<Inner[]> {
  const all: Inner[] = [];
  for (const any of anys) {
    const inner = read(any, handlers);
    if (!inner.ok) return inner;
    all.push(inner.value);
  }
  for (const [i, { handler, message }] of all.entries()) {
    const fault = handler.validate(message);
    if (fault !== undefined) return { ok: false, fault: faultIn(`msg ${i}`, fault) };
  }
  return done(all);
}

function granterOf({ handler, message }: Inner): Outcome<Bytes> {
  const signers = handler.signers(message);
  const [first] = signers;
  if (first === undefined || new Set(signers).size !== 1) return fail(AUTHZ.numOfSigners);
  const address = parseAddress(first);
  return address.ok ? address : failPlain(addressFault(first) ?? "");
}

function checkGrant(ctx: Context, granter: Bytes, grantee: Bytes, typeUrl: string): Outcome<undefined> {
  const grant = getGrant(ctx, { granter, grantee, typeUrl });
  if (grant === undefined) {
    const who = `granter: ${addressText(granter)}, grantee: ${addressText(grantee)}`;
    return fail(AUTHZ.noAuthorization, `failed to get grant with given ${who} & msgType: ${typeUrl} `);
  }
  const { expiration } = grant;
  const expired = expiration !== undefined && timestampNanos(expiration) < ctx.block.timeNanos;
  return expired ? fail(AUTHZ.expired) : done(undefined);
}

function runInner(ctx: Context, inner: Inner, index: number): Outcome<Bytes> {
  const { handler, message } = inner;
  const events: ChainEvent[] = [];
  // Measured on the real chain: what a message inside another costs over one of its own.
  ctx.gas.consume(STORE_GAS.has, "Has");
  const ran = handler.run({ ...ctx, events }, message);
  if (!ran.ok) {
    const text = `failed to execute message; message ${compactText(handler.schema, message)}`;
    return { ok: false, fault: faultIn(text, ran.fault) };
  }
  addEvents(ctx, withAttribute(events, "authz_msg_index", index.toString()));
  return done(encodeMessage(handler.response, ran.value));
}

/**
 * Runs messages for those who must sign them: each its own signer's, or one that granted the grantee its type. How deep
 * they may nest is bounded where transactions are decoded.
 */
export function execute(ctx: Context, message: authz.MsgExec, handlers: Handlers): Outcome<authz.MsgExecResponse> {
  if (message.grantee === "") return failPlain("empty address string is not allowed");
  const grantee = parseAddress(message.grantee);
  if (!grantee.ok) {
    return fail(SDK.invalidAddress, `invalid grantee address: ${addressFault(message.grantee) ?? ""}`);
  }
  if (message.msgs.length === 0) return fail(SDK.invalidRequest, "messages cannot be empty");
  const inners = readAll(message.msgs, handlers);
  if (!inners.ok) return inners;
  const results: Bytes[] = [];
  for (const [i, inner] of inners.value.entries()) {
    const granter = granterOf(inner);
    if (!granter.ok) return granter;
    if (!bytesEqual(granter.value, grantee.value)) {
      const allowed = checkGrant(ctx, granter.value, grantee.value, inner.typeUrl);
      if (!allowed.ok) return allowed;
    }
    const ran = runInner(ctx, inner, i);
    if (!ran.ok) return ran;
    results.push(ran.value);
  }
  return done(createMessage(authz.MsgExecResponseSchema, { results: results.map((one) => Uint8Array.from(one)) }));
}

/** Coins that the messages inside may take: of those who granted them, too, if they did. */
export function innerSpending({ grantee, msgs }: authz.MsgExec, handlers: Handlers): Spending[] {
  return msgs.flatMap((any) => {
    const inner = read(any, handlers);
    if (!inner.ok) return [];
    const { handler, message, typeUrl } = inner.value;
    const spending = handler.spending(message);
    const [granter] = handler.signers(message);
    if (granter === undefined || granter.toLowerCase() === grantee.toLowerCase()) return spending;
    return spending.map((item) => ({ ...item, grants: [...(item.grants ?? []), { granter, grantee, typeUrl }] }));
  });
}

/** True when all of these grants are in the state, and hold. */
export function areGranted(ctx: Context, grants: readonly NamedGrant[]): boolean {
  return grants.every(({ granter, grantee, typeUrl }) => {
    const [from, to] = [parseAddress(granter), parseAddress(grantee)];
    return from.ok && to.ok && checkGrant(ctx, from.value, to.value, typeUrl).ok;
  });
}
