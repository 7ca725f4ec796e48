import { type RpcType, rpcTypeOfNumber } from "@turnpike/protocol";

/** The type that an `Rpc-Type` names; undefined for none and for what is no type: the service's default is used then. */
export function rpcTypeOf(text: string | undefined): RpcType | undefined {
  const number = text?.trim();
  return number === undefined || !/^[1-9]$/.test(number) ? undefined : rpcTypeOfNumber(Number(number));
}
