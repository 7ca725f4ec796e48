import type { EvmRpc } from "../src/evm/rpc.ts";

/** The RPC `rpc` with some members replaced; the replacements may ask `rpc` itself. */
export function overrideRpc(rpc: EvmRpc, members: Partial<EvmRpc>): EvmRpc {
  return {
    nodes: rpc.nodes,
    host: rpc.host,
    call: (method, params, signal) => rpc.call(method, params, signal),
    batch: (calls, signal) => rpc.batch(calls, signal),
    [Symbol.asyncDispose]: () => rpc[Symbol.asyncDispose](),
    ...members,
  };
}
