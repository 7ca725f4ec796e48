import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import {
  type Address,
  AppError,
  type Clock,
  type ErrorCode,
  isRecord,
  type NetworkId,
  noMetrics,
  silentLog,
  systemClock,
} from "@turnpike/base";
import { Facilitator, type FacilitatorOptions } from "../src/facilitator/facilitator.ts";
import type { Ledger } from "../src/ledger-types.ts";
import type { Sale, Settler } from "../src/settler.ts";
import type { DecodedPayment, PayerKind, PaymentRecord, PaymentRefusal } from "../src/types.ts";
import { newAnswer, newEvidence } from "./ledger-fixtures.ts";

export const NETWORK = "eip155:84532" as NetworkId;
export const ASSET: Address = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const EXTRA = { name: "USDC", version: "2" };
export const MERCHANTS = [
  "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  "0x00000000000000000000000000000000000000bB",
] as const;
/** Limits that no test reaches. */
const ROOMY = { burst: 100_000, perSecond: 1 };

/** Stands in for the chain: every payment is good, unless `refusal` says otherwise. */
function standInVerifier(
  bench: () => Pick<FacilitatorBench, "refusal" | "fault" | "balance" | "gas" | "hasLeft" | "onCheck" | "wallets">,
) {
  return {
    checkFree: async () => ({ ok: true as const, signer: "payer" as const }),
    checkSigner: async () => ({ ok: true as const, signer: "payer" as const }),
    checkChain: async (payment: DecodedPayment) => {
      await bench().onCheck?.();
      const { refusal, fault, balance, gas, wallets } = bench();
      if (fault !== undefined) throw fault;
      const isWallet = gas !== undefined || wallets.has(payment.authorization.from.toLowerCase());
      const kind: PayerKind = isWallet ? "erc1271" : "eoa";
      const good = {
        ok: true as const,
        payment,
        kind,
        ...(gas === undefined ? {} : { gas }),
        balance,
        blockNumber: 1n,
      };
      return refusal ?? { ...good, chainTimeSeconds: Date.now() / 1_000 };
    },
    readFunds: async (_account: unknown, nonces: readonly string[]) => {
      const { balance, hasLeft } = bench();
      return { balance, used: nonces.map((nonce) => hasLeft.has(nonce)) };
    },
  };
}

