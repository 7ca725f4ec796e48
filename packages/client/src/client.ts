import { setTimeout as delay } from "node:timers/promises";
import { AppError, decimalToUnits, ERRORS } from "@turnpike/base";
import type { PaymentRequired } from "@x402/core/types";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { x402Client, x402HTTPClient } from "@x402/fetch";
import { type Answer, isErrorCode, isOpen, readAnswer, receiptOf, refusalOf, waitMs } from "./answers.ts";
import { type Choice, choose, withinCap } from "./price.ts";
import type { Client, ClientModules, ClientOptions, Price, Purchase, PurchaseResult, Quote, Signer } from "./types.ts";

const SERVICE = /^[a-z0-9][a-z0-9-]*(?:[/?][\x21-\x7e]*)?$/;

/** The reference client, for one option that was checked before. Its own spend controls stand behind ours. */
function referenceClient(signer: Signer, choice: Choice, maxPriceUsd: string): x402HTTPClient {
  const { network, asset, amount } = choice.option;
  const client = new x402Client().register(network, new ExactEvmScheme(signer)).setSpendControls({
    maxAmountPerPayment: `$${maxPriceUsd}`,
    allowedAssets: [{ network, asset, maxAmountPerPayment: amount }],
  });
  return new x402HTTPClient(client);
}

/** The error of a gateway that does not answer, while nothing was signed. */
export function unreachable(gateway: string, cause: unknown): AppError {
  return new AppError("GATEWAY_UNREACHABLE", {
    message: `The gateway at ${gateway} cannot be reached; nothing was signed.`,
    cause,
  });
}

/** The error of a gateway that gives no terms: its own, without the advice that the reader of an error adds. */
function noTerms(answer: Answer): AppError {
  const { code, message } = refusalOf(answer);
  if (!isErrorCode(code)) return new AppError("INTERNAL", { message: `The gateway gave no terms: ${message}` });
  const { advice } = ERRORS[code];
  const said = message.endsWith(` ${advice}`) ? message.slice(0, -advice.length - 1) : message;
  return new AppError(code, { message: said });
}

class GatewayClient implements Client {
  readonly #opts: ClientOptions;
  readonly #signer: Signer;
  readonly #fetch: typeof globalThis.fetch;
  readonly #sleep: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
  readonly #now: () => number;
  readonly #onRetry: (reason: string, waitMs: number) => void;

  constructor(opts: ClientOptions, modules: ClientModules) {
    decimalToUnits(opts.maxPriceUsd, 18);
    this.#opts = opts;
    this.#signer = modules.signer;
    this.#fetch = modules.fetch ?? globalThis.fetch;
    this.#sleep = modules.sleep ?? ((ms, signal) => delay(ms, undefined, signal === undefined ? {} : { signal }));
    this.#now = modules.monotonicMs ?? (() => performance.now());
    this.#onRetry = modules.onRetry ?? (() => {});
  }

