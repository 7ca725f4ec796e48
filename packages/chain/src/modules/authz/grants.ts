import { utf8ToBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { authz, createMessage, type Timestamp } from "@turnpike/proto";
import { addressText } from "../../state/addresses.ts";
import { lengthPrefixedCodec, messageCodec, pairCodec, rawCodec, textCodec, uint64Codec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { GasMeter, STORE_GAS } from "../../state/gas.ts";
import { NANOS_PER_SECOND } from "../../state/timestamps.ts";
import { emit } from "../../state/typed-event.ts";

/** Name of the module, and of its part of the state. */
export const AUTHZ_MODULE = "authz";

/** Grants that one block removes at most. Those that are left cannot be used, and go with the next blocks. */
export const MOST_EXPIRED_PER_BLOCK = 200;

/** Who may do what for whom. */
export interface GrantKey {
  readonly granter: Bytes;
  readonly grantee: Bytes;
  readonly typeUrl: string;
}

const module = AUTHZ_MODULE;
const NOTHING = new Uint8Array(0);
const whoCodec = pairCodec(lengthPrefixedCodec, pairCodec(lengthPrefixedCodec, textCodec));

/** Grants by granter, grantee and type URL. */
export const grants = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: whoCodec,
  value: messageCodec(authz.GrantSchema),
});
/** Grantee, granter and type URL of every grant. */
export const grantsByGrantee = new Collection({ module, prefix: Uint8Array.of(3), key: whoCodec, value: rawCodec });
/** Grants that end, by the second and the nanosecond of that. */
export const expirations = new Collection({
  module,
  prefix: Uint8Array.of(2),
  key: pairCodec(uint64Codec, pairCodec(uint64Codec, whoCodec)),
  value: rawCodec,
});

const stateKey = ({ granter, grantee, typeUrl }: GrantKey) => [granter, [grantee, typeUrl]] as const;
const indexKey = ({ granter, grantee, typeUrl }: GrantKey) => [grantee, [granter, typeUrl]] as const;
const endKey = (end: Timestamp, key: GrantKey) => [end.seconds, [BigInt(end.nanos), stateKey(key)]] as const;

/** A grant; undefined when there is none. It may be past its end. */
export function getGrant(ctx: Context, key: GrantKey): authz.Grant | undefined {
  return grants.get(ctx, stateKey(key));
}

/** The grants of one type that an account gave, with those whom it gave them to. */
export function grantsByGranter(
  ctx: Context,
  granter: Bytes,
  typeUrl: string,
): readonly { readonly grantee: Bytes; readonly expiration: Timestamp | undefined }[] {
  const within = lengthPrefixedCodec.encode(granter);
  return [...grants.entries(ctx, { within })].flatMap(([[, [grantee, type]], { expiration }]) =>
    type === typeUrl ? [{ grantee, expiration }] : [],
  );
}

function eventOf({ granter, grantee, typeUrl }: GrantKey): { msgTypeUrl: string; granter: string; grantee: string } {
  return { msgTypeUrl: typeUrl, granter: addressText(granter), grantee: addressText(grantee) };
}

// What the SDK keeps in another way costs what it costs there: a caller who simulates elsewhere pays the same here.
const uncounted = (ctx: Context): Context => ({ ...ctx, gas: new GasMeter() });

/** `2006-01-02T15:04:05.000000000`: how the SDK writes a time into a key. */
const TIME_TEXT_BYTES = 29;
const GRANT_QUEUE_GAS = 20n;

/**
 * Takes the gas of the SDK's queue of grants that end: one item, read and written whole, for all grants between two accounts
 * that end at the same time.
 */
