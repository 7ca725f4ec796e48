import type { RpcType } from "@turnpike/protocol";

/** RPC types by their number on the wire (`pocket.shared.RPCType`, the `Rpc-Type` header). */
const BY_NUMBER: Readonly<Record<string, RpcType>> = {
  "1": "grpc",
  "2": "websocket",
  "3": "json_rpc",
  "4": "rest",
  "5": "comet_bft",
};

/** The type that an `Rpc-Type` names; undefined for none and for what is no type: the service's default is used then. */
export function rpcTypeOf(text: string | undefined): RpcType | undefined {
  return text === undefined ? undefined : BY_NUMBER[text.trim()];
}
