import { randomUUID } from "node:crypto";
import type { Payer } from "../../support/payer.ts";
import { keepPace, type Pace, sleep } from "./pace.ts";
import { present, presentTo, type Shown, type Signed, sign } from "./present.ts";
import { PRICE, randomAddress, type Setup } from "./setup.ts";

/** One purchase: a payment, signed once, and presented until it is answered for good. */
export interface Sale {
  readonly signed: Signed;
  readonly present: () => Promise<Shown>;
  /** What each presentation came to. */
  readonly codes: string[];
  /** Milliseconds from the first presentation to the last answer. */
  tookMs: number;
}

/** Those who pay for what they ask. */
export interface Buyers {
  readonly payers: readonly Payer[];
  /** What each of them began with, in units of the token. */
  readonly fundsEach: bigint;
  /** Calls of the gateway. */
  readonly sales: readonly Sale[];
  /** Payments that merchants let the facilitator settle. */
  readonly settlements: readonly Sale[];
  /** Sales that were due while every buyer was waiting for an answer. */
  readonly leftOut: number;
  /** Buys until the signal; resolves when each sale has its answer, with what failed in this program. */
  run(signal: AbortSignal): Promise<readonly unknown[]>;
  /** Presents what has no end yet again, until it has one, or some tries were in vain. */
  finish(): Promise<void>;
  /** One more purchase. */
  buy(): Promise<Sale>;
  settle(): Promise<Sale>;
}

/** How often honest buyers buy. */
export interface BuyerRates {
  readonly buyers: number;
  readonly sales: Pace;
  readonly settlements: Pace;
}

const FUNDS = PRICE * 100_000n;
const LONGEST_PAUSE_MS = 5_000;
/** How long after its window a buyer still asks what became of its payment. */
const PATIENCE_SECONDS = 10;
/** How often a payment is presented again once nothing is under way any more. */
const MOST_TRIES = 30;
/** What a buyer answers by presenting the same signature again, as docs/money.md says: all else is final. */
const OPEN = new Set([
  "LEDGER_UNAVAILABLE",
  "NO_ANSWER",
  "OVERLOADED",
  "PAYMENT_IN_PROGRESS",
  "PAYMENT_RATE_LIMITED",
  "SERVICE_UNAVAILABLE",
  "SETTLEMENT_PENDING",
  "SETTLEMENT_UNAVAILABLE",
  "SHUTTING_DOWN",
  "settlement_pending",
]);

/** True when a sale's last answer is not its end. */
export function isOpen({ codes }: Sale): boolean {
  return OPEN.has(codes.at(-1) ?? "NO_ANSWER");
}

/** True when a sale was answered with what was bought. */
export function isSold({ codes }: Sale): boolean {
  return codes.at(-1) === "SOLD";
}

/** Makes buyers with funds for the whole run, each with a client address of its own. */
export async function createBuyers(setup: Setup, rates: BuyerRates): Promise<Buyers> {
  const { terms, merchant, gateway, facilitator } = setup;
  const payers: Payer[] = [];
  for (let at = 0; at < rates.buyers; at++) payers.push(await setup.payer(FUNDS));
  const merchantTerms = { ...terms, accepts: terms.accepts.map((option) => ({ ...option, payTo: merchant })) };
  const sales: Sale[] = [];
  const settlements: Sale[] = [];
  const idle = payers.map((payer, at) => ({ payer, client: `198.51.100.${1 + at}` }));
  let leftOut = 0;
  let turn = 0;

  /** Presents a payment until it is answered for good, or its window is over. */
  const toTheEnd = async (sale: Sale): Promise<Sale> => {
    const startMs = performance.now();
    for (;;) {
      const { code, retryAfterMs } = await sale.present();
      sale.codes.push(code);
      sale.tookMs = performance.now() - startMs;
      if (!OPEN.has(code) || sale.tookMs > (setup.windowSeconds + PATIENCE_SECONDS) * 1_000) return sale;
      await sleep(Math.min(retryAfterMs, LONGEST_PAUSE_MS));
    }
  };

  const begin = (list: Sale[], signed: Signed, show: () => Promise<Shown>): Promise<Sale> => {
    const sale: Sale = { signed, present: show, codes: [], tookMs: 0 };
    list.push(sale);
    return toTheEnd(sale);
  };

  const buy = async ({ payer, client }: { readonly payer: Payer; readonly client: string }): Promise<Sale> => {
    const signed = await sign(payer, terms, { aheadSeconds: setup.aheadSeconds });
    const body = { method: "eth_getBalance", params: [randomAddress(), "latest"] };
    const to = { url: `${gateway.url}/v1/eth`, body, client };
    return begin(sales, signed, () => present(signed, to));
  };

  const settle = async (): Promise<Sale> => {
    const payer = payers[turn++ % payers.length];
    if (payer === undefined) throw new TypeError("no buyers");
    const signed = await sign(payer, merchantTerms, { aheadSeconds: setup.aheadSeconds });
    // As a seller that asks again after a lost answer.
    const key = randomUUID();
    return begin(settlements, signed, () => presentTo(`${facilitator.url}/settle`, signed, { key }));
  };

  const buyNext = async (): Promise<void> => {
    const buyer = idle.shift();
    if (buyer === undefined) {
      leftOut++;
      return;
    }
    await buy(buyer);
    idle.push(buyer);
  };

  return {
    payers,
    fundsEach: FUNDS,
    sales,
    settlements,
    get leftOut() {
      return leftOut;
    },
    async run(signal) {
      const work = [
        keepPace(rates.sales, signal, buyNext),
        keepPace(rates.settlements, signal, async () => void (await settle())),
      ];
      return (await Promise.all(work)).flatMap(({ failed }) => failed);
    },
    async finish() {
      for (const sale of [...sales, ...settlements]) {
        for (let tries = 0; isOpen(sale) && tries < MOST_TRIES; tries++) {
          const { code, retryAfterMs } = await sale.present();
          sale.codes.push(code);
          if (isOpen(sale)) await sleep(Math.min(retryAfterMs, LONGEST_PAUSE_MS));
        }
      }
    },
    async buy() {
      const [buyer] = idle;
      if (buyer === undefined) throw new TypeError("every buyer waits");
      return buy(buyer);
    },
    settle,
  };
}
