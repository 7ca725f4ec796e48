import { application, createMessage } from "@turnpike/proto";
import {
  endedTextCodec,
  messageCodec,
  noKey,
  pairCodec,
  rawCodec,
  slashEndedTextCodec,
  uint64Codec,
} from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { iteratorGas, STORE_GAS, writeGas } from "../../state/gas.ts";
import { type Parsed, recordCodec } from "../../state/parsed.ts";
import { noteApplication } from "../session/history.ts";
import { type QueueKey, unfinishedEndCodec } from "../shared/session-end-queue.ts";

/** Name of the module, of its part of the state, and of the account that holds its stakes. */
export const APPLICATION_MODULE = "application";

/** The parameters that a chain has unless its genesis says otherwise. */
export const DEFAULT_APPLICATION_PARAMS: application.Params = createMessage(application.ParamsSchema, {
  maxDelegatedGateways: 7n,
  minStake: { denom: "upokt", amount: "1000000" },
});

const module = APPLICATION_MODULE;
const NOTHING = new Uint8Array(0);

/** The parameters. */
export const applicationParams = new Collection({
  module,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(application.ParamsSchema),
  stored: { prefixBytes: "p_application".length },
});
/** Applications by bech32 address. Written through {@link setApplication} alone, which keeps the indexes. */
export const applications = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: slashEndedTextCodec,
  value: recordCodec(application.ApplicationSchema),
  stored: { prefixBytes: "Application/address/".length },
});
/** Addresses of applications that are unbonding, as an earlier version wrote them; see {@link unstakingApplications}. */
export const formerUnstaking = new Collection({
  module,
  prefix: Uint8Array.of(2),
  key: slashEndedTextCodec,
  value: rawCodec,
});
/** Addresses of applications that are being transferred, as an earlier version wrote them. */
export const formerTransferring = new Collection({
  module,
  prefix: Uint8Array.of(3),
  key: slashEndedTextCodec,
  value: rawCodec,
});
/** Who delegates to a gateway: its address, the application's. */
export const delegations = new Collection({
  module,
  prefix: Uint8Array.of(4),
  key: pairCodec(endedTextCodec, slashEndedTextCodec),
  value: rawCodec,
});
/** Applications with undelegations, by the session end at which these were made. */
export const undelegations = new Collection({
  module,
  prefix: Uint8Array.of(5),
  key: pairCodec(uint64Codec, slashEndedTextCodec),
  value: rawCodec,
});
/** Applications that are unbonding, by the last height of the session in which that began. */
export const unstakingApplications = new Collection({
  module,
  prefix: Uint8Array.of(6),
  key: pairCodec(uint64Codec, slashEndedTextCodec),
  value: rawCodec,
});
/** Applications that are being transferred, by the last height of the session in which that began. */
export const transferringApplications = new Collection({
  module,
  prefix: Uint8Array.of(7),
  key: pairCodec(uint64Codec, slashEndedTextCodec),
  value: rawCodec,
});
/** Point that blocks reached in {@link unstakingApplications}, while some of a session's end remain. */
export const unfinishedUnbonding = new Collection({
  module,
  prefix: Uint8Array.of(8),
  key: noKey,
  value: unfinishedEndCodec,
});
/** Point that blocks reached in {@link transferringApplications}, while some of a session's end remain. */
export const unfinishedTransfers = new Collection({
  module,
  prefix: Uint8Array.of(9),
  key: noKey,
  value: unfinishedEndCodec,
});

/** The parameters. */
export function getApplicationParams(ctx: Context): application.Params {
  return applicationParams.get(ctx, undefined) ?? createMessage(application.ParamsSchema);
}

/** The smallest stake, in upokt; the default's where none was ever set. */
export function minApplicationStakeUpokt(ctx: Context): bigint {
  const { minStake } = getApplicationParams(ctx);
  return BigInt(minStake?.amount ?? DEFAULT_APPLICATION_PARAMS.minStake?.amount ?? 0);
}

/** An application; undefined when there is none. */
export function getApplication(ctx: Context, address: string): Parsed<application.Application> | undefined {
  return applications.get(ctx, address);
}

/** An application's stake, in upokt. */
export function stakeUpokt(found: { readonly stake?: { readonly amount: string } | undefined }): bigint {
  return BigInt(found.stake?.amount ?? 0);
}

const gatewaysOf = (app: application.Application | undefined): readonly string[] =>
  app?.delegateeGatewayAddresses ?? [];
const heightsOf = (app: application.Application | undefined): readonly bigint[] =>
  Object.keys(app?.pendingUndelegations ?? {}).map(BigInt);

