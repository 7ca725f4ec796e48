import type { ServerResponse } from "node:http";
import type { Chance } from "@turnpike/testkit/chance";
import {
  honestOption,
  type PaidCall,
  readSignedPayment,
  SELLER_MODES,
  type SellerMode,
  type SignedPayment,
} from "@turnpike/testkit/hostile-seller";
import type { SimulatedChain, SimulatedTransfer } from "./simulated-chain.ts";
import type { ArrivedRequest, SimulatedResponse } from "./simulated-exchange.ts";
import type { SimulatedTime } from "./simulated-time.ts";

const JSON_TYPE = { "content-type": "application/json" } as const;
const SOLD = '{"jsonrpc":"2.0","id":1,"result":"0x1"}';
/** Time that an honest seller needs to settle before a payment ends. */
const MIN_SECONDS_LEFT = 6;
/** Time that a buyer's clock may be ahead. */
const WINDOW_SLACK_SECONDS = 300;

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64");

const coded = (status: number, code: string, retryable: boolean, headers: Record<string, string> = {}): SellerMode => ({
  kind: "refusal",
  paid: ({ response }) => {
    const body = { code, message: "Try again with a new payment.", requestId: "r", retryable };
    response.writeHead(status, { ...JSON_TYPE, ...headers }).end(JSON.stringify(body));
  },
});

/** Modes of a seller that only a story has: they keep a payment open for long, or are of a proxy in between. */
const OPEN_MODES: Readonly<Record<string, SellerMode>> = {
  pending: coded(503, "SETTLEMENT_PENDING", true, { "retry-after": "1" }),
  "pending-for-long": coded(503, "SETTLEMENT_PENDING", true, { "retry-after": "1000000" }),
  "in-progress": coded(503, "PAYMENT_IN_PROGRESS", true),
  "proxy-502": {
    kind: "refusal",
    paid: ({ response }) => void response.writeHead(502, { "content-type": "text/html" }).end("<html></html>"),
  },
  "sold-201": {
    kind: "answer",
    paid: ({ response, receipt }) => void response.writeHead(201, { ...JSON_TYPE, ...receipt() }).end(`{"data":1}`),
  },
  "connection-ends": { kind: "timing", paid: ({ response }) => void response.destroy() },
};

const PAID_MODES: Readonly<Record<string, SellerMode>> = {
  ...Object.fromEntries(Object.entries(SELLER_MODES).filter(([, mode]) => mode.paid !== undefined)),
  ...OPEN_MODES,
};
const TERMS_MODES = Object.entries(SELLER_MODES).filter(([, mode]) => mode.kind === "terms");
/** Modes whose bodies take long to make and to send. */
const HEAVY_MODES = /mega|millions/;
const WEIGHTED_PAID_MODES = Object.keys(PAID_MODES).map((name) => [HEAVY_MODES.test(name) ? 1 : 20, name] as const);

/** When a hostile seller settles a payment that it is shown. */
const SETTLES = ["now", "later", "never"] as const;

/** The honest ledger's entry of a payment. */
interface Sale {
  readonly header: string;
  readonly target: string;
  state: "pending" | "settled" | "failed";
  isStored: boolean;
}

export interface SimulatedSellerOptions {
  /** Share of requests that a hostile mode answers. */
  readonly hostility: number;
  /** Price in the token's smallest unit, before it is changed. */
  readonly units: bigint;
  /** Share of terms with another price. */
  readonly priceChanges: number;
  readonly maxTimeoutSeconds: number;
}

export interface SimulatedSellerModules {
  readonly chain: SimulatedChain;
  readonly chance: Chance;
  readonly time: SimulatedTime;
  readonly count: (name: string) => void;
}

/** A seller that is honest, or hostile in another way at each request. */
export class SimulatedSeller {
  /** Nonces of payments for which a receipt was sent that fits, and no transfer was made before. */
  readonly falseReceipts = new Set<string>();
  isHonest = false;
  readonly #opts: SimulatedSellerOptions;
  readonly #chain: SimulatedChain;
  readonly #chance: Chance;
  readonly #time: SimulatedTime;
  readonly #count: (name: string) => void;
  readonly #sales = new Map<string, Sale>();
  readonly #presentations = new Map<string, number>();
  #lastMode = "honest";