function consumeQueueGas(ctx: Context, end: Timestamp, key: GrantKey, change: "insert" | "remove"): void {
  const within = expirations.keyBytes(endKey(end, { ...key, typeUrl: "" }));
  let listed = 0;
  for (const [[, [, [, [, typeUrl]]]]] of expirations.entries(uncounted(ctx), { within })) listed += itemBytes(typeUrl);
  const keyBytes = BigInt(1 + TIME_TEXT_BYTES + 1 + key.granter.length + 1 + key.grantee.length);
  ctx.gas.consume(STORE_GAS.readFlat, "ReadFlat");
  ctx.gas.consume(STORE_GAS.readPerByte * (keyBytes + BigInt(listed)), "ReadPerByte");
  if (change === "remove") ctx.gas.consume(GRANT_QUEUE_GAS, "grant queue");
  const left = listed + (change === "insert" ? 1 : -1) * itemBytes(key.typeUrl);
  ctx.gas.consume(STORE_GAS.writeFlat, "WriteFlat");
  ctx.gas.consume(STORE_GAS.writePerByte * (keyBytes + BigInt(left)), "WritePerByte");
}

/** Bytes of a text in a list of texts. */
function itemBytes(text: string): number {
  const length = utf8ToBytes(text).length;
  return 1 + (length < 0x80 ? 1 : 2) + length;
}

const isSameEnd = (a: Timestamp | undefined, b: Timestamp | undefined): boolean =>
  a?.seconds === b?.seconds && a?.nanos === b?.nanos;

function removeEnd(ctx: Context, end: Timestamp, key: GrantKey): void {
  consumeQueueGas(ctx, end, key, "remove");
  expirations.remove(uncounted(ctx), endKey(end, key));
}

/** Writes a grant, in place of the one that was there, and says so. */
export function setGrant(ctx: Context, key: GrantKey, grant: authz.Grant): void {
  const old = getGrant(ctx, key);
  const { expiration } = grant;
  if (!isSameEnd(old?.expiration, expiration)) {
    if (old?.expiration !== undefined) removeEnd(ctx, old.expiration, key);
    if (expiration !== undefined) {
      consumeQueueGas(ctx, expiration, key, "insert");
      expirations.set(uncounted(ctx), endKey(expiration, key), NOTHING);
    }
  }
  grants.set(ctx, stateKey(key), grant);
  grantsByGrantee.set(uncounted(ctx), indexKey(key), NOTHING);
  emit(ctx, authz.EventGrantSchema, eventOf(key));
}

function deleteGrant(ctx: Context, key: GrantKey, { expiration }: authz.Grant): void {
  if (expiration !== undefined) removeEnd(ctx, expiration, key);
  grants.remove(ctx, stateKey(key));
  grantsByGrantee.remove(uncounted(ctx), indexKey(key));
}

/** Takes a grant back, and says so; false when there is none. */
export function removeGrant(ctx: Context, key: GrantKey): boolean {
  const old = getGrant(ctx, key);
  if (old === undefined) return false;
  deleteGrant(ctx, key, old);
  emit(ctx, authz.EventRevokeSchema, eventOf(key));
  return true;
}

/** Removes grants whose end has come, the earliest first. */
export function removeExpiredGrants(ctx: Context): void {
  const now = ctx.block.timeNanos;
  const to = uint64Codec.encode(now / NANOS_PER_SECOND + 1n);
  const due: GrantKey[] = [];
  for (const [[seconds, [nanos, [granter, [grantee, typeUrl]]]]] of expirations.entries(ctx, { to })) {
    if (seconds * NANOS_PER_SECOND + nanos > now || due.length === MOST_EXPIRED_PER_BLOCK) break;
    due.push({ granter, grantee, typeUrl });
  }
  for (const key of due) {
    const grant = getGrant(ctx, key);
    if (grant !== undefined) deleteGrant(ctx, key, grant);
  }
}

/** A grant as lists show it. */
export function shownGrant(granter: Bytes, grantee: Bytes, grant: authz.Grant): authz.GrantAuthorization {
  const { authorization, expiration } = grant;
  return createMessage(authz.GrantAuthorizationSchema, {
    granter: addressText(granter),
    grantee: addressText(grantee),
    ...(authorization === undefined ? {} : { authorization }),
    ...(expiration === undefined ? {} : { expiration }),
  });
}
