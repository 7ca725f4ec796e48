import { moduleAddressBytes } from "@turnpike/crypto";
import { application } from "@turnpike/proto";
import {
  isGatewayActive,
  isSessionEnd,
  isSessionStart,
  transferEndHeight,
  unbondingEndHeight,
  undelegationRetentionBlocks,
} from "@turnpike/protocol";
import { accountBytes } from "../../state/addresses.ts";
import { runPart } from "../../state/block-parts.ts";
import { endedTextCodec, uint64Codec } from "../../state/codecs.ts";
import type { Context } from "../../state/context.ts";
import { MAX_UNBONDING_BYTES, withinEventBytes } from "../../state/event-bytes.ts";
import type { Parsed } from "../../state/parsed.ts";
import { STAKE_DENOM } from "../../state/stakes.ts";
import { emit } from "../../state/typed-event.ts";
import { sendCoins } from "../bank/transfers.ts";
import { getUnstakingGateways } from "../gateway/state.ts";
import { applicationsWithDueClaims } from "../proof/unsettled-claims.ts";
import { settlementHeightAt } from "../shared/settlement-heights.ts";
import { getSharedParams, getSharedParamsAt } from "../shared/state.ts";
import { undelegated } from "./delegating.ts";
import {
  APPLICATION_MODULE,
  delegations,
  getApplication,
  minApplicationStakeUpokt,
  removeApplication,
  setApplication,
  stakeUpokt,
  transferringApplications,
  undelegations,
  unstakingApplications,
} from "./state.ts";
import { endTransfer } from "./transferring.ts";

// What an index names is collected before anything is written, for the writes change the index.
function named(ctx: Context, addresses: readonly string[]): Parsed<application.Application>[] {
  return [...new Set(addresses)].flatMap((address) => getApplication(ctx, address) ?? []);
}

/**
 * Ends delegations to gateways whose last session has passed (x/application/keeper/auto_undelegate.go). A gateway's last block is
 * a session's last, so that the first block of a session finds all of them; the others need not read every gateway that unbonds.
 */
function undelegateFromUnbonding(ctx: Context): void {
  if (!isSessionStart(getSharedParams(ctx), ctx.block.heightBlocks)) return;
  for (const gateway of getUnstakingGateways(ctx)) {
    if (isGatewayActive(gateway.unstakeSessionEndHeight, ctx.block.heightBlocks)) continue;
    const within = endedTextCodec.encode(gateway.address);
    const delegating = [...delegations.entries(ctx, { within })].map(([[, address]]) => address);
    for (const app of named(ctx, delegating)) {
      const part = { part: "undelegation", item: `${app.address}/${gateway.address}` } as const;
      runPart(ctx, part, (branch) => setApplication(branch, undelegated(branch, app, gateway.address)));
    }
  }
}

/**
 * Prunes undelegations that no ring of a session can need any more (x/application/keeper/prune_undelegations.go): by the
 * parameters of today, and by those of the session, as proofs are taken until its own windows close.
 */
function pruneUndelegations(ctx: Context): void {
  const now = ctx.block.heightBlocks;
  const today = undelegationRetentionBlocks(getSharedParams(ctx));
  const isNeeded = (height: bigint): boolean =>
    height >= now - today || height >= now - undelegationRetentionBlocks(getSharedParamsAt(ctx, height));
  if (now - today <= 0n) return;
  const due = [...undelegations.entries(ctx, { to: uint64Codec.encode(now - today) })].map(([[, address]]) => address);
  for (const app of named(ctx, due)) {
    const kept = Object.entries(app.pendingUndelegations).filter(([height]) => isNeeded(BigInt(height)));
    if (kept.length === Object.keys(app.pendingUndelegations).length) continue;
    setApplication(ctx, { ...app, pendingUndelegations: Object.fromEntries(kept) });
  }
}

function unbond(ctx: Context, app: Parsed<application.Application>, unbondingHeight: bigint): void {
  const sessionEndHeight = ctx.block.heightBlocks;
  const amount = stakeUpokt(app);
  const stake = [{ denom: STAKE_DENOM, amount }];
  const sent = sendCoins(ctx, moduleAddressBytes(APPLICATION_MODULE), accountBytes(app.address), stake);
  // What cannot be paid out stays with the module, so that the chain goes on. A stake that settlement used up is one such.
  if (!sent.ok) {
    emit(ctx, application.EventApplicationStakeStuckInModulePoolSchema, {
      applicationAddress: app.address,
      ...(app.stake === undefined ? {} : { stuckCoin: app.stake }),
      reason: sent.fault.text,
      sessionEndHeight,
    });
  }
  removeApplication(ctx, app.address);
  const { ELECTIVE, BELOW_MIN_STAKE } = application.ApplicationUnbondingReason;
  emit(ctx, application.EventApplicationUnbondingEndSchema, {
    application: app,
    reason: amount < minApplicationStakeUpokt(ctx) ? BELOW_MIN_STAKE : ELECTIVE,
    sessionEndHeight,
    unbondingEndHeight: unbondingHeight,
  });
}

/**
 * Pays out stakes by the parameters at their unstaking (x/application/keeper/unbond_applications.go), and once the application's
 * last session is settled. Those above the maximum of a block go at the end of the next session, as transfers do.
 */
function unbondApplications(ctx: Context, withClaims: ReadonlySet<string>): void {
  const unstaking = [...unstakingApplications.entries(ctx)].map(([address]) => address);
  for (const app of withinEventBytes(ctx, named(ctx, unstaking), MAX_UNBONDING_BYTES)) {
    const since = app.unstakeSessionEndHeight;
    const endHeight = unbondingEndHeight("application", getSharedParamsAt(ctx, since), since);
    if (endHeight > ctx.block.heightBlocks || withClaims.has(app.address)) continue;
    if (settlementHeightAt(ctx, since) > ctx.block.heightBlocks) continue;
    runPart(ctx, { part: "unbonding", item: app.address }, (branch) => unbond(branch, app, endHeight));
  }
}

/**
 * Completes transfers whose sessions are settled (x/application/keeper/transfer_applications.go), by the parameters of the
 * last session: by today's, as on the real chain, shorter windows would move the application away from its claims.
 */
function transferApplications(ctx: Context, withClaims: ReadonlySet<string>): void {
  const moving = [...transferringApplications.entries(ctx)].map(([address]) => address);
  for (const address of withinEventBytes(ctx, moving, MAX_UNBONDING_BYTES)) {
    // Read anew: an earlier transfer of this block may have changed it.
    const app = getApplication(ctx, address);
    if (app?.pendingTransfer === undefined) continue;
    const { sessionEndHeight } = app.pendingTransfer;
    const endHeight = transferEndHeight(getSharedParamsAt(ctx, sessionEndHeight), sessionEndHeight);
    if (ctx.block.heightBlocks < endHeight || withClaims.has(address)) continue;
    if (settlementHeightAt(ctx, sessionEndHeight) > ctx.block.heightBlocks) continue;
    runPart(ctx, { part: "transfer", item: address }, (branch) => endTransfer(branch, app, endHeight));
  }
}

/** What happens to applications at the end of a block, in the real chain's order. */
export function endApplicationsBlock(ctx: Context): undefined {
  undelegateFromUnbonding(ctx);
  pruneUndelegations(ctx);
  if (!isSessionEnd(getSharedParams(ctx), ctx.block.heightBlocks)) return;
  const withClaims = applicationsWithDueClaims(ctx);
  unbondApplications(ctx, withClaims);
  transferApplications(ctx, withClaims);
}
