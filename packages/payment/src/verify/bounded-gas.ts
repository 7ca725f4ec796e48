import { randomBytes } from "node:crypto";
import { type Address, bytesToHex0x } from "@turnpike/base";
import { CALLS, decodeBool, decodeQuantity, decodeUint, encodeAuthorizationState, type Hex } from "../evm/abi.ts";
import type { EvmRpc, RpcCall, RpcReply } from "../evm/rpc.ts";
import type { PaymentKey } from "../types.ts";
import { replyToSimulation, type Simulation } from "./reading.ts";

type CallRequest = Readonly<Record<string, unknown>>;

/** A settlement that runs its payer's code, as `eth_call` and `eth_estimateGas` take it. */
export interface CodeRun {
  /** Without gas. */
  readonly call: CallRequest;
  /** The same, but as one that reverts when a part of it fails: of the other the estimate is too low. */
  readonly strictCall: CallRequest;
  /** Reads the reply of `call`. */
  readonly read: (reply: RpcReply | undefined) => Simulation;
  readonly key: PaymentKey;
  /** Unix seconds. */
  readonly validAfter: bigint;
  /** Unix seconds. */
  readonly validBefore: bigint;
}

/** Bounds of a {@link CodeRun}, and the block that its simulations start from. */
export interface CodeRunBounds {
  /** Maximum gas limit. */
  readonly maxGas: bigint;
  readonly block: { readonly number: bigint; readonly timeSeconds: number };
  readonly multicall3: Address;
}

/** Gas of a settlement in every simulated block. */
export interface BoundedGas {
  readonly estimate: bigint;
  /** Gas limit of its transaction: all that it can lose. */
  readonly limit: bigint;
  /** False when the node ignores block overrides, so that only its newest and its pending block were simulated. */
  readonly areBlocksVaried: boolean;
}

/** Part of the estimate, and gas, that the limit is above it: a receiver's first balance costs 17,100 more (EIP-2200). */
const MARGIN_DIVISOR = 8n;
const MARGIN_GAS = 8_000n;
/** Number of an override that shows whether the node applies overrides. */
const PROBED_NUMBER = 0x7f00_0000n;

/**
 * Returns the gas of a settlement that runs its payer's code; undefined when that code refuses in any of the blocks that may
 * come, or needs more there than in the newest. The code could accept in simulations alone: by the block's number, time,
 * producer, randomness or base fee. @throws AppError SETTLEMENT_UNAVAILABLE when the node could not run the calls.
 */
export async function boundGas(
  run: CodeRun,
  bounds: CodeRunBounds,
  { rpc, signal }: { readonly rpc: EvmRpc; readonly signal?: AbortSignal },
): Promise<BoundedGas | undefined> {
  const [estimated, probed] = await rpc.batch([estimateCall(run, bounds), probeCall(bounds)], signal);
  const estimate = estimated?.ok === true ? decodeQuantity(estimated.result) : undefined;
  if (estimate === undefined) {
    // Throws when the failure is the node's own.
    replyToSimulation(estimated, { rpc });
    return undefined;
  }
  const withMargin = estimate + estimate / MARGIN_DIVISOR + MARGIN_GAS;
  const limit = withMargin < bounds.maxGas ? withMargin : bounds.maxGas;
  const areBlocksVaried = probed?.ok === true && decodeUint(probed.result) === PROBED_NUMBER;
  const request = { ...run.call, gas: hexOf(limit) };
  const variants = areBlocksVaried ? blockVariants(run, bounds) : [timeOverride(run, bounds)];
  const [pending, pendingUse, ...replies] = await rpc.batch(
    [
      { method: "eth_call", params: [request, "pending"] },
      useCall(run.key),
      ...variants.map((overrides) => overriddenCall(request, overrides)),
    ],
    signal,
  );
  for (const reply of replies) if (!run.read(reply).ok) return undefined;
  return refusesPending(run, pending, pendingUse) ? undefined : { estimate, limit, areBlocksVaried };
}

/**
 * True when the code refuses in the pending block. Not every node has one, and one in which a third party has submitted the
 * authorization pays.
 */
function refusesPending({ read }: CodeRun, pending: RpcReply | undefined, use: RpcReply | undefined): boolean {
  try {
    if (read(pending).ok) return false;
  } catch {
    return false;
  }
  return use?.ok !== true || decodeBool(use.result) !== true;
}

/**
 * A few blocks that may come. Number, time, randomness and producer are complemented independently, so that neither a single bit
 * of them nor the parity of bits of several is the same in all.
 */
function blockVariants(run: CodeRun, { block }: CodeRunBounds): readonly CallRequest[] {
  const random = randomBytes(32);
  const producer = randomBytes(20);
  const at = (blocks: number, seconds: number, isRandomFlipped: boolean, isProducerFlipped: boolean): CallRequest => ({
    number: hexOf(block.number + BigInt(blocks)),
    time: hexOf(timeWithin(run, BigInt(block.timeSeconds + seconds))),
    prevRandao: bytesToHex0x(isRandomFlipped ? flipped(random) : random),
    feeRecipient: bytesToHex0x(isProducerFlipped ? flipped(producer) : producer),
  });
  // The first keeps the producer and the randomness of the node's own block.
  const { number, time } = at(1, 1, false, false);
  return [
    { number, time },
    at(2, 2, false, false),
    at(1, 2, true, false),
    at(3, 5, false, true),
    at(4, 12, true, true),
    at(1, 2, false, false),
  ];
}

/** A time that the payment's window contains; the block's own where that is in it. */
function timeWithin({ validAfter, validBefore }: CodeRun, seconds: bigint): bigint {
  const latest = validBefore - 1n;
  const time = seconds < latest ? seconds : latest;
  return time > validAfter ? time : validAfter + 1n;
}

/** An override only where the window is not open in the newest block: a chain may make no block while it is idle. */
function timeOverride(run: CodeRun, { block }: CodeRunBounds): CallRequest {
  return run.validAfter >= BigInt(block.timeSeconds) ? { time: hexOf(run.validAfter + 1n) } : {};
}

function overriddenCall(request: CallRequest, overrides: CallRequest): RpcCall {
  const hasOverrides = Object.keys(overrides).length > 0;
  return { method: "eth_call", params: [request, "latest", ...(hasOverrides ? [{}, overrides] : [])] };
}

function estimateCall(run: CodeRun, bounds: CodeRunBounds): RpcCall {
  const overrides = timeOverride(run, bounds);
  const hasOverrides = Object.keys(overrides).length > 0;
  const request = { ...run.strictCall, gas: hexOf(bounds.maxGas) };
  return { method: "eth_estimateGas", params: [request, "latest", ...(hasOverrides ? [{}, overrides] : [])] };
}

function probeCall({ multicall3 }: CodeRunBounds): RpcCall {
  const request = { to: multicall3, data: CALLS.getBlockNumber };
  return { method: "eth_call", params: [request, "latest", {}, { number: hexOf(PROBED_NUMBER) }] };
}

function useCall({ asset, from, nonce }: PaymentKey): RpcCall {
  return { method: "eth_call", params: [{ to: asset, data: encodeAuthorizationState(from, nonce) }, "pending"] };
}

function flipped(bytes: Uint8Array): Uint8Array {
  return bytes.map((byte) => byte ^ 0xff);
}

function hexOf(value: bigint): Hex {
  return `0x${value.toString(16)}`;
}
