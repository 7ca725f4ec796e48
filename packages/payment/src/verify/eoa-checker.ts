import type { Clock, Metrics } from "@turnpike/base";
import { decodeAggregate3, encodeAggregate3, encodeTransferVrs } from "../evm/abi.ts";
import type { RpcCall, RpcReply } from "../evm/rpc.ts";
import type { DecodedPayment, PaymentRefusal, Verification } from "../types.ts";
import type { BoundedMap } from "./bounded-map.ts";
import { verificationBatch } from "./metrics.ts";
import {
  blockCalls,
  type ChainAccess,
  callResult,
  faultOf,
  hasCode,
  oddAnswer,
  quantity,
  type Reading,
  ranTooEarly,
  readBlock,
  readState,
  refuse,
  replyToSimulation,
  simulateNow,
  stateCalls,
} from "./reading.ts";

/**
 * Checks payments whose signature recovers to the payer. Many share one exchange with the chain, and in it one reading of
 * the token; each transfer is simulated by an `eth_call` of its own: an account may have code (EIP-7702) that burns all
 * gas that it is given, and must not take it from the payments of others.
 */
export interface EoaChecker {
  /** `code` when the payer has code, and could pay: then only its wallet decides. */
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

/** A transfer by authorization takes up to 110,000 gas with a cold receiver; the rest is intrinsic gas and a margin. */
const TRANSFER_GAS = 200_000;
/** Multicall3's own gas, and what the token takes to tell one payer's balance and nonce. */
const READ_GAS = 200_000;
const READ_GAS_PER_PAYMENT = 80_000;

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
      const calls: RpcCall[] = unknown.map((payer) => ({ method: "eth_getCode", params: [payer, "latest"] }));
      calls.push(readsOf(batch), ...batch.map(({ payment }) => transferOf(payment)));
      const replies = await access.rpc.batch(calls);
      const codes = new Map(unknown.map((payer, index) => [payer, replies[index]]));
      const results = decodeAggregate3(callResult(replies[unknown.length], access), 2 + 2 * batch.length);
      if (results === undefined) throw oddAnswer(access, "aggregate3");
      const block = readBlock(results, 0, access);
      for (const [index, waiter] of batch.entries()) {
        const { payment } = waiter;
        try {
          const reading = readState(results, 2 + 2 * index, block, access);
          const fault = faultOf(payment, reading, access);
          const isAsked = codes.has(waiter.payer);
          const isWallet = isAsked && hasCode(codes.get(waiter.payer), access);
          if (isAsked && !isWallet) noCode.set(waiter.payer, true, clock.monotonicMs());
          if (fault !== undefined) waiter.resolve(fault);
          else if (isWallet) waiter.resolve("code");
          else judge(payment, reading, replies[unknown.length + 1 + index]).then(waiter.resolve, waiter.reject);
        } catch (error) {
          waiter.reject(error);
        }
      }
    } catch (error) {
      for (const waiter of batch) waiter.reject(error);
    }
  }

  /** One call that reads block, balances and nonces. It runs the code of the token and of Multicall3 only. */
  function readsOf(batch: readonly Waiter[]): RpcCall {
    const calls = [...blockCalls(access.multicall3), ...batch.flatMap(({ payment }) => stateCalls(payment))];
    const gas = quantity(READ_GAS + READ_GAS_PER_PAYMENT * batch.length);
    return { method: "eth_call", params: [{ to: access.multicall3, data: encodeAggregate3(calls), gas }, "latest"] };
  }

  function transferOf({ option, authorization, signature }: DecodedPayment): RpcCall {
    const data = encodeTransferVrs(authorization, signature);
    return { method: "eth_call", params: [{ to: option.asset, data, gas: quantity(TRANSFER_GAS) }, "latest"] };
  }

  /** The verdict on a payment of an account without code that has the funds. */
  async function judge(
    payment: DecodedPayment,
    { block, balance }: Reading,
    reply: RpcReply | undefined,
  ): Promise<Verification> {
    const simulation = replyToSimulation(reply, access);
    if (!simulation.ok) {
      if (!ranTooEarly(payment, block)) return toRefusal(simulation.reason);
      const callData = encodeTransferVrs(payment.authorization, payment.signature);
      const again = await simulateNow(payment, callData, TRANSFER_GAS, access);
      if (again === undefined) return refuse("PAYMENT_NOT_YET_VALID");
    }
    const chainTimeSeconds = Math.floor(access.chainTime.nowSeconds());
    return { ok: true, payment, kind: "eoa", balance, blockNumber: block.number, chainTimeSeconds };
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

/** The refusal for a transfer that the token does not make although nonce, window and balance are right. */
function toRefusal(reason: string | undefined): PaymentRefusal {
  return refuse(
    reason !== undefined && /signature/i.test(reason) ? "PAYMENT_SIGNATURE_INVALID" : "PAYMENT_SIMULATION_FAILED",
  );
}
