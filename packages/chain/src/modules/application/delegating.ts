import { application, createMessage } from "@turnpike/proto";
import { isGatewayActive } from "@turnpike/protocol";
import { addressFault, parseAddress } from "../../state/addresses.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { done, fail, type Outcome, type TxFault, wrapped } from "../../state/outcome.ts";
import type { Parsed } from "../../state/parsed.ts";
import { emit } from "../../state/typed-event.ts";
import { readAccountKey } from "../auth/account-keys.ts";
import { getAccount } from "../auth/accounts.ts";
import { GATEWAY } from "../gateway/errors.ts";
import { getGateway } from "../gateway/state.ts";
import { sessionEnd } from "../shared/state.ts";
import { APPLICATION } from "./errors.ts";
import { applicationAddressFault } from "./staking.ts";
import { getApplication, getApplicationParams, setApplication } from "./state.ts";

type Pending = application.Application["pendingUndelegations"];

/**
 * Undelegated gateways in a record with which an application may still delegate to another: claims, proofs and messages of the
 * application read all of them. Delegating is refused and not undelegating, so that every delegation can be ended.
 */
const MAX_UNDELEGATED_GATEWAYS = 64;

/** Why a message that names an application and a gateway cannot be right, whatever the state is. */
export function delegationFault({
  appAddress,
  gatewayAddress,
}: {
  readonly appAddress: string;
  readonly gatewayAddress: string;
}): TxFault | undefined {
  const fault = applicationAddressFault(appAddress);
  if (fault !== undefined) return fault;
  const gateway = addressFault(gatewayAddress);
  if (gateway === undefined) return undefined;
  return fail(APPLICATION.invalidGatewayAddress, `invalid gateway address ${gatewayAddress}; (${gateway})`).fault;
}

function withoutPending(pending: Pending, gateway: string): Pending {
  const lists = Object.entries(pending).flatMap(([height, { gatewayAddresses }]) => {
    const kept = gatewayAddresses.filter((address) => address !== gateway);
    if (kept.length === 0) return [];
    return [[height, createMessage(application.UndelegatingGatewayListSchema, { gatewayAddresses: kept })] as const];
  });
  return Object.fromEntries(lists);
}

/** An application that no longer delegates to a gateway, and remembers until when it did. */
export function undelegated(
  ctx: Context,
  app: Parsed<application.Application>,
  gateway: string,
): Parsed<application.Application> {
  const height = sessionEnd(ctx).toString();
  const before = app.pendingUndelegations[height]?.gatewayAddresses ?? [];
  const gatewayAddresses = before.includes(gateway) ? before : [...before, gateway];
  return {
    ...app,
    delegateeGatewayAddresses: app.delegateeGatewayAddresses.filter((address) => address !== gateway),
    pendingUndelegations: {
      ...app.pendingUndelegations,
      [height]: createMessage(application.UndelegatingGatewayListSchema, { gatewayAddresses }),
    },
  };
}

// A gateway of a genesis may have no key until its first transaction: it is in no ring until then. The real chain lets every
// account in, and accepts no proof of the application as long as one of its gateways has a key of another type.
function canSignRelays(ctx: Context, address: string): boolean {
  const parsed = parseAddress(address);
  const key = parsed.ok ? getAccount(unmetered(ctx), parsed.value)?.base.pubKey : undefined;
  return key === undefined || readAccountKey(key)?.kind === "single";
}

/** Runs a delegation. The checks come in the real chain's order, so that the first one's text is the same. */
export function delegateToGateway(
  ctx: Context,
  { appAddress, gatewayAddress }: application.MsgDelegateToGateway,
): Outcome<application.MsgDelegateToGatewayResponse> {
  const found = getApplication(ctx, appAddress);
  if (found === undefined) {
    return failStatus("NotFound", wrapped(APPLICATION.notFound, `application with address: ${appAddress}`));
  }
  const gateway = getGateway(ctx, gatewayAddress);
  const whom = `gateway with address: ${goQuoted(gatewayAddress)}`;
  if (gateway === undefined) return failStatus("NotFound", wrapped(APPLICATION.gatewayNotFound, whom));
  const who = `application with address ${goQuoted(appAddress)}`;
  const most = getApplicationParams(ctx).maxDelegatedGateways;
  if (BigInt(found.delegateeGatewayAddresses.length) >= most) {
    const text = `${who} already delegated to ${most} (max) gateways`;
    return failStatus("FailedPrecondition", wrapped(APPLICATION.maxDelegatedGateways, text));
  }
  const undelegatedGateways = new Set(
    Object.values(found.pendingUndelegations).flatMap(({ gatewayAddresses }) => gatewayAddresses),
  );
  if (undelegatedGateways.size >= MAX_UNDELEGATED_GATEWAYS && !undelegatedGateways.has(gatewayAddress)) {
    const text = `${who} already undelegated from ${MAX_UNDELEGATED_GATEWAYS} (max) gateways in sessions that are not settled`;
    return failStatus("FailedPrecondition", wrapped(APPLICATION.maxDelegatedGateways, text));
  }
  if (!isGatewayActive(gateway.unstakeSessionEndHeight, ctx.block.heightBlocks)) {
    return failStatus("FailedPrecondition", wrapped(GATEWAY.isInactive, whom));
  }
  if (found.delegateeGatewayAddresses.includes(gatewayAddress)) {
    const text = wrapped(APPLICATION.alreadyDelegated, `${who} already delegated to ${whom}`);
    return failStatus("AlreadyExists", text);
  }
  if (!canSignRelays(ctx, gatewayAddress)) {
    const text = `${whom} cannot sign relays: its account's key is not a secp256k1 key`;
    return failStatus("FailedPrecondition", wrapped(APPLICATION.invalidGatewayAddress, text));
  }
  const changed = {
    ...found,
    delegateeGatewayAddresses: [...found.delegateeGatewayAddresses, gatewayAddress],
    pendingUndelegations: withoutPending(found.pendingUndelegations, gatewayAddress),
  };
  setApplication(ctx, changed);
  emit(ctx, application.EventRedelegationSchema, { application: changed, sessionEndHeight: sessionEnd(ctx) });
  return done(createMessage(application.MsgDelegateToGatewayResponseSchema));
}

/** Runs the end of a delegation. */
export function undelegateFromGateway(
  ctx: Context,
  { appAddress, gatewayAddress }: application.MsgUndelegateFromGateway,
): Outcome<application.MsgUndelegateFromGatewayResponse> {
  const found = getApplication(ctx, appAddress);
  if (found === undefined) {
    const text = `application with address: ${goQuoted(appAddress)}`;
    return failStatus("NotFound", wrapped(APPLICATION.notFound, text));
  }
  if (!found.delegateeGatewayAddresses.includes(gatewayAddress)) {
    const text = `application with address ${goQuoted(appAddress)} not delegated to gateway with address: ${goQuoted(gatewayAddress)}`;
    return failStatus("FailedPrecondition", wrapped(APPLICATION.notDelegated, text));
  }
  const changed = undelegated(ctx, found, gatewayAddress);
  setApplication(ctx, changed);
  emit(ctx, application.EventRedelegationSchema, { application: changed, sessionEndHeight: sessionEnd(ctx) });
  return done(createMessage(application.MsgUndelegateFromGatewayResponseSchema));
}
