import { unitsToDecimal } from "@turnpike/base";
import { readSignedPayment } from "@turnpike/testkit/hostile-seller";
import type { PurchaseResult, Spending } from "../../src/index.ts";
import { CHAIN_ID, type SimulatedChain, signatureOf } from "./simulated-chain.ts";

const USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const DECIMALS = 6;
/** Maximum time that a signature may be valid, in seconds. */
const MAX_VALID_SECONDS = 3_600;
/** Time after its window at which, without nodes, a payment counts as one that cannot be taken. */
const MARGIN_MS = 60_000;
/** Sentences of a result that say for sure that a payment was taken. */
const WAS_CHARGED = /^\S+ USD was charged,? once/;

/** Amount of the token, as the client's texts have it. */
export function usdOf(units: bigint): string {
  return unitsToDecimal(units, DECIMALS);
}

function unitsOf(usd: string): bigint {
  return BigInt(usd.replace(".", ""));
}

/** One call of `client.call`. */
export interface StoryCall {
  readonly id: number;
  /** Number of its request: identical calls have the same. */
  readonly request: number;
  /** Maximum amount that it may sign. */
  readonly capUnits: bigint;
}

/** Arguments of `signTypedData`. */
export interface TypedData {
  readonly domain: Readonly<Record<string, unknown>>;
  readonly primaryType: string;
  readonly message: Readonly<Record<string, unknown>>;
}

interface SignedPaymentEntry {
  readonly nonce: string;
  readonly signature: string;
  readonly units: bigint;
  readonly validBefore: number;
  readonly call: StoryCall;
  /** Header with which it was sent; undefined where it never was. */
  header?: string;
  /** A receipt of success that fits it arrived, and is in the journal of the process or in its memory. */
  hasReceipt: boolean;
  /** State in the last result that named it. */
  state?: PurchaseResult["state"];
  /** A result handed out its answer, or said for sure that it was taken: an identical call is another purchase then. */
  isFinal: boolean;
}

export interface StoryLedgerOptions {
  readonly hasNodes: boolean;
  readonly totalUnits: bigint | undefined;
}

export interface StoryLedgerModules {
  readonly chain: SimulatedChain;
  readonly hostNowMs: () => number;
  /** True for a payment that the seller or a node claimed was taken before it was. */
  readonly hasFalseClaim: (nonce: string) => boolean;
  readonly fault: (text: string) => void;
}

/** Compares what a story's buyer signed, sent and reported with the transfers on the chain. */
export class StoryLedger {
  readonly #opts: StoryLedgerOptions;
  readonly #chain: SimulatedChain;
  readonly #hostNowMs: () => number;
  readonly #hasFalseClaim: (nonce: string) => boolean;
  readonly #fault: (text: string) => void;
  readonly #payments = new Map<string, SignedPaymentEntry>();
  /** Calls that sent a payment which they signed. */
  readonly #sent = new Set<StoryCall>();
  /** Amounts of payments that were taken into the budget a second time, as a caller presented them after their end. */
  #presentedAgainUnits = 0n;

  constructor(opts: StoryLedgerOptions, modules: StoryLedgerModules) {
    this.#opts = opts;
    this.#chain = modules.chain;
    this.#hostNowMs = modules.hostNowMs;
    this.#hasFalseClaim = modules.hasFalseClaim;
    this.#fault = modules.fault;
  }

  get signatureCount(): number {
    return this.#payments.size;
  }

  /** Headers of payments that were sent; of those without a final result where `isOpen`. */
  sentHeaders(isOpen: boolean): readonly { readonly request: number; readonly header: string }[] {
    return [...this.#payments.values()].flatMap(({ header, isFinal, call }) =>
      header === undefined || (isOpen && isFinal) ? [] : [{ request: call.request, header }],
    );
  }

