import type { RpcType } from "./stages.ts";

/** RPC types by their number on the wire (`pocket.shared.RPCType`, the `Rpc-Type` header in decimal). */
export const RPC_TYPE_NUMBERS: Readonly<Record<RpcType, number>> = {
  grpc: 1,
  websocket: 2,
  json_rpc: 3,
  rest: 4,
  comet_bft: 5,
};

const BY_NUMBER: ReadonlyMap<number, RpcType> = new Map(
  Object.entries(RPC_TYPE_NUMBERS).map(([name, number]) => [number, name as RpcType]),
);

/** The RPC type of a number on the wire; undefined for none that is known. */
export function rpcTypeOfNumber(number: number): RpcType | undefined {
  return BY_NUMBER.get(number);
}
