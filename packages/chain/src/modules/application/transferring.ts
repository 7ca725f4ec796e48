import type { AccountAddress } from "@turnpike/base";
import { application, createMessage } from "@turnpike/proto";
import { transferEndHeight } from "@turnpike/protocol";
import { addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { done, fail, type Outcome, type TxFault, wrapped } from "../../state/outcome.ts";
import { createParsed, type Parsed } from "../../state/parsed.ts";
import { upokt } from "../../state/stakes.ts";
import { emit } from "../../state/typed-event.ts";
import { getSharedParams, sessionEnd } from "../shared/state.ts";
import { APPLICATION } from "./errors.ts";
import { withServices } from "./service-configs.ts";
import { getApplication, removeApplication, setApplication, stakeUpokt } from "./state.ts";

type App = Parsed<application.Application>;

/** Why a transfer cannot be right, whatever the state is. */
export function transferFault({
  sourceAddress: source,
  destinationAddress: destination,
}: application.MsgTransferApplication): TxFault | undefined {
  const invalid = (text: string): TxFault => fail(APPLICATION.invalidAddress, text).fault;
  if (source === "") return invalid("empty source application address");
  if (destination === "") return invalid("empty destination application address");
  const from = addressFault(source);
  if (from !== undefined) return invalid(`invalid source application address (${source}): ${from}`);
  const to = addressFault(destination);
  if (to !== undefined) return invalid(`invalid destination application address (${destination}): ${to}`);
  if (source !== destination) return undefined;
  const text = `source and destination application addresses are the same: ${source}`;
  return fail(APPLICATION.duplicateAddress, text).fault;
}

/** Runs a transfer's beginning. A second one while one is pending replaces the destination. */
export function beginTransfer(
  ctx: Context,
  { sourceAddress, destinationAddress }: Parsed<application.MsgTransferApplication>,
): Outcome<application.MsgTransferApplicationResponse> {
  if (getApplication(ctx, destinationAddress) !== undefined) {
    const text = wrapped(APPLICATION.duplicateAddress, `destination application (${destinationAddress}) exists`);
    return failStatus("FailedPrecondition", text);
  }
  const found = getApplication(ctx, sourceAddress);
  if (found === undefined) {
    const text = wrapped(APPLICATION.notFound, `source application (${sourceAddress}) not found`);
    return failStatus("InvalidArgument", text);
  }
  if (found.unstakeSessionEndHeight !== 0n) {
    const text = `cannot transfer stake of unbonding source application ${goQuoted(sourceAddress)}`;
    return failStatus("FailedPrecondition", wrapped(APPLICATION.isUnstaking, text));
  }
  const sessionEndHeight = sessionEnd(ctx);
  const pendingTransfer = createParsed(application.PendingApplicationTransferSchema, {
    destinationAddress,
    sessionEndHeight,
  });
  const changed = { ...found, pendingTransfer };
  setApplication(ctx, changed);
  emit(ctx, application.EventTransferBeginSchema, {
    sourceAddress,
    destinationAddress,
    sourceApplication: changed,
    sessionEndHeight,
    transferEndHeight: transferEndHeight(getSharedParams(ctx), sessionEndHeight),
  });
  return done(createMessage(application.MsgTransferApplicationResponseSchema));
}

// Each gateway once, at the destination's height where both have it.
function mergedUndelegations(source: App, destination: App): App["pendingUndelegations"] {
  const heights = new Map<string, string>();
  for (const app of [source, destination]) {
    for (const [height, { gatewayAddresses }] of Object.entries(app.pendingUndelegations)) {
      for (const gateway of gatewayAddresses) heights.set(gateway, height);
    }
  }
  const merged: Record<string, application.UndelegatingGatewayList> = {};
  for (const [gateway, height] of [...heights].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const gatewayAddresses = [...(merged[height]?.gatewayAddresses ?? []), gateway];
    merged[height] = createMessage(application.UndelegatingGatewayListSchema, { gatewayAddresses });
  }
  return merged;
}

function lowerLimit(source: App, destination: App): App["perSessionSpendLimit"] {
  const a = source.perSessionSpendLimit;
  const b = destination.perSessionSpendLimit;
  if (a === undefined || b === undefined) return a ?? b;
  return BigInt(a.amount) < BigInt(b.amount) ? a : b;
}

/** An application that takes another in: stakes, delegations and services of both, the lower spend limit. */
function merged(ctx: Context, source: App, destination: App): App {
  const delegatees = new Set([...destination.delegateeGatewayAddresses, ...source.delegateeGatewayAddresses]);
  const services = [...destination.serviceConfigs];
  for (const config of source.serviceConfigs) {
    if (!services.some(({ serviceId }) => serviceId === config.serviceId)) services.push(config);
  }
  const both: App = {
    ...destination,
    stake: upokt(stakeUpokt(source) + stakeUpokt(destination)),
    delegateeGatewayAddresses: [...delegatees],
    pendingUndelegations: mergedUndelegations(source, destination),
    perSessionSpendLimit: lowerLimit(source, destination),
  };
  return withServices(ctx, both, services);
}

function renamed(source: App, address: AccountAddress): App {
  const serviceConfigHistory = source.serviceConfigHistory.map((one) => ({ ...one, applicationAddress: address }));
  return { ...source, address, serviceConfigHistory, pendingTransfer: undefined };
}

/** Ends a transfer whose height has come: the destination takes all over, or the source keeps it when it unbonds by now. */
export function endTransfer(ctx: Context, source: App, endHeight: bigint): void {
  if (source.pendingTransfer === undefined) return;
  const { destinationAddress } = source.pendingTransfer;
  const sourceAddress = source.address;
  const sessionEndHeight = sessionEnd(ctx);
  if (source.unstakeSessionEndHeight !== 0n) {
    const kept = { ...source, pendingTransfer: undefined };
    setApplication(ctx, kept);
    const text = `cannot transfer stake of unbonding source application (${sourceAddress})`;
    emit(ctx, application.EventTransferErrorSchema, {
      sourceAddress,
      destinationAddress,
      sourceApplication: kept,
      sessionEndHeight,
      error: wrapped(APPLICATION.isUnstaking, text),
    });
    return;
  }
  const found = getApplication(ctx, destinationAddress);
  const destination = found === undefined ? renamed(source, destinationAddress) : merged(ctx, source, found);
  removeApplication(ctx, sourceAddress);
  setApplication(ctx, destination);
  emit(ctx, application.EventTransferEndSchema, {
    sourceAddress,
    destinationAddress,
    destinationApplication: destination,
    sessionEndHeight,
    transferEndHeight: endHeight,
  });
}