function mark<K>(ctx: Context, index: Collection<K, Uint8Array>, key: K, was: boolean, is: boolean): void {
  if (is && !was) index.set(ctx, key, NOTHING);
  if (was && !is) index.remove(ctx, key);
}

/** Last height of the session in which an application's unbonding began; undefined when it does not unbond. */
function unstakingSince(app: application.Application | undefined): bigint | undefined {
  return app === undefined || app.unstakeSessionEndHeight === 0n ? undefined : app.unstakeSessionEndHeight;
}

/** Last height of the session in which an application's transfer began. */
function transferringSince(app: application.Application | undefined): bigint | undefined {
  return app?.pendingTransfer?.sessionEndHeight;
}

function markSession(
  ctx: Context,
  index: Collection<QueueKey, Uint8Array>,
  address: string,
  was: bigint | undefined,
  is: bigint | undefined,
): void {
  if (was === is) return;
  if (was !== undefined) index.remove(ctx, [was, address]);
  if (is !== undefined) index.set(ctx, [is, address], NOTHING);
}

/** Enters an application of a state that an earlier version made into {@link unstakingApplications}. */
export function enterUnstaking(ctx: Context, address: string): void {
  markSession(ctx, unstakingApplications, address, undefined, unstakingSince(getApplication(ctx, address)));
}

/** As {@link enterUnstaking}, into {@link transferringApplications}. */
export function enterTransferring(ctx: Context, address: string): void {
  markSession(ctx, transferringApplications, address, undefined, transferringSince(getApplication(ctx, address)));
}

function keepIndexes(
  ctx: Context,
  address: string,
  old: application.Application | undefined,
  now: application.Application | undefined,
): void {
  markSession(ctx, unstakingApplications, address, unstakingSince(old), unstakingSince(now));
  markSession(ctx, transferringApplications, address, transferringSince(old), transferringSince(now));
  for (const gateway of new Set([...gatewaysOf(old), ...gatewaysOf(now)])) {
    mark(ctx, delegations, [gateway, address], gatewaysOf(old).includes(gateway), gatewaysOf(now).includes(gateway));
  }
  for (const height of new Set([...heightsOf(old), ...heightsOf(now)])) {
    mark(ctx, undelegations, [height, address], heightsOf(old).includes(height), heightsOf(now).includes(height));
  }
}

const leftGateways = (app: application.Application | undefined): readonly string[] =>
  Object.values(app?.pendingUndelegations ?? {}).flatMap(({ gatewayAddresses }) => gatewayAddresses);

/**
 * Charges what the real chain's indexes cost (x/application/keeper/application_index.go): it writes all of them with every
 * application, and has an entry for each gateway that was left.
 */
function chargeIndexes(ctx: Context, old: application.Application | undefined, now: application.Application): void {
  const own = now.address.length + 1;
  const consume = (amount: bigint): void => ctx.gas.consume(amount, "WritePerByte");
  const mark = (prefix: string, is: boolean): void => {
    consume(is ? writeGas(prefix.length + own, own) : STORE_GAS.delete);
  };
  mark("Application/unstaking/", now.unstakeSessionEndHeight !== 0n);
  mark("Application/transfer/", now.pendingTransfer !== undefined);
  const left = leftGateways(now);
  for (const _ of left) consume(STORE_GAS.delete);
  for (const gateway of gatewaysOf(now)) {
    consume(writeGas("Application/delegation/".length + gateway.length + 1 + own, own));
  }
  const undelegation = (gateway: string): readonly [key: number, value: number] => [
    "Application/undelegation/".length + own + gateway.length + 1,
    2 + now.address.length + 2 + gateway.length,
  ];
  const before = leftGateways(old).map(undelegation);
  consume(iteratorGas(before.map(([key, value]) => key + value)));
  for (const _ of before) consume(STORE_GAS.delete);
  for (const [key, value] of left.map(undelegation)) consume(writeGas(key, value) + STORE_GAS.delete);
}

/** Writes an application, new or changed, and its entries in the indexes. */
export function setApplication(ctx: Context, changed: Parsed<application.Application>): void {
  const old = getApplication(unmetered(ctx), changed.address);
  noteApplication(ctx, changed.address, old, changed);
  chargeIndexes(ctx, old, changed);
  keepIndexes(unmetered(ctx), changed.address, old, changed);
  applications.set(ctx, changed.address, changed);
}

/** Removes an application and its entries in the indexes. Only the end of a block does, which has no meter. */
export function removeApplication(ctx: Context, address: string): void {
  const old = getApplication(ctx, address);
  noteApplication(ctx, address, old, undefined);
  keepIndexes(ctx, address, old, undefined);
  applications.remove(ctx, address);
}
