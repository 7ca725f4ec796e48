import type { Config } from "./schema.ts";

/** True for a configuration of the chain's node or of a supplier that has nothing for a gateway to sell or give away. */
export function isChainAlone({ chain, payment, suppliers, supplier, protocol }: Config): boolean {
  const hasOther = chain.home !== undefined || supplier.keys.length > 0;
  const isGateway = payment.networks.length > 0 || Object.keys(suppliers).length > 0 || protocol.nodeUrl !== undefined;
  return hasOther && !isGateway;
}

/** Ports of the chain, when this configuration runs one. */
export function chainPorts({
  chain: { home, engine, rpc, rest, grpc, metrics },
}: Config): readonly { readonly path: string; readonly host: string; readonly port: number }[] {
  if (home === undefined) return [];
  return [
    // Under CometBFT the RPC is CometBFT's.
    ...(engine === "embedded" ? [{ path: "chain.rpc.port", ...rpc }] : []),
    { path: "chain.rest.port", ...rest },
    { path: "chain.grpc.port", ...grpc },
    ...(metrics.port === undefined ? [] : [{ path: "chain.metrics.port", host: metrics.host, port: metrics.port }]),
  ];
}

/** The chain: what each engine needs. */
export function chainFaults({ chain: { home, engine, abciAddress } }: Config): string[] {
  if (home === undefined || engine !== "cometbft" || /^(tcp|unix):\/\/./.test(abciAddress)) return [];
  return ["chain.abciAddress: expected tcp://host:port or unix:///path"];
}
