import { AppError, type Clock, type Metrics } from "@turnpike/base";
import { type Call3, decodeAggregate3, encodeAggregate3, encodeTransferVrs } from "../evm/abi.ts";
import type { RpcCall } from "../evm/rpc.ts";
import type { DecodedPayment, PaymentRefusal, Verification } from "../types.ts";
import type { BoundedMap } from "./bounded-map.ts";
import { verificationBatch } from "./metrics.ts";
import {
  blockCalls,
  type ChainAccess,
  callResult,
  faultOf,
  hasCode,
  quantity,
  ranTooEarly,
  readBlock,
  readSimulation,
  readState,
  refuse,
  simulateNow,
  stateCalls,
} from "./reading.ts";

/** Checks payments whose signature recovers to the payer; many share one exchange with the chain. */
export interface EoaChecker {
  /** `code` when the payer has code: then only its wallet decides. */
  check(payment: DecodedPayment): Promise<Verification | "code">;
}

/** Options of {@link createEoaChecker}. */
export interface EoaCheckerOptions {
  /** Most payments in one exchange. */
  readonly maxBatch: number;
  /** Most exchanges at once. */
  readonly maxExchanges: number;
  /** Most payments that wait. */
  readonly maxQueued: number;
}

interface Waiter {
  readonly payment: DecodedPayment;
  readonly payer: string;
  readonly resolve: (result: Verification | "code") => void;
  readonly reject: (error: unknown) => void;
}

// A transfer by authorization takes up to 110,000 gas with a cold receiver; the rest is the two reads.
const GAS_BASE = 200_000;
const GAS_PER_PAYMENT = 200_000;

/** Makes the checker of one chain. */
export function createEoaChecker(
  opts: EoaCheckerOptions,
  modules: {
    readonly access: ChainAccess;
    /** Accounts, in lower case, that had no code lately. */
    readonly noCode: BoundedMap<string, true>;
    readonly clock: Clock;
    readonly metrics: Metrics;
  },
): EoaChecker {
  const { access, noCode, clock, metrics } = modules;
  let waiting: Waiter[] = [];
  let running = 0;
  let scheduled = false;

  function schedule(): void {
    if (scheduled || waiting.length === 0 || running >= opts.maxExchanges) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      while (waiting.length > 0 && running < opts.maxExchanges) {
        const batch = waiting.slice(0, opts.maxBatch);
        waiting = waiting.slice(opts.maxBatch);
        running++;
        void exchange(batch).finally(() => {
          running--;
          schedule();
        });
      }
    });
  }

  async function exchange(batch: readonly Waiter[]): Promise<void> {
    metrics.observe(verificationBatch, batch.length);
    try {
      const nowMs = clock.monotonicMs();
      const unknown = [...new Set(batch.map(({ payer }) => payer))].filter((payer) => !noCode.get(payer, nowMs));
      const lanes = toLanes(batch);
      const calls: RpcCall[] = unknown.map((payer) => ({ method: "eth_getCode", params: [payer, "latest"] }));
      for (const lane of lanes) calls.push(laneCall(lane));
      const replies = await access.rpc.batch(calls);
      const withCode = new Set<string>();
      for (const [index, payer] of unknown.entries()) {
        if (hasCode(replies[index], access)) withCode.add(payer);
        else noCode.set(payer, true, clock.monotonicMs());
      }
      for (const [index, lane] of lanes.entries()) {
        finish(lane, callResult(replies[unknown.length + index], access), withCode);
      }
    } catch (error) {
      for (const waiter of batch) waiter.reject(error);
    }
  }

  function laneCall(lane: readonly Waiter[]): RpcCall {
    const calls: Call3[] = [...blockCalls(access.multicall3)];
    // All reads come before all transfers: what is simulated must not change what is read.
    for (const { payment } of lane) calls.push(...stateCalls(payment));
    for (const { payment } of lane) {
      calls.push({
        target: payment.option.asset,
        allowFailure: true,
        callData: encodeTransferVrs(payment.authorization, payment.signature),
      });
    }
    const gas = quantity(GAS_BASE + GAS_PER_PAYMENT * lane.length);
    return { method: "eth_call", params: [{ to: access.multicall3, data: encodeAggregate3(calls), gas }, "latest"] };
  }

  function finish(lane: readonly Waiter[], data: unknown, withCode: ReadonlySet<string>): void {
    const results = decodeAggregate3(data, 2 + 3 * lane.length);
    if (results === undefined) throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host: access.rpc.host } });
    const block = readBlock(results, 0, access);
    for (const [index, waiter] of lane.entries()) {
      if (withCode.has(waiter.payer)) {
        waiter.resolve("code");
        continue;
      }
      const { payment } = waiter;
      const reading = readState(results, 2 + 2 * index, block, access);
      const transfer = results[2 + 2 * lane.length + index];
      const simulation = readSimulation(transfer?.success === true, transfer?.returnData);
      const verified = (): Verification => ({
        ok: true,
        payment,
        kind: "eoa",
        balance: reading.balance,
        blockNumber: block.number,
        chainTimeSeconds: Math.floor(access.chainTime.nowSeconds()),
      });
      const fault = faultOf(payment, reading, access);
      if (fault !== undefined) waiter.resolve(fault);
      else if (simulation.ok) waiter.resolve(verified());
      else if (ranTooEarly(payment, block)) {
        const callData = encodeTransferVrs(payment.authorization, payment.signature);
        simulateNow(payment, callData, GAS_PER_PAYMENT, access).then(
          (again) => waiter.resolve(again === undefined ? refuse("PAYMENT_NOT_YET_VALID") : verified()),
          waiter.reject,
        );
      } else waiter.resolve(toRefusal(simulation.reason));
    }
  }

  return {
    check(payment) {
      if (waiting.length >= opts.maxQueued) return Promise.resolve(refuse("OVERLOADED"));
      const { promise, resolve, reject } = Promise.withResolvers<Verification | "code">();
      waiting.push({ payment, payer: payment.authorization.from.toLowerCase(), resolve, reject });
      schedule();
      return promise;
    },
  };
}

/** Splits a batch so that no lane has two payments of one payer: simulated together, they would see each other. */
function toLanes(batch: readonly Waiter[]): readonly (readonly Waiter[])[] {
  const lanes: Waiter[][] = [];
  const counts = new Map<string, number>();
  for (const waiter of batch) {
    const lane = counts.get(waiter.payer) ?? 0;
    counts.set(waiter.payer, lane + 1);
    const found = lanes[lane];
    if (found === undefined) lanes.push([waiter]);
    else found.push(waiter);
  }
  return lanes;
}

/** The refusal for a transfer that the token does not make although nonce, window and balance are right. */
function toRefusal(reason: string | undefined): PaymentRefusal {
  return refuse(
    reason !== undefined && /signature/i.test(reason) ? "PAYMENT_SIGNATURE_INVALID" : "PAYMENT_SIMULATION_FAILED",
  );
}
