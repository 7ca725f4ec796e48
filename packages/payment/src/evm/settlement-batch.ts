import { type Address, AppError } from "@turnpike/base";
import { settlementBatch } from "../generated/contracts.ts";
import { type Hex, isHex } from "./abi.ts";
import type { EvmRpc, RpcReply } from "./rpc.ts";

/** Address of the contract SettlementBatch (contracts/SettlementBatch.sol) on every chain that has it. */
export const SETTLEMENT_BATCH_ADDRESS: Address = settlementBatch.address;

/** Code of the contract where it is deployed: the address alone shows nothing on a chain of unknown rules. */
export const SETTLEMENT_BATCH_CODE: Hex = settlementBatch.deployedBytecode;

/** The call that deploys the contract, which any account may send: to the proxy that most chains have for this. */
export const SETTLEMENT_BATCH_DEPLOYMENT: { readonly to: Address; readonly data: Hex } = settlementBatch.deployment;

/** `deployed`, or `deployable`; `missing`: the chain has no {@link SETTLEMENT_BATCH_DEPLOYMENT} either. */
export type BatchContractState = "deployed" | "deployable" | "missing";

/** Reads how a chain has the contract. @throws AppError SETTLEMENT_UNAVAILABLE when no node says. */
export async function readBatchContract(rpc: EvmRpc, signal?: AbortSignal): Promise<BatchContractState> {
  const addresses = [SETTLEMENT_BATCH_ADDRESS, SETTLEMENT_BATCH_DEPLOYMENT.to];
  const calls = addresses.map((address) => ({ method: "eth_getCode", params: [address, "latest"] }));
  const [contract, proxy] = (await rpc.batch(calls, signal)).map((reply) => codeOf(reply, rpc.host));
  if (contract === SETTLEMENT_BATCH_CODE) return "deployed";
  return proxy === "0x" ? "missing" : "deployable";
}

function codeOf(reply: RpcReply, host: string): string {
  if (reply.ok && isHex(reply.result)) return reply.result.toLowerCase();
  throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host, reason: "odd answer: eth_getCode" } });
}
