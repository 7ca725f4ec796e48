import { type Address, AppError } from "@turnpike/base";
import { decodeAggregate3 } from "../evm/abi.ts";
import type { EvmRpc } from "../evm/rpc.ts";
import type { PaymentRecord } from "../types.ts";
import type { BackOff } from "../verify/back-off.ts";
import { readSimulation, replyToSimulation } from "../verify/reading.ts";
import { type GasPolicy, type SettlementCall, settlementCall, settlementGas } from "./calls.ts";
import type { Head } from "./chain.ts";
import type { Fees } from "./fees.ts";
import type { QueueItem } from "./queue.ts";

/** Options of {@link movable}: what the transaction is going to be. */
export interface SimulationOptions {
  readonly multicall3: Address;
  readonly relayer: Address;
  readonly gas: GasPolicy;
  readonly fees: Fees;
  readonly head: Head;
  /** Longest wait for the chain's answer about one payment. */
  readonly timeoutMs: number;
}

/**
 * True when the transaction that settles a contract wallet's payment would move its money now: with the sender, the gas
 * and the fees that it is going to have, so that the wallet cannot tell. @throws AppError SETTLEMENT_UNAVAILABLE when
 * the chain does not say.
 */
async function simulates(
  payment: PaymentRecord,
  opts: SimulationOptions,
  rpc: EvmRpc,
  signal: AbortSignal,
): Promise<boolean> {
  const call = settlementCall([payment], opts.multicall3, opts.relayer);
  const request = {
    from: opts.relayer,
    to: call.to,
    data: call.data,
    gas: hex(settlementGas([payment], opts.gas)),
    maxFeePerGas: hex(opts.fees.maxFeePerGas),
    maxPriorityFeePerGas: hex(opts.fees.maxPriorityFeePerGas),
  };
  // A chain that makes no blocks while idle may stand before the window, which the next block is in.
  const opens = payment.validAfter + 1n;
  const early = opens > BigInt(opts.head.timeSeconds);
  const params = early ? [request, "latest", {}, { time: hex(opens) }] : [request, "latest"];
  const reply = await rpc.call("eth_call", params, signal);
  if (!reply.ok || isDirect(call, payment)) return replyToSimulation(reply, { rpc }).ok;
  const results = decodeAggregate3(reply.result, payment.kind === "erc6492" ? 2 : 1);
  const moved = results?.at(-1);
  if (moved === undefined) throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host: rpc.host } });
  return readSimulation(moved.success, moved.returnData).ok;
}

/**
 * Those that would still move money: a wallet may have changed its mind since it was verified. Plain accounts are not
 * asked again. @throws AppError SETTLEMENT_UNAVAILABLE when the chain does not say.
 */
export async function movable(
  items: readonly QueueItem[],
  opts: SimulationOptions,
  modules: { readonly rpc: EvmRpc; readonly backOff: BackOff | undefined; readonly signal: AbortSignal },
): Promise<readonly QueueItem[]> {
  const good: QueueItem[] = [];
  for (const item of items) {
    const { payment } = item;
    const limit = AbortSignal.any([modules.signal, AbortSignal.timeout(opts.timeoutMs)]);
    if (payment.kind === "eoa" || (await simulates(payment, opts, modules.rpc, limit))) good.push(item);
    // One that is sent a second time has been counted when its transaction was mined in vain.
    else if (payment.state === "claimed") modules.backOff?.failed(payment);
  }
  return good;
}

function isDirect({ to }: SettlementCall, { key }: PaymentRecord): boolean {
  return to.toLowerCase() === key.asset.toLowerCase();
}

function hex(value: bigint): `0x${string}` {
  return `0x${value.toString(16)}`;
}