  constructor(opts: SimulatedSellerOptions, modules: SimulatedSellerModules) {
    this.#opts = opts;
    this.#chain = modules.chain;
    this.#chance = modules.chance;
    this.#time = modules.time;
    this.#count = modules.count;
  }

  serve(request: ArrivedRequest, response: SimulatedResponse): void {
    const header = request.headers.get("payment-signature");
    if (header === null) this.#answerUnpaid(request, response);
    else this.#answerPaid(request, response, readSignedPayment(header));
  }

  #isHostileNow(): boolean {
    return !this.isHonest && this.#chance.often(this.#opts.hostility);
  }

  #price(): bigint {
    const { units, priceChanges } = this.#opts;
    if (this.isHonest || !this.#chance.often(priceChanges)) return units;
    return this.#chance.pick([units * 10n, units * 2n, units / 2n, 1n, 100_000n, 0n]);
  }

  #option(): Readonly<Record<string, unknown>> {
    const { maxTimeoutSeconds } = this.#opts;
    return honestOption({ amount: `${this.#price()}`, maxTimeoutSeconds });
  }

  #sendTerms({ url }: ArrivedRequest, response: SimulatedResponse, accepts: readonly unknown[]): void {
    const resource = { url: url.href, description: "d", mimeType: "application/json" };
    const terms = { x402Version: 2, error: "Payment required", resource, accepts };
    response.writeHead(402, { ...JSON_TYPE, "payment-required": base64(terms) }).end(JSON.stringify(terms));
  }

  #answerUnpaid(request: ArrivedRequest, response: SimulatedResponse): void {
    const sendTerms = (accepts: readonly unknown[]): void => this.#sendTerms(request, response, accepts);
    const kind = this.#isHostileNow()
      ? this.#chance.pick(["terms", "terms", "mixed", "usual", "usual", "usual", "free", "refusal", "garbage"])
      : "usual";
    const [name, mode] = this.#chance.pick(TERMS_MODES as [(typeof TERMS_MODES)[number]]);
    this.#count(kind === "terms" ? `terms: ${name}` : `terms: ${kind}`);
    const hostile = (take: (accepts: readonly unknown[]) => void): void => {
      const { url, verb, body } = request;
      const call = { request: { verb, path: url.pathname, body }, count: 1, terms: take };
      mode?.unpaid?.({ ...call, response: response as unknown as ServerResponse });
    };
    if (kind === "terms") hostile(sendTerms);
    else if (kind === "mixed") hostile((accepts) => sendTerms([...accepts, this.#option()]));
    else if (kind === "free") response.writeHead(200, JSON_TYPE).end("{}");
    else if (kind === "refusal") response.writeHead(503, JSON_TYPE).end('{"code":"NO_SUPPLIERS","message":"None."}');
    else if (kind === "garbage") response.writeHead(402, JSON_TYPE).end("{{{");
    else sendTerms([this.#option()]);
  }

  #answerPaid(request: ArrivedRequest, response: SimulatedResponse, payment: SignedPayment): void {
    const presentations = (this.#presentations.get(payment.nonce) ?? 0) + 1;
    this.#presentations.set(payment.nonce, presentations);
    if (this.#isHostileNow()) this.#answerHostile(request, response, payment, presentations);
    else this.#answerHonest(request, response, payment);
  }

  #receipt(payment: SignedPayment, transfer: SimulatedTransfer | undefined): PaidCall["receipt"] {
    return (change = {}) => {
      const isFalse = transfer === undefined && this.#chance.often(0.5);
      if (isFalse) this.falseReceipts.add(payment.nonce);
      const transaction = transfer?.transaction ?? (isFalse ? `0x${"cd".repeat(32)}` : "");
      const usual = {
        success: true,
        transaction,
        network: payment.network,
        payer: payment.from,
        extensions: { settlement: { id: "stl_1", status: "settled" } },
      };
      return { "payment-response": base64({ ...usual, ...change }) };
    };
  }

  #sendSale(response: SimulatedResponse, receipt: Readonly<Record<string, string>>, data = SOLD): void {
    const portal = { provenance: "third-party-supplier", serviceId: "eth", schemaCheck: "passed" };
    const head = { ...JSON_TYPE, ...receipt };
    response.writeHead(200, head).end(`{"portal":${JSON.stringify(portal)},"data":${data}}`);
  }

  #answerHostile(
    request: ArrivedRequest,
    response: SimulatedResponse,
    payment: SignedPayment,
    presentations: number,
  ): void {
    const name = this.#chance.often(0.4) ? this.#lastMode : this.#chance.weighted(WEIGHTED_PAID_MODES);
    this.#lastMode = name;
    const settles = this.#chance.pick(SETTLES);
    this.#count(`paid: ${name}`);
    this.#count(`hostile seller settles: ${settles}`);
    if (settles === "later") {
      const leftMs = Math.max(0, payment.validBefore - this.#chain.nowSeconds()) * 1_000;
      this.#time.after(this.#chance.below(leftMs + 5_000), () => void this.#chain.trySettle(payment));
    }
    const transfer = settles === "now" ? this.#chain.trySettle(payment) : this.#chain.transferOf(payment.nonce);
    const receipt = this.#receipt(payment, transfer);
    const { url, verb, body } = request;
    const sell: PaidCall["sell"] = (data) => this.#sendSale(response, receipt(), data);
    const paid = PAID_MODES[name]?.paid ?? ((call: PaidCall) => call.sell());
    void paid({
      request: { verb, path: url.pathname, body },
      response: response as unknown as ServerResponse,
      payment,
      presentations,
      payments: this.#presentations.size,
      chain: this.#chain as unknown as PaidCall["chain"],
      transfer,
      receipt,
      sell,
    });
  }

  #refuse(response: SimulatedResponse, code: string, headers: Readonly<Record<string, string>> = {}): void {
    this.#count(`honest: ${code}`);
    if (code.startsWith("PAYMENT_") && code !== "PAYMENT_CONFLICT") {
      const terms = { x402Version: 2, error: `${code}: It was refused.`, accepts: [this.#option()] };
      response.writeHead(402, { ...JSON_TYPE, "payment-required": base64(terms) }).end(JSON.stringify(terms));
      return;
    }
    const body = { code, message: "It was refused.", requestId: "r", retryable: code !== "PAYMENT_CONFLICT" };
    response.writeHead(code === "PAYMENT_CONFLICT" ? 409 : 503, { ...JSON_TYPE, ...headers }).end(JSON.stringify(body));
  }

  /** As the gateway does: one ledger entry a payment, whose stored answer a byte-equal one gets again. */
  #answerHonest(request: ArrivedRequest, response: SimulatedResponse, payment: SignedPayment): void {
    const target = `${request.verb} ${request.url.pathname} ${request.body}`;
    const sale = this.#sales.get(payment.nonce) ?? this.#claim(payment, target);
    if (typeof sale === "string") {
      this.#refuse(response, sale);
      return;
    }
    const transfer = this.#chain.transferOf(payment.nonce);
    if (sale.state === "settled" && transfer !== undefined) {
      const receipt = this.#receipt(payment, transfer)();
      if (sale.header !== payment.header || sale.target !== target || !sale.isStored) {
        this.#refuse(response, "PAYMENT_CONFLICT", receipt);
      } else {
        this.#count("honest: sold");
        this.#sendSale(response, receipt);
      }
    } else this.#refuse(response, sale.state === "failed" ? "PAYMENT_SETTLEMENT_FAILED" : "SETTLEMENT_PENDING");
  }

  /** Claims a payment that was not presented to the honest ledger before; returns the code of a refusal. */
  #claim(payment: SignedPayment, target: string): Sale | string {
    const { header, nonce, validBefore } = payment;
    const isUsed = this.#chain.isUsed(nonce);
    if (isUsed && this.#chance.often(0.5)) return "PAYMENT_NONCE_USED";
    const secondsLeft = validBefore - this.#chain.nowSeconds();
    if (!isUsed && secondsLeft < MIN_SECONDS_LEFT) return "PAYMENT_EXPIRED";
    if (!isUsed && secondsLeft > this.#opts.maxTimeoutSeconds + WINDOW_SLACK_SECONDS) return "PAYMENT_WINDOW_TOO_LONG";
    if (!this.isHonest && this.#chance.often(0.05)) return "NO_SUPPLIERS";
    const sale: Sale = { header, target, state: "pending", isStored: this.isHonest || this.#chance.often(0.9) };
    this.#sales.set(nonce, sale);
    const settle = (): void => {
      sale.state = this.#chain.trySettle(payment) === undefined ? "failed" : "settled";
    };
    if (this.isHonest || this.#chance.often(0.75)) settle();
    else this.#time.after(this.#chance.below(20_000), settle);
    return sale;
  }
}
