import { createMessage, gateway } from "@turnpike/proto";
import { messageCodec, noKey, rawCodec, slashEndedTextCodec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { type Parsed, recordCodec } from "../../state/parsed.ts";

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
/** Gateways by bech32 address, their cards included. Written through {@link setGateway} alone, which keeps the index. */
export const gateways = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: slashEndedTextCodec,
  value: recordCodec(gateway.GatewaySchema),
  stored: { prefixBytes: "Gateway/address/".length },
});
/** Addresses of gateways that are unbonding. */
export const unstakingGateways = new Collection({
  module,
  prefix: Uint8Array.of(2),
  key: slashEndedTextCodec,
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

/** Writes a gateway, new or changed, and its entry in the index, which the real chain does not have: it costs no gas. */
export function setGateway(ctx: Context, changed: Parsed<gateway.Gateway>): void {
  gateways.set(ctx, changed.address, changed);
  const free = unmetered(ctx);
  const listed = unstakingGateways.has(free, changed.address);
  if (changed.unstakeSessionEndHeight !== 0n) {
    if (!listed) unstakingGateways.set(free, changed.address, NOTHING);
  } else if (listed) unstakingGateways.remove(free, changed.address);
}

/** Removes a gateway and its entry in the index. */
export function removeGateway(ctx: Context, address: string): void {
  gateways.remove(ctx, address);
  unstakingGateways.remove(ctx, address);
}

/** The gateways that are unbonding, in order of address. */
export function getUnstakingGateways(ctx: Context): Parsed<gateway.Gateway>[] {
  return [...unstakingGateways.entries(ctx)].flatMap(([address]) => getGateway(ctx, address) ?? []);
}
