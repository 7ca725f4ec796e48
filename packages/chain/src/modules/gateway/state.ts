import { createMessage, gateway } from "@turnpike/proto";
import { messageCodec, noKey, pairCodec, rawCodec, slashEndedTextCodec, uint64Codec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { type Parsed, recordCodec } from "../../state/parsed.ts";
import { unfinishedEndCodec } from "../shared/session-end-queue.ts";

/** Name of the module, of its part of the state, and of the account that holds its stakes. */
export const GATEWAY_MODULE = "gateway";

/** The parameters that a chain has unless its genesis says otherwise. */
export const DEFAULT_GATEWAY_PARAMS: gateway.Params = createMessage(gateway.ParamsSchema, {
  minStake: { denom: "upokt", amount: "100" },
});

const module = GATEWAY_MODULE;
const NOTHING = new Uint8Array(0);

/** The parameters. */
export const gatewayParams = new Collection({
  module,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(gateway.ParamsSchema),
  stored: { prefixBytes: "p_gateway".length },
});
/** Gateways by bech32 address, their cards included. Written through {@link setGateway} alone, which keeps the indexes. */
export const gateways = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: slashEndedTextCodec,
  value: recordCodec(gateway.GatewaySchema),
  stored: { prefixBytes: "Gateway/address/".length },
});
/** Addresses of gateways that are unbonding, as an earlier version wrote them; see {@link unstakingGateways}. */
export const formerUnstaking = new Collection({
  module,
  prefix: Uint8Array.of(2),
  key: slashEndedTextCodec,
  value: rawCodec,
});
/** Gateways that are unbonding, by the last height of the session in which that began. */
export const unstakingGateways = new Collection({
  module,
  prefix: Uint8Array.of(3),
  key: pairCodec(uint64Codec, slashEndedTextCodec),
  value: rawCodec,
});
/** Point that blocks reached in {@link unstakingGateways}, while some of a session's end remain. */
export const unfinishedUnbonding = new Collection({
  module,
  prefix: Uint8Array.of(4),
  key: noKey,
  value: unfinishedEndCodec,
});
/**
 * Gateways whose delegations end behind a height, by that and their address, until none delegates to them. They stay here when
 * their stake is returned before.
 */
export const undelegatingGateways = new Collection({
  module,
  prefix: Uint8Array.of(5),
  key: pairCodec(uint64Codec, slashEndedTextCodec),
  value: rawCodec,
});

/** The parameters. */
export function getGatewayParams(ctx: Context): gateway.Params {
  return gatewayParams.get(ctx, undefined) ?? createMessage(gateway.ParamsSchema);
}

/** A gateway; undefined when there is none. */
export function getGateway(ctx: Context, address: string): Parsed<gateway.Gateway> | undefined {
  return gateways.get(ctx, address);
}

// The real chain has no such indexes: they cost no gas.
function keepIndexes(ctx: Context, address: string, was: bigint, is: bigint): void {
  if (was === is) return;
  const free = unmetered(ctx);
  if (was !== 0n) {
    unstakingGateways.remove(free, [was, address]);
    undelegatingGateways.remove(free, [was, address]);
  }
  if (is === 0n) return;
  unstakingGateways.set(free, [is, address], NOTHING);
  undelegatingGateways.set(free, [is, address], NOTHING);
}

/** Enters a gateway of a state that an earlier version made into the indexes. */
export function enterUnstaking(ctx: Context, address: string): void {
  keepIndexes(ctx, address, 0n, getGateway(ctx, address)?.unstakeSessionEndHeight ?? 0n);
}

/** Writes a gateway, new or changed, and its entries in the indexes. */
export function setGateway(ctx: Context, changed: Parsed<gateway.Gateway>): void {
  const old = getGateway(unmetered(ctx), changed.address);
  keepIndexes(ctx, changed.address, old?.unstakeSessionEndHeight ?? 0n, changed.unstakeSessionEndHeight);
  gateways.set(ctx, changed.address, changed);
}

/** Removes a gateway whose unbonding is over. Delegations to it that could not be ended yet still end. */
export function removeGateway(ctx: Context, found: Parsed<gateway.Gateway>): void {
  gateways.remove(ctx, found.address);
  unstakingGateways.remove(ctx, [found.unstakeSessionEndHeight, found.address]);
}
