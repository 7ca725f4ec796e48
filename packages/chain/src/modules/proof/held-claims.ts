import { AppError, bytesToUtf8, isRecord, utf8ToBytes } from "@turnpike/base";
import { isSessionEnd } from "@turnpike/protocol";
import { type Codec, endedTextCodec, pairCodec, textCodec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
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
const HEIGHT = /^\d{1,19}$/;

const heightOf = (json: unknown): bigint | undefined =>
  typeof json === "string" && HEIGHT.test(json) ? BigInt(json) : undefined;

/** JSON of a held claim, as {@link readHeldClaim} reads it. */
export function heldClaimJson({ sinceHeight, retryHeight, tries }: HeldClaim): Record<string, string> {
  return { since_height: `${sinceHeight}`, retry_height: `${retryHeight}`, tries: `${tries}` };
}

/** Reads a held claim of a state or a genesis; undefined when it is not one. */
export function readHeldClaim(json: unknown): HeldClaim | undefined {
  const { since_height: since, retry_height: retry, tries } = isRecord(json) ? json : {};
  const sinceHeight = heightOf(since);
  const retryHeight = heightOf(retry);
  const numTries = heightOf(tries);
  if (sinceHeight === undefined || retryHeight === undefined || numTries === undefined) return undefined;
  return { sinceHeight, retryHeight, tries: Number(numTries) };
}

const heldCodec: Codec<HeldClaim> = {
  encode: (held) => utf8ToBytes(JSON.stringify(heldClaimJson(held))),
  decode(bytes) {
    const claim = readHeldClaim(JSON.parse(bytesToUtf8(bytes) ?? "null"));
    if (claim === undefined) throw new AppError("CHAIN_STORE_DAMAGED", { detail: { damaged: "a held claim" } });
    return claim;
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
