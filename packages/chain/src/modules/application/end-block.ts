import { moduleAddressBytes } from "@turnpike/crypto";
import { application } from "@turnpike/proto";
import {
  isGatewayActive,
  transferEndHeight,
  unbondingEndHeight,
  undelegationRetentionBlocks,
} from "@turnpike/protocol";
import { accountBytes } from "../../state/addresses.ts";
import { runPart } from "../../state/block-parts.ts";
import { endedTextCodec, uint64Codec } from "../../state/codecs.ts";
import { firstOf } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import type { GenesisList } from "../../state/module.ts";
import type { Parsed } from "../../state/parsed.ts";
import { STAKE_DENOM } from "../../state/stakes.ts";
import { emit } from "../../state/typed-event.ts";
import { sendCoins } from "../bank/transfers.ts";
import { getGateway, undelegatingGateways } from "../gateway/state.ts";
import { applicationsWithDueClaims } from "../proof/unsettled-claims.ts";
import { type DueItem, type QueueKey, SessionEndQueue } from "../shared/session-end-queue.ts";
import { getSharedParams, getSharedParamsAt, sessionEnd } from "../shared/state.ts";
import { undelegated } from "./delegating.ts";
import {
  APPLICATION_MODULE,
  delegations,
  enterTransferring,
  enterUnstaking,
  formerTransferring,
  formerUnstaking,
  getApplication,
  minApplicationStakeUpokt,
  removeApplication,
  setApplication,
  stakeUpokt,
  transferringApplications,
  undelegations,
  unfinishedTransfers,
  unfinishedUnbonding,
  unstakingApplications,
} from "./state.ts";
import { endTransfer } from "./transferring.ts";

/**
 * Maximum number of applications whose delegations a block ends, and from whose records it prunes: a gateway that leaves may have any
 * number of them, and no gas pays for it. The next blocks go on with the others.
 */
export const MAX_UNDELEGATIONS_PER_BLOCK = 2_000;

/** Ends delegations to a gateway, up to a maximum; returns the number of those that it tried. */
function endDelegations(ctx: Context, [since, gateway]: QueueKey, maximum: number): number {
  const within = endedTextCodec.encode(gateway);
  // Collected before anything is written: what ends leaves the index.
  const delegating = firstOf(delegations.entries(ctx, { within }), maximum).map(([[, address]]) => address);
  let failed = 0;
  for (const address of delegating) {
    const { ok } = runPart(ctx, { part: "undelegation", item: `${address}/${gateway}` }, (branch) => {
      const app = getApplication(branch, address);
      if (app !== undefined) setApplication(branch, undelegated(branch, app, gateway));
    });
    if (!ok) failed++;
  }
  if (failed === 0 && delegating.length === maximum) return maximum;
  undelegatingGateways.remove(ctx, [since, gateway]);
  // A failed undelegation is retried in the first block of the next session.
  if (failed > 0) undelegatingGateways.set(ctx, [sessionEnd(ctx), gateway], new Uint8Array(0));
  return delegating.length;
}

/** Ends delegations to gateways whose last session has passed (x/application/keeper/auto_undelegate.go), the oldest first. */
function undelegateFromUnbonding(ctx: Context): void {
  const height = ctx.block.heightBlocks;
  let remaining = MAX_UNDELEGATIONS_PER_BLOCK;
  const due = firstOf(undelegatingGateways.entries(ctx, { to: uint64Codec.encode(height) }), remaining);
  for (const [key] of due) {
    if (remaining <= 0) return;
    const gateway = getGateway(ctx, key[1]);
    if (gateway !== undefined && isGatewayActive(gateway.unstakeSessionEndHeight, height)) {
      // It was staked anew while a delegation to it waited to be ended again.
      undelegatingGateways.remove(ctx, key);
      continue;
    }
    remaining -= endDelegations(ctx, key, remaining);
  }
}

/** Applications with an undelegation that no ring of a session can need any more, the oldest undelegations first. */
function* applicationsToPrune(ctx: Context, isNeeded: (height: bigint) => boolean, to: bigint): Generator<string> {
  let from = 0n;
  for (;;) {
    const range = { from: uint64Codec.encode(from), to: uint64Codec.encode(to) };
    const height = firstOf(undelegations.entries(ctx, range), 1)[0]?.[0][0];
    if (height === undefined) return;
    if (!isNeeded(height)) {
      for (const [[, address]] of undelegations.entries(ctx, { within: uint64Codec.encode(height) })) yield address;
    }
    from = height + 1n;
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
  // Collected before anything is written: what is pruned leaves the index.
  for (const address of firstOf(applicationsToPrune(ctx, isNeeded, now - today), MAX_UNDELEGATIONS_PER_BLOCK)) {
    const app = getApplication(ctx, address);
    if (app === undefined) continue;
    const needed = Object.entries(app.pendingUndelegations).filter(([height]) => isNeeded(BigInt(height)));
    if (needed.length === Object.keys(app.pendingUndelegations).length) continue;
    setApplication(ctx, { ...app, pendingUndelegations: Object.fromEntries(needed) });
  }
}

const unbondings = new SessionEndQueue({
  entries: unstakingApplications,
  unfinished: unfinishedUnbonding,
  former: formerUnstaking,
  enter: enterUnstaking,
  // By the parameters at the unstaking (x/application/keeper/unbond_applications.go).
  endHeight: (params, since) => unbondingEndHeight("application", params, since),
  waitsForSettlement: true,
});

const transfers = new SessionEndQueue({
  entries: transferringApplications,
  unfinished: unfinishedTransfers,
  former: formerTransferring,
  enter: enterTransferring,
  // By the parameters of the last session: by today's, as on the real chain (x/application/keeper/transfer_applications.go), shorter
  // windows would move the application away from its claims.
  endHeight: transferEndHeight,
  waitsForSettlement: true,
});

/** Lists of a genesis that say how far blocks came in what a session's end begins. */
export const UNFINISHED_LISTS: readonly GenesisList[] = [
  unbondings.genesisList("unfinished_unbonding"),
  transfers.genesisList("unfinished_transfers"),
];

function unbond(ctx: Context, app: Parsed<application.Application>, at: DueItem): void {
  const { sessionEndHeight } = at;
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
    unbondingEndHeight: at.endHeight,
  });
}

/** Pays out stakes, and completes transfers, of applications whose last session is settled, in the real chain's order. */
function endUnbondingAndTransfers(ctx: Context): void {
  let withClaims: ReadonlySet<string> | undefined;
  const waits = (address: string): boolean => {
    withClaims ??= applicationsWithDueClaims(ctx);
    return withClaims.has(address);
  };
  unbondings.run(ctx, (item) => {
    if (waits(item.address)) return;
    const app = getApplication(ctx, item.address);
    if (app === undefined || app.unstakeSessionEndHeight === 0n) return;
    runPart(ctx, { part: "unbonding", item: item.address }, (branch) => unbond(branch, app, item));
  });
  transfers.run(ctx, (item) => {
    if (waits(item.address)) return;
    // Read here: an earlier transfer of this block may have changed it.
    const app = getApplication(ctx, item.address);
    if (app?.pendingTransfer === undefined) return;
    runPart(ctx, { part: "transfer", item: item.address }, (branch) => endTransfer(branch, app, item));
  });
}

/** What happens to applications at the end of a block, in the real chain's order. */
export function endApplicationsBlock(ctx: Context): undefined {
  undelegateFromUnbonding(ctx);
  pruneUndelegations(ctx);
  endUnbondingAndTransfers(ctx);
}
