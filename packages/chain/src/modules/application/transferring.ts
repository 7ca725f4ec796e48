import type { AccountAddress } from "@turnpike/base";
import { application, createMessage } from "@turnpike/proto";
import { transferEndHeight } from "@turnpike/protocol";
import { addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { done, fail, type Outcome, type TxFault, wrapped } from "../../state/outcome.ts";
import { createParsed, type Parsed } from "../../state/parsed.ts";
import { emit } from "../../state/typed-event.ts";
import type { DueItem } from "../shared/session-end-queue.ts";
import { getSharedParams, sessionEnd } from "../shared/state.ts";
import { APPLICATION } from "./errors.ts";
import { getApplication, removeApplication, setApplication } from "./state.ts";

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

const destinationExists = (address: string): string =>
  wrapped(APPLICATION.duplicateAddress, `destination application (${address}) exists`);

/** Runs a transfer's beginning. A second one while one is pending replaces the destination. */
export function beginTransfer(
  ctx: Context,
  { sourceAddress, destinationAddress }: Parsed<application.MsgTransferApplication>,
): Outcome<application.MsgTransferApplicationResponse> {
  if (getApplication(ctx, destinationAddress) !== undefined) {
    return failStatus("FailedPrecondition", destinationExists(destinationAddress));
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

/**
 * A source's record under the destination's address. Its gateways stay behind: they were not chosen by the key that signs there
 * from now on, and could spend what that key adds to the stake. The source's own sessions are settled by now.
 */
function moved(source: App, address: AccountAddress): App {
  const serviceConfigHistory = source.serviceConfigHistory.map((one) => ({ ...one, applicationAddress: address }));
  return {
    ...source,
    address,
    serviceConfigHistory,
    delegateeGatewayAddresses: [],
    pendingUndelegations: {},
    pendingTransfer: undefined,
  };
}

/** The reason that a transfer whose height has come moves nothing; undefined when it moves its source. */
function transferEndFault(ctx: Context, source: App, destination: AccountAddress): string | undefined {
  if (source.unstakeSessionEndHeight !== 0n) {
    const text = `cannot transfer stake of unbonding source application (${source.address})`;
    return wrapped(APPLICATION.isUnstaking, text);
  }
  return getApplication(ctx, destination) === undefined ? undefined : destinationExists(destination);
}

/**
 * Ends a transfer whose height has come: the destination takes all over, or the source retains it when it unbonds by now, or when
 * the destination was staked in the meantime. Others begin transfers without the destination's consent, so that nothing of
 * theirs joins what its own key staked.
 */
export function endTransfer(ctx: Context, source: App, { sessionEndHeight, endHeight }: DueItem): void {
  if (source.pendingTransfer === undefined) return;
  const { destinationAddress } = source.pendingTransfer;
  const sourceAddress = source.address;
  const error = transferEndFault(ctx, source, destinationAddress);
  if (error !== undefined) {
    const sourceApplication = { ...source, pendingTransfer: undefined };
    setApplication(ctx, sourceApplication);
    emit(ctx, application.EventTransferErrorSchema, {
      sourceAddress,
      destinationAddress,
      sourceApplication,
      sessionEndHeight,
      error,
    });
    return;
  }
  const destinationApplication = moved(source, destinationAddress);
  removeApplication(ctx, sourceAddress);
  setApplication(ctx, destinationApplication);
  emit(ctx, application.EventTransferEndSchema, {
    sourceAddress,
    destinationAddress,
    destinationApplication,
    sessionEndHeight,
    transferEndHeight: endHeight,
  });
}