  onSign(call: StoryCall | undefined, { domain, primaryType, message }: TypedData, signature: string): void {
    if (primaryType !== "TransferWithAuthorization") this.#fault(`signed a ${primaryType}`);
    if (call === undefined) {
      this.#fault("signed outside a call");
      return;
    }
    const { chainId, verifyingContract } = domain;
    if (chainId !== CHAIN_ID) this.#fault(`signed for the chain ${String(chainId)}`);
    if (String(verifyingContract).toLowerCase() !== USDC.toLowerCase()) {
      this.#fault(`signed for the token ${String(verifyingContract)}`);
    }
    const units = BigInt(message.value as bigint);
    const validBefore = Number(message.validBefore);
    if (units > call.capUnits) this.#fault(`signed ${units}, and the cap of the call is ${call.capUnits}`);
    if (validBefore > this.#hostNowMs() / 1_000 + MAX_VALID_SECONDS) this.#fault(`signed until ${validBefore}`);
    this.#assertFirst(call);
    const nonce = String(message.nonce).toLowerCase();
    const entry = {
      nonce,
      signature,
      units,
      validBefore,
      call,
      hasReceipt: false,
      isFinal: false,
      isAnswerLost: false,
    };
    this.#payments.set(nonce, entry);
  }

  /** Holds that no earlier payment of the request can be taken, or was without its caller's knowledge. */
  #assertFirst({ request, id }: StoryCall): void {
    for (const payment of this.#payments.values()) {
      const { call, nonce, header, validBefore, hasReceipt, isFinal, state: reported } = payment;
      if (call.request !== request || header === undefined || isFinal) continue;
      const transfer = this.#chain.transferOf(nonce);
      if (transfer === undefined ? this.#chain.isOver(payment) : reported === "charged") continue;
      const isTimeOver = validBefore * 1_000 + MARGIN_MS <= this.#hostNowMs();
      // Without nodes time alone decides, and the first one stays spent. A charge that was shown is not taken back.
      if (!this.#opts.hasNodes && isTimeOver && !hasReceipt) continue;
      const state = transfer === undefined ? "can still be taken" : "was taken, and no result says so";
      this.#fault(`call ${id} signs anew for request ${request}, whose payment of call ${call.id} ${state}`);
    }
  }

  onSend(call: StoryCall | undefined, header: string): void {
    const { nonce, units } = readSignedPayment(header);
    const payment = this.#payments.get(nonce.toLowerCase());
    if (payment === undefined) {
      this.#fault("sent a payment that was not signed here");
      return;
    }
    if (payment.signature !== signatureOf(header) || payment.units !== units) this.#fault("sent what was not signed");
    if (payment.header !== undefined && payment.header !== header) this.#fault("sent one payment in two forms");
    payment.header = header;
    if (call !== undefined && payment.call === call) this.#sent.add(call);
  }

  /** Notes what an answer to a presentation shows. */
  onAnswer(header: string, receiptHeader: string | null): void {
    const payment = this.#payments.get(readSignedPayment(header).nonce.toLowerCase());
    if (payment !== undefined && receiptHeader !== null && fits(receiptHeader, header)) payment.hasReceipt = true;
  }

  onResult(call: StoryCall, result: PurchaseResult): void {
    if (result.kind === "free" || result.payment === undefined) {
      if (this.#sent.has(call)) this.#fault(`call ${call.id} sent a payment, and its result names none`);
      return;
    }
    const payment = this.#payments.get(readSignedPayment(result.payment).nonce.toLowerCase());
    if (payment === undefined) {
      this.#fault(`the result of call ${call.id} names a payment that was not signed`);
      return;
    }
    if (result.usd !== undefined && unitsOf(result.usd) !== payment.units) {
      this.#fault(`the result of call ${call.id} says ${result.usd} USD for a payment of ${payment.units}`);
    }
    payment.state = result.state;
    // The journal has nothing more of a payment that is over, and a caller who presents it anyway learns what the seller says.
    const isVoid = !this.#chain.isUsed(payment.nonce) && this.#chain.isOver(payment);
    if (
      payment.hasReceipt &&
      !isVoid &&
      !payment.isFinal &&
      (result.state === "uncharged" || result.state === "unserved")
    ) {
      this.#fault(`call ${call.id} takes a charge back that a receipt showed: ${result.state}`);
    }
    if (result.kind === "bought" && result.isResumed !== (payment.call !== call)) {
      this.#fault(
        `call ${call.id} says ${result.isResumed ? "that it presents an earlier payment" : "that it signed"}`,
      );
    }
    const isSure = result.kind === "bought" || WAS_CHARGED.test(result.charge);
    const isOpen = result.kind === "refused" && result.open;
    if (isOpen !== (result.state === "open")) this.#fault(`call ${call.id}: open ${isOpen}, state ${result.state}`);
    // Without nodes a claim of the seller's ends the payment.
    if (result.state === "charged" && (isSure || !this.#opts.hasNodes)) {
      payment.isFinal = true;
      if (!this.#chain.isUsed(payment.nonce) && isSure && !this.#hasFalseClaim(payment.nonce)) {
        this.#fault(`call ${call.id} says that ${result.usd} USD was charged, and it was not`);
      }
    }
  }

  onError(call: StoryCall): void {
    if (this.#sent.has(call)) this.#fault(`call ${call.id} sent a payment that it had signed, and threw`);
  }

  /** A caller presents a payment that a result had ended: the journal, which no longer has it, counts it again. */
  onPresentedAgain(header: string): void {
    this.#presentedAgainUnits += readSignedPayment(header).units;
  }

  /** Receipts that were not written are lost with their process. */
  onProcessEnd(journal: string): void {
    const nonces = new Map<number, string>();
    const shown = new Set<string | undefined>();
    for (const line of journal.split("\n")) {
      const record = recordOf(line);
      if (record?.t === "signed") nonces.set(record.id, readSignedPayment(record.payment).nonce.toLowerCase());
      if (record?.t === "receipt") shown.add(nonces.get(record.id));
    }
    for (const payment of this.#payments.values()) payment.hasReceipt &&= shown.has(payment.nonce);
  }

  /** Holds that what a client counts as spent covers all transfers, and is within the budget. */
  checkSpending({ chargedUsd, openUsd }: Spending): void {
    const spent = unitsOf(chargedUsd) + unitsOf(openUsd);
    const transferred = this.#chain.chargedUnits();
    if (transferred > spent) this.#fault(`${transferred} is on the chain, and ${spent} counts as spent`);
    const { totalUnits } = this.#opts;
    if (totalUnits !== undefined && spent > totalUnits) this.#fault(`${spent} is spent of a budget of ${totalUnits}`);
    if (totalUnits !== undefined && transferred > totalUnits) this.#fault(`${transferred} is over the budget`);
  }

  /** Holds that, after a time in which all were honest, each transfer was reported, and nothing else counts as spent. */
  checkEnd(spending: Spending, openPayments: number): void {
    this.checkSpending(spending);
    const { chargedUsd, openUsd } = spending;
    let claimed = this.#presentedAgainUnits;
    for (const { nonce, units, state, call } of this.#payments.values()) {
      if (this.#chain.isUsed(nonce)) {
        // Without nodes nothing shows what became of a refused one: after its time it stays in the sum of open payments, also
        // where a kill withheld the refusal itself.
        const isNamed = state === "charged" || !this.#opts.hasNodes;
        if (!isNamed) {
          this.#fault(`the payment of call ${call.id} was taken, and the last result of it says ${state ?? "nothing"}`);
        }
      } else if (this.#hasFalseClaim(nonce) || !this.#opts.hasNodes) claimed += units;
    }
    if (openPayments > 0) this.#fault(`${openPayments} payments are still open`);
    const charged = unitsOf(chargedUsd);
    const transferred = this.#chain.chargedUnits();
    if (this.#opts.hasNodes && openUsd !== usdOf(0n)) this.#fault(`${openUsd} USD is still open`);
    if (this.#opts.hasNodes && charged < transferred) this.#fault(`${charged} is charged, ${transferred} on the chain`);
    if (charged > transferred + claimed) this.#fault(`${charged} is charged, and only ${transferred} on the chain`);
  }
}

/** True for a receipt of success of exactly this payment (x402 v2, SettleResponse). */
function fits(receiptHeader: string, paymentHeader: string): boolean {
  const receipt = recordOf(Buffer.from(receiptHeader, "base64").toString("utf8")) as unknown;
  if (typeof receipt !== "object" || receipt === null) return false;
  const { network, from, to, units, asset } = readSignedPayment(paymentHeader);
  const { success, transaction, ...more } = receipt as Readonly<Record<string, unknown>>;
  if (success !== true || !/^0x[0-9a-f]{64}$/.test(String(transaction))) return false;
  const expected = { network, payer: from, payTo: to, asset, amount: `${units}` };
  return Object.entries(expected).every(([name, text]) => {
    const value = more[name];
    return value === undefined || (typeof value === "string" && value.toLowerCase() === text.toLowerCase());
  });
}

interface JournalLine {
  readonly t: string;
  readonly id: number;
  readonly payment: string;
}

function recordOf(line: string): JournalLine | undefined {
  try {
    return JSON.parse(line) as JournalLine;
  } catch {
    return undefined;
  }
}
