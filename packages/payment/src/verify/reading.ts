import { type Address, AppError } from "@turnpike/base";
import {
  CALLS,
  type Call3,
  decodeAggregate3,
  decodeBool,
  decodeQuantity,
  decodeRevert,
  decodeUint,
  encodeAggregate3,
  encodeAuthorizationState,
  encodeBalanceOf,
  type Hex,
  isHex,
  type Result3,
} from "../evm/abi.ts";
import { addressToTopic, decodeLogs, TOPIC_AUTHORIZATION_CANCELED } from "../evm/logs.ts";
import type { EvmRpc, RpcReply } from "../evm/rpc.ts";
import type { DecodedPayment, FundsAccount, PayerFundsReading, PaymentRefusal } from "../types.ts";
import type { ChainClock } from "./chain-time.ts";

/** One chain's means of verification, shared by its checkers. */
export interface ChainAccess {
  readonly rpc: EvmRpc;
  readonly multicall3: `0x${string}`;
  readonly chainTime: ChainClock;
  readonly marginSeconds: number;
  /** Sender and fees of a settlement, for the `eth_call` of a contract wallet; empty while nothing is known of them. */
  sender(): CallSender;
}

/** See {@link ChainAccess.sender}. */
export interface CallSender {
  readonly from?: Address;
  readonly maxFeePerGas?: Hex;
  readonly maxPriorityFeePerGas?: Hex;
}

/** The block that a simulation ran on. */
export interface SeenBlock {
  readonly number: bigint;
  readonly timestampSeconds: bigint;
}

/** What the chain says of one payment. */
export interface Reading {
  readonly block: SeenBlock;
  readonly balance: bigint;
  /** True when the nonce is used or cancelled. */
  readonly nonceUsed: boolean;
}

/** The calls that {@link readBlock} reads. */
export function blockCalls(multicall3: `0x${string}`): readonly Call3[] {
  return [
    { target: multicall3, allowFailure: false, callData: CALLS.getBlockNumber },
    { target: multicall3, allowFailure: false, callData: CALLS.getCurrentBlockTimestamp },
  ];
}

/** The calls that {@link readState} reads. A failure is allowed so that one payment cannot spoil the others. */
export function stateCalls({ option, authorization }: DecodedPayment): readonly Call3[] {
  const { from, nonce } = authorization;
  return [
    { target: option.asset, allowFailure: true, callData: encodeBalanceOf(from) },
    { target: option.asset, allowFailure: true, callData: encodeAuthorizationState(from, nonce) },
  ];
}

/** Reads the results of {@link blockCalls}, from which the estimate of the chain's time learns. */
export function readBlock(results: readonly Result3[], at: number, access: ChainAccess): SeenBlock {
  const number = decodeUint(results[at]?.returnData);
  const timestampSeconds = decodeUint(results[at + 1]?.returnData);
  if (number === undefined || timestampSeconds === undefined) throw oddAnswer(access, "multicall3");
  access.chainTime.sight(number, timestampSeconds);
  return { number, timestampSeconds };
}

/** Reads the results of {@link stateCalls}. */
export function readState(results: readonly Result3[], at: number, block: SeenBlock, access: ChainAccess): Reading {
  const [balanceResult, usedResult] = [results[at], results[at + 1]];
  const balance = balanceResult?.success === true ? decodeUint(balanceResult.returnData) : undefined;
  const nonceUsed = usedResult?.success === true ? decodeBool(usedResult.returnData) : undefined;
  if (balance === undefined || nonceUsed === undefined) throw oddAnswer(access, "token");
  return { block, balance, nonceUsed };
}

/** Gas for one call of {@link readFunds}: Multicall3's own, and what the token takes to return one value. */
const FUNDS_GAS = 200_000;
const FUNDS_GAS_PER_READ = 40_000;

/** Number of the latest blocks in which cancellations are looked for. */
const CANCELED_BLOCKS = 1_000n;

/**
 * Reads an account's balance and which of these nonces are used, in one block, and which of them were cancelled: these moved
 * no money. @throws AppError SETTLEMENT_UNAVAILABLE
 */
export async function readFunds(
  { asset, from }: Pick<FundsAccount, "asset" | "from">,
  nonces: readonly Hex[],
  access: ChainAccess,
): Promise<PayerFundsReading> {
  const reads = [encodeBalanceOf(from), ...nonces.map((nonce) => encodeAuthorizationState(from, nonce))];
  const calls = reads.map((callData): Call3 => ({ target: asset, allowFailure: false, callData }));
  const gas = quantity(FUNDS_GAS + FUNDS_GAS_PER_READ * calls.length);
  const call = { to: access.multicall3, data: encodeAggregate3(calls), gas };
  const [reply, height] = await access.rpc.batch([
    { method: "eth_call", params: [call, "latest"] },
    { method: "eth_blockNumber", params: [] },
  ]);
  const results = decodeAggregate3(callResult(reply, access), calls.length);
  const balance = decodeUint(results?.[0]?.returnData);
  const used = results?.slice(1).map(({ returnData }) => decodeBool(returnData));
  if (balance === undefined || used === undefined) throw oddAnswer(access, "token");
  const usedNonces = nonces.filter((_, at) => used[at] === true);
  const latest = height?.ok === true ? decodeQuantity(height.result) : undefined;
  const canceled = await readCanceled({ asset, from }, usedNonces, latest, access);
  return { balance, used: nonces.map((nonce, at) => used[at] === true && !canceled.has(nonce.toLowerCase())) };
}

