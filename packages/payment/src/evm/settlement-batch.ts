import { type Address, AppError } from "@turnpike/base";
import { settlementBatch } from "../generated/contracts.ts";
import { decodeQuantity, type Hex, isHex } from "./abi.ts";
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

/** Maximum depth in blocks that a deployment must have: nodes that are no archives have the state of the last 128 blocks. */
const MAX_DEPTH = 100n;

/**
 * True when the chain had the contract this many blocks ago, or in its first block, so that no re-organisation takes it. False
 * when the node has no state of that block. @throws AppError SETTLEMENT_UNAVAILABLE when no node says.
 */
export async function hasFinalBatchContract(
  rpc: EvmRpc,
  finalityBlocks: number,
  signal: AbortSignal,
): Promise<boolean> {
  const reply = await rpc.call("eth_blockNumber", [], signal);
  const head = reply.ok ? decodeQuantity(reply.result) : undefined;
  if (head === undefined) throw oddAnswer(rpc.host, "eth_blockNumber");
  const depth = BigInt(finalityBlocks) < MAX_DEPTH ? BigInt(finalityBlocks) : MAX_DEPTH;
  const block: Hex = `0x${(head > depth ? head - depth : 0n).toString(16)}`;
  const code = await rpc.call("eth_getCode", [SETTLEMENT_BATCH_ADDRESS, block], signal);
  return code.ok && codeOf(code, rpc.host) === SETTLEMENT_BATCH_CODE;
}

function codeOf(reply: RpcReply, host: string): string {
  if (reply.ok && isHex(reply.result)) return reply.result.toLowerCase();
  throw oddAnswer(host, "eth_getCode");
}

function oddAnswer(host: string, method: string): AppError {
  return new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host, reason: `odd answer: ${method}` } });
}