  async #send(purchase: Purchase, payment?: string): Promise<Answer> {
    if (!SERVICE.test(purchase.service)) {
      throw new AppError("USAGE", { message: `${JSON.stringify(purchase.service)} is no service id.` });
    }
    const signals = [AbortSignal.timeout(this.#opts.requestTimeoutMs ?? 90_000)];
    if (purchase.signal !== undefined) signals.push(purchase.signal);
    const response = await this.#fetch(`${this.#opts.gateway}/v1/${purchase.service}`, {
      method: purchase.body === undefined ? "GET" : "POST",
      headers: {
        accept: "application/json",
        ...(purchase.body === undefined ? {} : { "content-type": "application/json" }),
        ...(payment === undefined ? {} : { "payment-signature": payment }),
      },
      body: purchase.body ?? null,
      redirect: "error",
      signal: AbortSignal.any(signals),
    });
    return readAnswer(response);
  }

  async #ask(purchase: Purchase): Promise<Answer> {
    try {
      return await this.#send(purchase);
    } catch (cause) {
      if (cause instanceof AppError) throw cause;
      throw unreachable(this.#opts.gateway, cause);
    }
  }

  #terms(answer: Answer): PaymentRequired {
    try {
      const reader = new x402HTTPClient(new x402Client());
      return reader.getPaymentRequiredResponse((name) => answer.headers.get(name), answer.json);
    } catch (cause) {
      throw new AppError("PAYMENT_OPTION_UNKNOWN", {
        message: "The gateway's payment terms cannot be read; nothing was signed.",
        cause,
      });
    }
  }

  #choose(terms: PaymentRequired): Choice {
    return choose(terms, this.#opts.assets ?? [], this.#opts.maxPriceUsd);
  }

  async quote(purchase: Purchase): Promise<Quote> {
    const answer = await this.#ask(purchase);
    if (answer.status !== 402) throw noTerms(answer);
    const terms = this.#terms(answer);
    const { price } = this.#choose(terms);
    return { terms, price, withinCap: withinCap(price, this.#opts.maxPriceUsd) };
  }

  async call(purchase: Purchase): Promise<PurchaseResult> {
    if (purchase.payment !== undefined) return this.#present(purchase, purchase.payment, undefined);
    const asked = await this.#ask(purchase);
    if (asked.status !== 402) {
      if (asked.status < 300) return { kind: "free", status: asked.status, answer: asked.json };
      return {
        kind: "refused",
        status: asked.status,
        ...refusalOf(asked),
        open: false,
        receipt: undefined,
        price: undefined,
        payment: undefined,
      };
    }
    const terms = this.#terms(asked);
    const choice = this.#choose(terms);
    if (!withinCap(choice.price, this.#opts.maxPriceUsd)) {
      throw new AppError("SPEND_CAP", {
        message: `The price is ${choice.price.usd} USD, over the cap of ${this.#opts.maxPriceUsd} USD; nothing was signed.`,
        detail: { usd: choice.price.usd, maxPriceUsd: this.#opts.maxPriceUsd },
      });
    }
    const http = referenceClient(this.#signer, choice, this.#opts.maxPriceUsd);
    const payload = await http.createPaymentPayload({ ...terms, accepts: [choice.option] });
    const payment = http.encodePaymentSignatureHeader(payload)["PAYMENT-SIGNATURE"];
    if (payment === undefined) {
      throw new AppError("INTERNAL", { message: "The payment could not be encoded; nothing was sent." });
    }
    return this.#present(purchase, payment, choice.price);
  }

  /** Sends one signed payment until its outcome is known. Never signs: a second signature could be a second debit. */
  async #present(purchase: Purchase, payment: string, price: Price | undefined): Promise<PurchaseResult> {
    const untilMs = this.#now() + (this.#opts.retryForMs ?? 120_000);
    for (let attempt = 0; ; attempt++) {
      let answer: Answer | undefined;
      try {
        answer = await this.#send(purchase, payment);
      } catch (cause) {
        if (cause instanceof AppError || purchase.signal?.aborted === true) throw cause;
      }
      const wait = waitMs(answer, attempt);
      const open = answer === undefined || isOpen(answer);
      if (open && this.#now() + wait < untilMs) {
        this.#onRetry(answer === undefined ? "the connection was lost" : refusalOf(answer).code, wait);
        await this.#sleep(wait, purchase.signal);
        continue;
      }
      return this.#resultOf(answer, payment, price);
    }
  }

  #resultOf(answer: Answer | undefined, payment: string, price: Price | undefined): PurchaseResult {
    if (answer === undefined) {
      const message = "The connection was lost and the outcome is unknown; present the same payment again.";
      const said = { code: "SETTLEMENT_PENDING", message, retryable: true, open: true };
      return { kind: "refused", status: 0, ...said, receipt: undefined, price, payment };
    }
    const receipt = receiptOf(answer.headers);
    if (answer.status === 200 && receipt?.success === true) {
      return { kind: "bought", envelope: answer.json, receipt, price, payment };
    }
    if (answer.status === 200) {
      const message = "The gateway answered 200 without a receipt of success.";
      const said = { code: "FACILITATOR_MISBEHAVED", message, retryable: true, open: true };
      return { kind: "refused", status: 200, ...said, receipt, price, payment };
    }
    const said = { ...refusalOf(answer), open: isOpen(answer) };
    return { kind: "refused", status: answer.status, ...said, receipt, price, payment };
  }
}

/**
 * Makes the client of a gateway.
 * @throws AppError CONFIG_INVALID when the cap is no decimal amount.
 */
export function createClient(opts: ClientOptions, modules: ClientModules): Client {
  return new GatewayClient(opts, modules);
}
