import { bytesEqual } from "@turnpike/base";
import { application, createMessage, encodeMessage, proof, tokenomics } from "@turnpike/proto";
import { messageCodec } from "../../state/codecs.ts";
import type { Context } from "../../state/context.ts";
import { accountCodec, recordCodec } from "../../state/parsed.ts";
import { Versions } from "../../state/versions.ts";
import { oldestClaimedStart } from "../proof/unsettled-claims.ts";
import { settlementHeightAt } from "../shared/settlement-heights.ts";
import { SESSION_MODULE } from "./state.ts";

const module = SESSION_MODULE;

/** Earlier records of applications by address, without stakes and services: see {@link noteApplication}. */
export const pastApplications = new Versions({
  module,
  prefixes: [4, 5],
  value: messageCodec(application.ApplicationSchema),
});
/** Earlier owners of services by id. */
export const pastOwners = new Versions({ module, prefixes: [6, 7], value: accountCodec });
/** Earlier parameters of proofs; the key is empty. */
export const pastProofParams = new Versions({ module, prefixes: [8, 9], value: messageCodec(proof.ParamsSchema) });
/** Earlier parameters of settlement; the key is empty. */
export const pastTokenomicsParams = new Versions({
  module,
  prefixes: [10, 11],
  value: recordCodec(tokenomics.ParamsSchema),
});

/** Part of an application's record that sessions need, without its services, which have a history in the record. */
function sessionPart(app: application.Application): application.Application {
  const { address, delegateeGatewayAddresses, pendingUndelegations, unstakeSessionEndHeight } = app;
  const { pendingTransfer, perSessionSpendLimit } = app;
  return createMessage(application.ApplicationSchema, {
    address,
    delegateeGatewayAddresses,
    pendingUndelegations,
    unstakeSessionEndHeight,
    ...(pendingTransfer === undefined ? {} : { pendingTransfer }),
    ...(perSessionSpendLimit === undefined ? {} : { perSessionSpendLimit }),
  });
}

/** Notes an application's record before it is changed, unless nothing changes that a session needs. */
export function noteApplication(
  ctx: Context,
  address: string,
  old: application.Application | undefined,
  now: application.Application | undefined,
): void {
  const oldPart = old === undefined ? undefined : sessionPart(old);
  const bytes = (part: application.Application): Uint8Array => encodeMessage(application.ApplicationSchema, part);
  if (oldPart !== undefined && now !== undefined && bytesEqual(bytes(oldPart), bytes(sessionPart(now)))) return;
  pastApplications.note(ctx, address, oldPart);
}

/** True when the claims of the session that a height belongs to were settled before this block, those that are held aside. */
export function isSettled(ctx: Context, height: bigint): boolean {
  return settlementHeightAt(ctx, height) < ctx.block.heightBlocks;
}

/** Returns a check for heights: true for one before all sessions that are not settled yet, or have a claim that is held. */
export function heightsBeforeUnsettled(ctx: Context): (height: bigint) => boolean {
  const claimedStart = oldestClaimedStart(ctx);
  return (height) => (claimedStart === undefined || height < claimedStart) && isSettled(ctx, height);
}

/** Removes the entries that no session can need which is not settled yet. */
export function pruneHistory(ctx: Context): void {
  const isOver = heightsBeforeUnsettled(ctx);
  for (const versions of [pastApplications, pastOwners, pastProofParams, pastTokenomicsParams]) {
    versions.prune(ctx, isOver);
  }
}
