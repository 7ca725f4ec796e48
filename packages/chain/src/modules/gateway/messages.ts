import { createMessage, gateway, typeUrlOf } from "@turnpike/proto";
import { unbondingEndHeight } from "@turnpike/protocol";
import { accountBytes, addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, fail, type Outcome, type TxFault, wrapped } from "../../state/outcome.ts";
import { createParsed, type Parsed } from "../../state/parsed.ts";
import { coinAmount, coinText, STAKE_DENOM, stakeFault, upokt } from "../../state/stakes.ts";
import { emit } from "../../state/typed-event.ts";
import { sendCoinsToModule } from "../bank/transfers.ts";
import { metadataFault } from "../shared/services.ts";
import { getSharedParams, sessionEnd } from "../shared/state.ts";
import { GATEWAY } from "./errors.ts";
import { gatewayParamMessages } from "./params.ts";
import { DEFAULT_GATEWAY_PARAMS, GATEWAY_MODULE, getGateway, getGatewayParams, setGateway } from "./state.ts";

/** What gateway messages need to know of the chain. */
export interface GatewayOptions {
  /** Address whose messages change parameters. */
  readonly authority: string;
}

/** A gateway as events show it: without its card. */
export function forEvent(found: gateway.Gateway): gateway.Gateway {
  const { address, stake, unstakeSessionEndHeight } = found;
  return createMessage(gateway.GatewaySchema, {
    address,
    unstakeSessionEndHeight,
    ...(stake === undefined ? {} : { stake }),
  });
}

function gatewayAddressFault(address: string): TxFault | undefined {
  const fault = addressFault(address);
  if (fault === undefined) return undefined;
  return fail(GATEWAY.invalidAddress, `invalid gateway address ${address}; (${fault})`).fault;
}

function stakeGateway(
  ctx: Context,
  { address, stake }: Parsed<gateway.MsgStakeGateway>,
): Outcome<gateway.MsgStakeGatewayResponse> {
  const amount = coinAmount(stake);
  const old = getGateway(ctx, address);
  const before = coinAmount(old?.stake);
  if (old !== undefined && amount <= before) {
    const text = `stake amount ${amount}upokt must be higher than previous stake amount ${before}upokt`;
    return failStatus("InvalidArgument", wrapped(GATEWAY.invalidStake, text));
  }
  const minStake = getGatewayParams(ctx).minStake ?? DEFAULT_GATEWAY_PARAMS.minStake;
  if (minStake !== undefined && amount < coinAmount(minStake)) {
    const text = `gateway ${goQuoted(address)} must stake at least ${coinText(minStake)}`;
    return failStatus("InvalidArgument", wrapped(GATEWAY.invalidStake, text));
  }
  const escrow = [{ denom: STAKE_DENOM, amount: amount - before }];
  const sent = sendCoinsToModule(ctx, accountBytes(address), GATEWAY_MODULE, escrow);
  if (!sent.ok) return failStatus("Internal", sent.fault.text);
  const changed: Parsed<gateway.Gateway> = {
    ...(old ?? createParsed(gateway.GatewaySchema, { address })),
    stake: upokt(amount),
    unstakeSessionEndHeight: 0n,
  };
  setGateway(ctx, changed);
  const event = { gateway: forEvent(changed), sessionEndHeight: sessionEnd(ctx) };
  if (old !== undefined && old.unstakeSessionEndHeight !== 0n) {
    emit(ctx, gateway.EventGatewayUnbondingCanceledSchema, event);
  }
  emit(ctx, gateway.EventGatewayStakedSchema, event);
  return done(createMessage(gateway.MsgStakeGatewayResponseSchema));
}

function unstakeGateway(
  ctx: Context,
  { address }: gateway.MsgUnstakeGateway,
): Outcome<gateway.MsgUnstakeGatewayResponse> {
  const found = getGateway(ctx, address);
  if (found === undefined) {
    return failStatus("NotFound", wrapped(GATEWAY.notFound, `gateway with address ${address}`));
  }
  if (found.unstakeSessionEndHeight !== 0n) {
    const text = wrapped(GATEWAY.isUnstaking, `gateway with address ${goQuoted(address)}`);
    return failStatus("FailedPrecondition", text);
  }
  const params = getSharedParams(ctx);
  const sessionEndHeight = sessionEnd(ctx);
  const changed = { ...found, unstakeSessionEndHeight: sessionEndHeight };
  setGateway(ctx, changed);
  emit(ctx, gateway.EventGatewayUnbondingBeginSchema, {
    gateway: forEvent(changed),
    sessionEndHeight,
    unbondingEndHeight: unbondingEndHeight("gateway", params, sessionEndHeight),
  });
  return done(createMessage(gateway.MsgUnstakeGatewayResponseSchema));
}

function updateMetadata(
  ctx: Context,
  { address, metadata }: gateway.MsgUpdateGatewayMetadata,
): Outcome<gateway.MsgUpdateGatewayMetadataResponse> {
  const found = getGateway(ctx, address);
  if (found === undefined) {
    return failStatus("NotFound", wrapped(GATEWAY.notFound, `gateway with address ${address}`));
  }
  const answer = done(createMessage(gateway.MsgUpdateGatewayMetadataResponseSchema));
  const old = found.metadata?.card ?? new Uint8Array(0);
  // No card, and the card that is there already, change nothing and say nothing.
  if (metadata === undefined || Buffer.compare(old, metadata.card) === 0) return answer;
  setGateway(ctx, { ...found, metadata });
  emit(ctx, gateway.EventGatewayMetadataUpdatedSchema, {
    gatewayAddress: address,
    sessionEndHeight: sessionEnd(ctx),
    cardSizeBytes: BigInt(metadata.card.length),
  });
  return answer;
}

/** Handlers of the gateways' messages, by type URL. */
export function gatewayMessages({ authority }: GatewayOptions): Record<string, MessageHandler> {
  const handlers: readonly MessageHandler[] = [
    ...gatewayParamMessages(authority),
    messageHandler(gateway.MsgStakeGatewaySchema, gateway.MsgStakeGatewayResponseSchema, {
      signers: (message) => [message.address],
      validate: ({ address, stake }) =>
        gatewayAddressFault(address) ??
        stakeFault(stake, { kind: GATEWAY.invalidStake, who: "gateway", beforeDenom: "" }),
      run: stakeGateway,
    }),
    messageHandler(gateway.MsgUnstakeGatewaySchema, gateway.MsgUnstakeGatewayResponseSchema, {
      signers: (message) => [message.address],
      validate: ({ address }) => gatewayAddressFault(address),
      run: unstakeGateway,
    }),
    messageHandler(gateway.MsgUpdateGatewayMetadataSchema, gateway.MsgUpdateGatewayMetadataResponseSchema, {
      signers: (message) => [message.address],
      validate: ({ address, metadata }) => gatewayAddressFault(address) ?? metadataFault(metadata),
      run: updateMetadata,
    }),
  ];
  return Object.fromEntries(handlers.map((handler) => [typeUrlOf(handler.schema), handler]));
}
