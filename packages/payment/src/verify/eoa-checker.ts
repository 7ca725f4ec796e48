import type { Clock, Metrics } from "@turnpike/base";
import { Batcher } from "../batcher.ts";
import type { BoundedMap } from "../bounded-map.ts";
import { decodeAggregate3, encodeAggregate3, encodeTransferVrs, type Result3 } from "../evm/abi.ts";
import type { RpcCall, RpcReply } from "../evm/rpc.ts";
import type { DecodedPayment, PaymentRefusal, Verification } from "../types.ts";
import { paymentVerificationBatchPayments } from "./metrics.ts";
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
  type SeenBlock,
  simulateNow,
  stateCalls,
} from "./reading.ts";

interface EoaCheckerOptions {
  /** Most payments in one exchange. */
  readonly maxBatch: number;
  /** Most exchanges at once. */
  readonly maxExchanges: number;
  /** Most payments that wait. */
  readonly maxQueued: number;
}

interface EoaCheckerModules {
  readonly access: ChainAccess;
  /** Accounts, in lower case, that had no code lately. */
  readonly noCode: BoundedMap<string, true>;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

interface Waiter {
  readonly payment: DecodedPayment;
  readonly payer: string;
  readonly resolve: (result: Verification | "code" | Promise<Verification>) => void;
  readonly reject: (error: unknown) => void;
}

/** What the chain answered to one exchange; `codes` by payer, of those that were asked for. */
interface Exchange {
  readonly block: SeenBlock;
  readonly states: readonly Result3[];
  readonly codes: ReadonlyMap<string, RpcReply | undefined>;
  readonly transfers: readonly (RpcReply | undefined)[];
}

/** A transfer by authorization takes up to 110,000 gas with a cold receiver; the rest is intrinsic gas and a margin. */
const TRANSFER_GAS = 200_000;
/** Multicall3's own gas, and what the token takes to return one payer's balance and nonce. */
const READ_GAS = 200_000;
const READ_GAS_PER_PAYMENT = 80_000;

/**
 * Checks payments of one chain whose signature recovers to the payer. Many share one exchange with the chain, and in it
 * one reading of the token; each transfer is simulated by an `eth_call` of its own: an account may have code (EIP-7702)
 * that burns all gas that it is given, and must not take it from the payments of others.
 */
export class EoaChecker {
  readonly #maxQueued: number;
  readonly #modules: EoaCheckerModules;
  readonly #batcher: Batcher<Waiter>;

  constructor(opts: EoaCheckerOptions, modules: EoaCheckerModules) {
    this.#maxQueued = opts.maxQueued;
    this.#modules = modules;
    const bounds = { maxBatch: opts.maxBatch, maxRunning: opts.maxExchanges };
    this.#batcher = new Batcher(bounds, (batch) => this.#check(batch));
  }

  /** `code` when the payer has code, and could pay: then only its wallet decides. */
  check(payment: DecodedPayment): Promise<Verification | "code"> {
    if (this.#batcher.waiting >= this.#maxQueued) return Promise.resolve(refuse("OVERLOADED"));
    const { promise, resolve, reject } = Promise.withResolvers<Verification | "code">();
    this.#batcher.add({ payment, payer: payment.authorization.from.toLowerCase(), resolve, reject });
    return promise;
  }

  async #check(batch: readonly Waiter[]): Promise<void> {
    this.#modules.metrics.observe(paymentVerificationBatchPayments, batch.length);
    try {
      const exchange = await this.#exchange(batch);
      for (const [index, waiter] of batch.entries()) {
        try {
          waiter.resolve(this.#verdict(waiter, index, exchange));
        } catch (error) {
          waiter.reject(error);
        }
      }
    } catch (error) {
      for (const waiter of batch) waiter.reject(error);
    }
  }

  /** Asks for the code of payers of whom it is not known, for block, balances and nonces, and simulates each transfer. */
  async #exchange(batch: readonly Waiter[]): Promise<Exchange> {
    const { access, noCode, clock } = this.#modules;
    const nowMs = clock.monotonicMs();
    const unknown = [...new Set(batch.map(({ payer }) => payer))].filter((payer) => !noCode.get(payer, nowMs));
    const calls: RpcCall[] = unknown.map((payer) => ({ method: "eth_getCode", params: [payer, "latest"] }));
    calls.push(this.#readsOf(batch), ...batch.map(({ payment }) => transferOf(payment)));
    const replies = await access.rpc.batch(calls);
    const states = decodeAggregate3(callResult(replies[unknown.length], access), 2 + 2 * batch.length);
    if (states === undefined) throw oddAnswer(access, "aggregate3");
    return {
      block: readBlock(states, 0, access),
      states,
      codes: new Map(unknown.map((payer, index) => [payer, replies[index]])),
      transfers: replies.slice(unknown.length + 1),
    };
  }

  #verdict(
    { payment, payer }: Waiter,
    index: number,
    { block, states, codes, transfers }: Exchange,
  ): Promise<Verification> | Verification | "code" {
    const { access, noCode, clock } = this.#modules;
    const reading = readState(states, 2 + 2 * index, block, access);
    const fault = faultOf(payment, reading, access);
    const isAsked = codes.has(payer);
    const isWallet = isAsked && hasCode(codes.get(payer), access);
    if (isAsked && !isWallet) noCode.set(payer, true, clock.monotonicMs());
    if (fault !== undefined) return fault;
    return isWallet ? "code" : this.#judge(payment, reading, transfers[index]);
  }

  /** One call that reads block, balances and nonces. It runs the code of the token and of Multicall3 only. */
  #readsOf(batch: readonly Waiter[]): RpcCall {
    const { multicall3 } = this.#modules.access;
    const calls = [...blockCalls(multicall3), ...batch.flatMap(({ payment }) => stateCalls(payment))];
    const gas = quantity(READ_GAS + READ_GAS_PER_PAYMENT * batch.length);
    return { method: "eth_call", params: [{ to: multicall3, data: encodeAggregate3(calls), gas }, "latest"] };
  }

  /** The verdict on a payment of an account without code that has the funds. */
  async #judge(
    payment: DecodedPayment,
    { block, balance }: Reading,
    reply: RpcReply | undefined,
  ): Promise<Verification> {
    const { access } = this.#modules;
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
}

function transferOf({ option, authorization, signature }: DecodedPayment): RpcCall {
  const data = encodeTransferVrs(authorization, signature);
  return { method: "eth_call", params: [{ to: option.asset, data, gas: quantity(TRANSFER_GAS) }, "latest"] };
}

/** The refusal for a transfer that the token does not make although nonce, window and balance are right. */
function toRefusal(reason: string | undefined): PaymentRefusal {
  return refuse(
    reason !== undefined && /signature/i.test(reason) ? "PAYMENT_SIGNATURE_INVALID" : "PAYMENT_SIMULATION_FAILED",
  );
}