/** Stands in for the settlement engine: commits, and settles when the test says so. */
export class StandInSettler implements Settler {
  readonly #ledger: Ledger;
  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }
  readonly networks = [NETWORK];
  /** Nonces whose settlement stays open until {@link finish}. */
  readonly held = new Set<string>();
  /** Runs in place of a settlement, which then ends without a commit. */
  instead: ((payment: PaymentRecord) => Promise<void>) | undefined;
  /** What every sale is refused with. */
  refused: PaymentRefusal | undefined;
  /** Sales whose refusal was asked for. */
  readonly sales: Sale[] = [];
  refusal = (sale: Sale) => {
    this.sales.push(sale);
    return this.refused;
  };
  readonly #waiting = new Map<string, Set<() => void>>();
  async settle(payment: PaymentRecord, _answer: unknown, signal: AbortSignal) {
    if (this.instead !== undefined) await this.instead(payment);
    else {
      await this.#ledger.journalSubmission(payment.id, newAnswer());
      if (this.held.has(payment.key.nonce)) await this.wait(payment, signal);
      else await this.finish(payment);
    }
    return undefined;
  }
  async finish({ id }: Pick<PaymentRecord, "id">) {
    await this.#ledger.settled(id, newEvidence());
    for (const resolve of this.#waiting.get(id) ?? []) resolve();
  }
  /** How many wait for the end of a payment. */
  waiting({ id }: Pick<PaymentRecord, "id">): number {
    return this.#waiting.get(id)?.size ?? 0;
  }
  wait({ id }: PaymentRecord, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.set(id, (this.#waiting.get(id) ?? new Set()).add(resolve));
    signal.addEventListener("abort", () => resolve(), { once: true });
    if (signal.aborted) resolve();
    return promise;
  }
  reserve: Settler["reserve"] = async () => undefined;
  missing = () => [];
  async [Symbol.asyncDispose]() {}
}

/** What of {@link openFacilitator} a test bends. */
export interface FacilitatorBend extends Partial<FacilitatorOptions> {
  readonly clock?: Clock;
  readonly onFound?: () => void;
}

/** A facilitator on stand-ins, and what a test does to them. */
export interface FacilitatorBench {
  readonly settler: StandInSettler;
  readonly facilitator: Facilitator;
  /** What the chain says of every payment; undefined: it is good. */
  refusal: PaymentRefusal | undefined;
  /** What looking at the chain throws. */
  fault: Error | undefined;
  /** Runs before the chain is looked at for a payment. */
  onCheck: (() => Promise<void>) | undefined;
  /** Balance of every payer. */
  balance: bigint;
  /** Estimated gas of every settlement, whose payers are contract wallets then. */
  gas: bigint | undefined;
  /** Nonces that the chain has used. */
  readonly hasLeft: Set<string>;
  /** Payers that are contract wallets, in lower case. */
  readonly wallets: Set<string>;
}

/** Opens a facilitator whose chain and settler are stand-ins. */
export function openFacilitator(ledger: Ledger, bend: FacilitatorBend = {}): FacilitatorBench {
  const settler = new StandInSettler(ledger);
  const { onFound, clock = systemClock, ...limits } = bend;
  const find: Ledger["find"] = async (key) => {
    const found = await ledger.find(key);
    onFound?.();
    return found;
  };
  const opts = {
    assets: [{ network: NETWORK, address: ASSET, ...EXTRA }],
    minAmountUnits: 1_000n,
    settleWaitMs: 60_000,
    unpaidPerClient: () => ROOMY,
    unpaidPerPayer: () => ROOMY,
    ...limits,
  };
  const verifier = standInVerifier(() => bench);
  const modules = { verifier, ledger: { ...ledger, find }, settler, clock, log: silentLog, metrics: noMetrics };
  const bench: FacilitatorBench = {
    settler,
    facilitator: new Facilitator(opts, modules),
    refusal: undefined,
    fault: undefined,
    onCheck: undefined,
    balance: 1_000_000n,
    gas: undefined,
    hasLeft: new Set(),
    wallets: new Set(),
  };
  return bench;
}

/** The answer of a facilitator. */
export interface Reply {
  readonly status: number;
  /** Code of the error body, or what the answer says. */
  readonly said: string;
  readonly retryAfter: string | undefined;
  readonly transaction: unknown;
}

/** The sender of a request, and its ways. */
export interface Sender {
  readonly localAddress?: string;
  /** `X-Forwarded-For` */
  readonly forwarded?: string;
  /** `Idempotency-Key` */
  readonly key?: string;
  /** `Authorization` */
  readonly authorization?: string;
  /** Ends the connection. */
  readonly signal?: AbortSignal;
}

/** Sends a payment to a facilitator's server by a connection of its own, as the client of a loopback address. */
export function postTo(
  url: string,
  path: "verify" | "settle",
  body: string,
  { localAddress = "127.0.0.1", forwarded, key, authorization, signal }: Sender = {},
): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const headers = {
    "content-type": "application/json",
    ...(forwarded === undefined ? {} : { "x-forwarded-for": forwarded }),
    ...(key === undefined ? {} : { "idempotency-key": key }),
    ...(authorization === undefined ? {} : { authorization }),
  };
  const opts = { method: "POST", localAddress, headers, agent: false, ...(signal === undefined ? {} : { signal }) };
  const sent = request(`${url}/${path}`, opts);
  sent.on("error", reject);
  const read = async (response: IncomingMessage): Promise<Reply> => {
    const json: unknown = JSON.parse(await text(response));
    assert.ok(isRecord(json));
    const { code, success, isValid, errorReason, invalidReason, transaction } = json;
    const good = success === true || isValid === true ? "good" : undefined;
    const said = String(code ?? good ?? errorReason ?? invalidReason);
    return { status: response.statusCode ?? 0, said, retryAfter: response.headers["retry-after"], transaction };
  };
  sent.on("response", (response) => void read(response).then(resolve, reject));
  sent.end(body);
  return promise;
}

/** Fails every settlement, as one that moves no money does. */
export const failing = (code: ErrorCode) => (): Promise<void> => Promise.reject(new AppError(code));

/** A settle request: what `from` signed with `nonce` for a merchant. */
export function settleBody(from: Address, nonce: string, payTo: Address, identifier?: string): string {
  const now = Math.floor(Date.now() / 1_000);
  const terms = { network: NETWORK, amount: "5000", asset: ASSET, payTo, maxTimeoutSeconds: 600, extra: EXTRA };
  const accepted = { scheme: "exact", ...terms };
  const window = { validAfter: String(now - 600), validBefore: String(now + 600) };
  const authorization = { from, to: payTo, value: "5000", ...window, nonce };
  const signature = `0x${randomBytes(64).toString("hex")}1b`;
  const extensions =
    identifier === undefined
      ? {}
      : { extensions: { "payment-identifier": { info: { required: false, id: identifier } } } };
  const paymentPayload = { x402Version: 2, accepted, payload: { signature, authorization }, ...extensions };
  return JSON.stringify({ x402Version: 2, paymentPayload, paymentRequirements: accepted });
}

export const newPayer = (): Address => `0x${randomBytes(20).toString("hex")}`;
export const newNonce = (): `0x${string}` => `0x${randomBytes(32).toString("hex")}`;
