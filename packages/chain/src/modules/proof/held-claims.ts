import { AppError, bytesToUtf8, utf8ToBytes } from "@turnpike/base";
import { isSessionEnd } from "@turnpike/protocol";
import { type Codec, endedTextCodec, pairCodec, textCodec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { heightType, numberType, recordType, type ValueOf } from "../../state/genesis-types.ts";
import { getSharedParams } from "../shared/state.ts";
import { type claimKey, PROOF_MODULE } from "./state.ts";

/** A claim whose settlement, or whose proof's verification, failed by a fault of the program: neither paid nor lost. */
export interface HeldClaim {
  /** Height of the block that held it first. */
  readonly sinceHeight: bigint;
  /** Height from which it is tried again. */
  readonly retryHeight: bigint;
  readonly tries: number;
}

/** A claim waits twice as long after each failure: a hundred blocks at first, and some 100,000 in the end. */
const FIRST_WAIT_BLOCKS = 100n;
const MAX_DOUBLINGS = 10;
const MAX_TRIES = 1n << 32n;

/** Fields of a held claim in a state or a genesis. */
export const HELD_CLAIM_FIELDS = {
  since_height: heightType,
  retry_height: heightType,
  tries: numberType((tries) => (tries <= MAX_TRIES ? undefined : `more than ${MAX_TRIES}`)),
};
const HELD_CLAIM = recordType(HELD_CLAIM_FIELDS);
type Fields = ValueOf<typeof HELD_CLAIM>;

/** Fields of a held claim, as {@link heldClaimOf} reads them. */
export function fieldsOfHeldClaim({ sinceHeight, retryHeight, tries }: HeldClaim): Fields {
  return { since_height: sinceHeight, retry_height: retryHeight, tries: BigInt(tries) };
}

/** A held claim from its fields. */
export function heldClaimOf({ since_height: sinceHeight, retry_height: retryHeight, tries }: Fields): HeldClaim {
  return { sinceHeight, retryHeight, tries: Number(tries) };
}

const heldCodec: Codec<HeldClaim> = {
  encode: (claim) => utf8ToBytes(JSON.stringify(HELD_CLAIM.write(fieldsOfHeldClaim(claim)))),
  decode(bytes) {
    const read = HELD_CLAIM.read(JSON.parse(bytesToUtf8(bytes) ?? "null"));
    if (!read.ok) throw new AppError("CHAIN_STORE_DAMAGED", { detail: { damaged: "a held claim" } });
    return heldClaimOf(read.value);
  },
};

/** Held claims by session id and operator address. The claim itself stays where it is. */
export const heldClaims = new Collection({
  module: PROOF_MODULE,
  prefix: Uint8Array.of(16),
  key: pairCodec(endedTextCodec, textCodec),
  value: heldCodec,
});

type ClaimKey = ReturnType<typeof claimKey>;

/** Holds a claim for a later try. */
export function holdClaim(ctx: Context, key: ClaimKey): void {
  const entry = heldClaims.get(ctx, key);
  const tries = (entry?.tries ?? 0) + 1;
  const height = ctx.block.heightBlocks;
  const wait = FIRST_WAIT_BLOCKS << BigInt(Math.min(tries - 1, MAX_DOUBLINGS));
  heldClaims.set(ctx, key, { sinceHeight: entry?.sinceHeight ?? height, retryHeight: height + wait, tries });
}

/** Removes a claim that was settled from those that are held. */
export function releaseClaim(ctx: Context, key: ClaimKey): void {
  if (heldClaims.has(ctx, key)) heldClaims.remove(ctx, key);
}

/** True for a claim that is held and not tried again in this block. */
export function isHeld(ctx: Context, key: ClaimKey): boolean {
  const claim = heldClaims.get(ctx, key);
  return claim !== undefined && (claim.retryHeight > ctx.block.heightBlocks || !isRetryBlock(ctx));
}

/** Sessions with a held claim, by id: the height from which all of their claims may be tried again, together. */
export function heldSessions(ctx: Context): ReadonlyMap<string, bigint> {
  const sessions = new Map<string, bigint>();
  for (const [[sessionId], { retryHeight }] of heldClaims.entries(ctx)) {
    if (retryHeight > (sessions.get(sessionId) ?? -1n)) sessions.set(sessionId, retryHeight);
  }
  return sessions;
}

/** True for a block that tries held claims again: the last one of a session. */
export function isRetryBlock(ctx: Context): boolean {
  return isSessionEnd(getSharedParams(ctx), ctx.block.heightBlocks);
}