/** Those of these nonces that the latest blocks' logs show as cancelled. A node that returns no logs shows none. */
async function readCanceled(
  { asset, from }: Pick<FundsAccount, "asset" | "from">,
  nonces: readonly Hex[],
  latest: bigint | undefined,
  { rpc }: ChainAccess,
): Promise<ReadonlySet<string>> {
  if (nonces.length === 0 || latest === undefined) return new Set();
  const fromBlock = latest > CANCELED_BLOCKS ? latest - CANCELED_BLOCKS : 0n;
  const topics = [TOPIC_AUTHORIZATION_CANCELED, addressToTopic(from), nonces];
  const filter = { address: asset, topics, fromBlock: `0x${fromBlock.toString(16)}`, toBlock: "latest" };
  const reply = await rpc.call("eth_getLogs", [filter]);
  const logs = reply.ok ? decodeLogs(reply.result) : undefined;
  return new Set(logs?.map(({ topics: [, , nonce = ""] }) => nonce));
}

/** The result of an `eth_call` that must succeed. @throws AppError SETTLEMENT_UNAVAILABLE */
export function callResult(reply: RpcReply | undefined, access: ChainAccess): Hex {
  if (reply?.ok === true && isHex(reply.result)) return reply.result;
  throw oddAnswer(access, "eth_call");
}

/** True when the reply of `eth_getCode` shows code. @throws AppError SETTLEMENT_UNAVAILABLE */
export function hasCode(reply: RpcReply | undefined, access: Pick<ChainAccess, "rpc">): boolean {
  if (reply?.ok === true && isHex(reply.result)) return reply.result.length > 2;
  throw oddAnswer(access, "eth_getCode");
}

/** What a simulated transfer came to. */
export interface Simulation {
  readonly ok: boolean;
  /** The token's own sentence where it gave one. */
  readonly reason: string | undefined;
}

/** Reads a simulated transfer from what it returned: a token without a result returns nothing, some return a bool. */
export function readSimulation(success: boolean, returnData: unknown): Simulation {
  if (!success) return { ok: false, reason: decodeRevert(returnData) };
  const returned = decodeUint(returnData);
  return { ok: returnData === "0x" || (returned !== undefined && returned !== 0n), reason: undefined };
}

/** Reads a simulated transfer from the reply of its own `eth_call`. */
export function replyToSimulation(reply: RpcReply | undefined, access: Pick<ChainAccess, "rpc">): Simulation {
  if (reply === undefined) throw oddAnswer(access, "eth_call");
  if (reply.ok) return readSimulation(true, reply.result);
  const revert = decodeRevert(revertData(reply.data));
  if (revert === undefined && reply.code !== 3 && !EXECUTION.test(reply.message)) throw oddAnswer(access, "eth_call");
  return { ok: false, reason: revert ?? reply.message };
}

// How nodes word that the call itself failed. Anything else is about the node: the payment is not blamed for it.
const EXECUTION = /revert|execution|out of gas|outofgas|gas required|opcode|stack|jump|evm/i;

// Nodes put a revert's data into `data` itself, or one level down.
function revertData(data: unknown): unknown {
  return typeof data === "object" && data !== null && "data" in data ? data.data : data;
}

/** A refusal. */
export function refuse(code: PaymentRefusal["code"]): PaymentRefusal {
  return { ok: false, code };
}

/**
 * What is known to be wrong beside the signature: the window against the chain's time now, the nonce, the balance.
 * The order is that of the token.
 */
export function faultOf(payment: DecodedPayment, reading: Reading, access: ChainAccess): PaymentRefusal | undefined {
  const { value, validBefore } = payment.authorization;
  if (reading.nonceUsed) return refuse("PAYMENT_NONCE_USED");
  if (Number(validBefore) < access.chainTime.nowSeconds() + access.marginSeconds) return refuse("PAYMENT_EXPIRED");
  if (reading.balance < value) return refuse("PAYMENT_INSUFFICIENT_FUNDS");
  return undefined;
}

/** True when the simulation ran on a block before the payment's window opened, so that its failure says nothing. */
export function ranTooEarly(payment: DecodedPayment, block: SeenBlock): boolean {
  return payment.authorization.validAfter >= block.timestampSeconds;
}

/** Simulates a transfer on the newest block as if it were made now, where the node can. */
export async function simulateNow(
  payment: DecodedPayment,
  callData: Hex,
  gas: number,
  access: ChainAccess,
  sender: CallSender = {},
): Promise<Simulation | undefined> {
  const opens = Number(payment.authorization.validAfter) + 1;
  const time = Math.max(Math.floor(access.chainTime.nowSeconds()), opens);
  const call = { ...sender, to: payment.option.asset, data: callData, gas: quantity(gas) };
  const reply = await access.rpc.call("eth_call", [call, "latest", {}, { time: quantity(time) }]);
  // A node without block overrides ignores or refuses them: then the payment must come again when its window is open.
  if (!reply.ok) return undefined;
  const simulation = readSimulation(true, reply.result);
  return simulation.ok ? simulation : undefined;
}

/** A JSON-RPC quantity. */
export function quantity(value: number): Hex {
  return `0x${value.toString(16)}`;
}

/** A node that answers what cannot be. */
export function oddAnswer(access: { readonly rpc: Pick<EvmRpc, "host"> }, what: string): AppError {
  return new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host: access.rpc.host, reason: `odd answer: ${what}` } });
}
