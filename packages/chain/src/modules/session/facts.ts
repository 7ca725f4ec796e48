import type { application } from "@turnpike/proto";
import { isApplicationActive, type SessionHeader } from "@turnpike/protocol";
import { type Context, unmetered } from "../../state/context.ts";
import { upokt } from "../../state/stakes.ts";
import { getApplication } from "../application/state.ts";
import { pastApplications } from "./history.ts";

/** What names a session among those of an application. */
export type SessionSpan = Pick<
  SessionHeader,
  "applicationAddress" | "sessionStartBlockHeight" | "sessionEndBlockHeight"
>;

/** Records of an application after the blocks of a session, the oldest first: today's last while the session is under way. */
function versionsOf(ctx: Context, span: SessionSpan): application.Application[] {
  const { applicationAddress: address, sessionStartBlockHeight: first, sessionEndBlockHeight: last } = span;
  return pastApplications.between(ctx, address, first, last, () => getApplication(unmetered(ctx), address));
}

/**
 * True when the application could be in the session at one of its blocks: what it does later changes nothing.
 *
 * @param today its record, which counts for sessions before there was one, as on the real chain: none of its gateways signs
 * for them
 */
export function wasApplicationActive(ctx: Context, span: SessionSpan, today: application.Application): boolean {
  const versions = versionsOf(ctx, span);
  const counted = versions.length === 0 ? [today] : versions;
  return counted.some((version) => isApplicationActive(version, span.sessionEndBlockHeight));
}

/** The application's record after the session's last block, or now while it is under way; undefined when there was none. */
export function applicationOfSession(ctx: Context, span: SessionSpan): application.Application | undefined {
  return versionsOf(ctx, span).at(-1);
}

/**
 * An application's record as a session shows it: as it is now while the session is under way, then with what was true in it,
 * so that who reads it late knows the members of its ring and its spend limit. Stake and services are today's.
 */
export function shownApplication(
  ctx: Context,
  span: SessionSpan,
  today: application.Application,
): application.Application {
  const record = applicationOfSession(ctx, span);
  if (record === undefined || ctx.block.heightBlocks <= span.sessionEndBlockHeight) return today;
  const { delegateeGatewayAddresses, pendingUndelegations, unstakeSessionEndHeight, pendingTransfer } = record;
  const limit = spendLimitOfSession(ctx, span);
  return {
    ...today,
    delegateeGatewayAddresses,
    pendingUndelegations,
    unstakeSessionEndHeight,
    pendingTransfer,
    perSessionSpendLimit: limit === undefined ? undefined : upokt(limit),
  };
}

/**
 * Most that the application pays for the session, to all suppliers together; undefined for no limit. The highest that
 * held after one of its blocks: a supplier reads it at one of these.
 */
export function spendLimitOfSession(ctx: Context, span: SessionSpan): bigint | undefined {
  let highest = 0n;
  for (const { perSessionSpendLimit } of versionsOf(ctx, span)) {
    const limit = BigInt(perSessionSpendLimit?.amount ?? "0");
    if (limit === 0n) return undefined;
    if (limit > highest) highest = limit;
  }
  return highest === 0n ? undefined : highest;
}
