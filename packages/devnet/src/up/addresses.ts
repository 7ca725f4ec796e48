import type { UpPorts } from "../ports.ts";

/** Address of the local EVM chain. */
export function evmUrl(ports: UpPorts): string {
  return `http://127.0.0.1:${ports.evm}`;
}

/** Address of the local EVM chain's WebSocket. */
export function evmSocketUrl(ports: UpPorts): string {
  return `ws://127.0.0.1:${ports.evm}`;
}

/** Address of the RPC of the relay protocol's chain. */
export function chainRpcUrl(ports: UpPorts): string {
  return `http://127.0.0.1:${ports.chainRpc}`;
}

/** Addresses of the three suppliers' relay servers. */
export function supplierUrls(ports: UpPorts): readonly [string, string, string] {
  const at = (port: number): string => `http://127.0.0.1:${port}`;
  return [at(ports.supplier1), at(ports.supplier2), at(ports.supplier3)];
}
