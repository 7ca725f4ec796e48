import { createMessage, gateway } from "@turnpike/proto";
import { messageCodec, noKey, textCodec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";

/** Name of the module, of its part of the state, and of the account that holds its stakes. */
export const GATEWAY_MODULE = "gateway";

const module = GATEWAY_MODULE;

/** The parameters. */
export const gatewayParams = new Collection({
  module,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(gateway.ParamsSchema),
});
/** Gateways by bech32 address, their cards included. */
export const gateways = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: textCodec,
  value: messageCodec(gateway.GatewaySchema),
});

/** The parameters. */
export function getGatewayParams(ctx: Context): gateway.Params {
  return gatewayParams.get(ctx, undefined) ?? createMessage(gateway.ParamsSchema);
}

/** A gateway; undefined when there is none. */
export function getGateway(ctx: Context, address: string): gateway.Gateway | undefined {
  return gateways.get(ctx, address);
}

/** Writes a gateway, new or changed. */
export function setGateway(ctx: Context, changed: gateway.Gateway): void {
  gateways.set(ctx, changed.address, changed);
}
