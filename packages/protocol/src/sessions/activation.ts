import { greatest } from "../rational.ts";
import { sessionAt } from "./grid.ts";
import { type SessionWindowParams, sessionWindows, settlementDelayBlocks } from "./windows.ts";

/** When a service's configuration holds: from `activationHeight` on, and below `deactivationHeight` unless that is 0. */
export interface ConfigSpan {
  readonly activationHeight: bigint;
  readonly deactivationHeight: bigint;
}

/** True when the configuration holds at `height`. */
export function isConfigActive(span: ConfigSpan, height: bigint): boolean {
  if (span.activationHeight > height) return false;
  return span.deactivationHeight === 0n || span.deactivationHeight > height;
}

/**
 * The service configurations of an application that hold at `height`. Without a history the present ones have always
 * held, as it is written only once they change.
 */
export function activeApplicationConfigs<T>(
  present: readonly T[],
  history: readonly (ConfigSpan & { readonly service?: T | undefined })[],
  height: bigint,
): T[] {
  const updates = history.flatMap(({ service, ...span }) => (service === undefined ? [] : [{ ...span, service }]));
  if (updates.length === 0) return [...present];
  return updates.filter((update) => isConfigActive(update, height)).map(({ service }) => service);
}

/** True when a supplier's ended configuration may be pruned: the proof window of its last session has passed. */
export function mayPruneConfig(
  paramsAtLastActive: SessionWindowParams,
  deactivationHeight: bigint,
  currentHeight: bigint,
): boolean {
  if (deactivationHeight === 0n || deactivationHeight > currentHeight) return false;
  return currentHeight > sessionWindows(paramsAtLastActive, deactivationHeight - 1n).proofCloseHeight;
}

/** What decides whether an application may ask for sessions. */
export interface ApplicationLifecycle {
  /** Last height of the session in which it unstaked; 0 while it has not. */
  readonly unstakeSessionEndHeight: bigint;
  /** Last height of the session in which its transfer began. */
  readonly pendingTransfer?: { readonly sessionEndHeight: bigint } | undefined;
}

/**
 * True while an application may be in a session that ends at `sessionEndHeight`. A transfer ends its sessions also when it
 * unbonds later: on the real chain it would be in sessions again, which the transfer does not wait for.
 */
export function isApplicationActive(application: ApplicationLifecycle, sessionEndHeight: bigint): boolean {
  const { unstakeSessionEndHeight, pendingTransfer } = application;
  if (unstakeSessionEndHeight !== 0n && sessionEndHeight > unstakeSessionEndHeight) return false;
  return pendingTransfer === undefined || sessionEndHeight <= pendingTransfer.sessionEndHeight;
}

/** True while a gateway may be delegated to at `height`. */
export function isGatewayActive(unstakeSessionEndHeight: bigint, height: bigint): boolean {
  return unstakeSessionEndHeight === 0n || height <= unstakeSessionEndHeight;
}

/** How many sessions an actor of each kind waits for its stake. */
export interface UnbondingParams extends SessionWindowParams {
  readonly applicationUnbondingPeriodSessions: bigint;
  readonly supplierUnbondingPeriodSessions: bigint;
  readonly gatewayUnbondingPeriodSessions: bigint;
}

/**
 * The height from which a stake goes back, by the parameters at its unstaking: at the first session end from there. Those
 * who are in claims wait for the settlement of their last session, which may be one block later than their period.
 */
export function unbondingEndHeight(
  actor: "application" | "supplier" | "gateway",
  params: UnbondingParams,
  unstakeSessionEndHeight: bigint,
): bigint {
  const periodBlocks = params[`${actor}UnbondingPeriodSessions`] * params.numBlocksPerSession;
  if (actor === "gateway") return unstakeSessionEndHeight + periodBlocks;
  return unstakeSessionEndHeight + greatest(periodBlocks, settlementDelayBlocks(params) + 1n);
}

/** The height at which the sessions before an application's transfer are settled: it completes at the next session end. */
export function transferEndHeight(params: SessionWindowParams, transferSessionEndHeight: bigint): bigint {
  return sessionAt(params, transferSessionEndHeight).endHeight + settlementDelayBlocks(params) + 1n;
}

/**
 * For how many blocks an undelegated gateway stays in the record: grace period and two sessions, and until the session in
 * which it was undelegated is settled, as proofs are of rings that it is in.
 */
export function undelegationRetentionBlocks(params: SessionWindowParams): bigint {
  const graceAndTwoSessions = params.gracePeriodEndOffsetBlocks + 2n * params.numBlocksPerSession;
  return greatest(graceAndTwoSessions, settlementDelayBlocks(params) + 1n);
}
