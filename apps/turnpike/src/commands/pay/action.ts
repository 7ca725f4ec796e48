import { randomBytes } from "node:crypto";
import { AppError, assertUsd, isAppError, parseJson, sameAddress, unitsToDecimal } from "@turnpike/base";
import type { Budget, CallOptions, Client, ListedService, Price, PurchaseResult, SignedCall } from "@turnpike/client";
import { keyOf, networksOf, nodesOf, sellerOf } from "../../cli/buyer.ts";
import { type CommandContext, outputOf } from "../../cli/context.ts";
import { interruption } from "../../cli/interruption.ts";
import { failureOf, type OpenResult, type Output, prettyJson } from "../../cli/output.ts";
import { askYes, canAsk } from "../../cli/question.ts";
import { flushOutput, printError } from "../../cli/terminal.ts";
import { openCallJournal } from "./journal.ts";
import { assertServed, exampleOf, listedPriceBelow } from "./listing.ts";
import {
  answerLines,
  answerOf,
  type Balance,
  balanceLine,
  CHARGED,
  factLines,
  LOST,
  lostLines,
  openResult,
  payCommandLine,
  priceText,
  REFUSED,
  UNKNOWN,
  whatNext,
} from "./text.ts";

export interface PayOptions {
  readonly json?: boolean;
  readonly max?: string;
  readonly quote?: boolean;
  readonly get?: boolean;
  readonly anyway?: boolean;
  readonly gateway?: string;
  readonly keyFile?: string;
  readonly network: readonly string[];
  readonly rpc?: string;
  readonly payment?: string;
  /** False for none. */
  readonly journal?: string | false;
  readonly total?: string;
}

/** Maximum price of a call without --max. */
const DEFAULT_MAX_USD = "0.05";

function anyKey(): `0x${string}` {
  return `0x${randomBytes(32).toString("hex")}`;
}

function bodyOf(opts: PayOptions, json: string | undefined): string | undefined {
  if (opts.get === true) {
    if (json !== undefined) throw new AppError("USAGE", { message: "A GET has no body: leave the JSON out." });
    return undefined;
  }
  if (json === undefined) return undefined;
  const parsed = parseJson(json);
  if (!parsed.ok) {
    const why = parsed.reason === "duplicate" ? `it repeats the key ${JSON.stringify(parsed.key)}` : parsed.reason;
    throw new AppError("USAGE", {
      message: `The body is not JSON (${why}). In most shells it stands in single quotes.`,
    });
  }
  return json;
}

async function balanceOf(
  rpcUrl: string | undefined,
  price: Price | undefined,
  address: `0x${string}`,
  signal: AbortSignal,
): Promise<Balance | undefined> {
  if (rpcUrl === undefined || price === undefined) return undefined;
  const { tokenBalance } = await import("@turnpike/client");
  try {
    const units = await tokenBalance(rpcUrl, price.asset, address, signal);
    return { address, units, usd: unitsToDecimal(units, price.decimals) };
  } catch {
    return undefined;
  }
}

/** Looks the service up in the gateway's list; undefined when there is no list. */
async function listingOf(gateway: string): Promise<readonly ListedService[] | undefined> {
  const { listServices } = await import("@turnpike/client");
  return listServices({ gateway });
}

/** The error of a call without a body, with one that the service takes where the gateway can be asked. */
async function bodyMissing(service: string, gateway: string): Promise<AppError> {
  const listing = await listingOf(gateway).catch(() => undefined);
  if (listing !== undefined) assertServed(service, listing, { gateway, anyway: true, body: undefined });
  const example = exampleOf(service, listing);
  const line = example === undefined ? "" : ` For example:\n${payCommandLine(service, JSON.stringify(example))}`;
  return new AppError("USAGE", { message: `The JSON body is missing, or --get.${line}` });
}

/** Exit code of a result. */
function exitCodeOf(result: PurchaseResult): number {
  if (result.kind !== "refused") return 0;
  if (result.open) return UNKNOWN;
  return result.state === "charged" ? CHARGED : REFUSED;
}

/** Output of a call, the file of its journal, and the command that presents its payment again. */
interface Shown {
  readonly output: Output;
  readonly journal: string | undefined;
  readonly again: (payment: string | undefined) => string;
}

/**
 * Writes the facts of the payment, then the answer. The facts are of bounded size, and are out before the answer is looked at:
 * whatever that is, it is known what was charged.
 */
function show(result: PurchaseResult, { output, journal, again }: Shown): OpenResult {
  const payment = result.kind === "free" ? undefined : result.payment;
  const next = payment === undefined ? {} : { journal, again: again(payment) };
  const answer = answerOf(result);
  const document = output.openResult({
    ...result,
    // It names nothing outside of this process.
    ...(result.kind === "free" ? {} : { resultId: undefined }),
    ...(result.kind === "bought" ? { envelope: undefined, answerText: undefined } : {}),
    ...(result.kind === "free" ? { answer: undefined, answerText: undefined } : {}),
    ...next,
  });
  for (const line of factLines(result)) output.line(line);
  if (result.kind === "refused" && !output.json) {
    printError(`${whatNext(result, again(payment)).join("\n")}\n`);
  }
  if (answer !== undefined) document.addJson(answer.key, answer.json);
  for (const line of answerLines(result)) output.line(line);
  return document;
}

function budgetOf({ max = DEFAULT_MAX_USD, total, journal }: PayOptions): Budget {
  assertUsd("--max", max, "USAGE");
  if (total === undefined) return { perCallUsd: max };
  assertUsd("--total", total, "USAGE");
  if (journal === undefined || journal === false) {
    throw new AppError("USAGE", { message: "--total is over the calls of one journal: give --journal <file> too." });
  }
  return { perCallUsd: max, totalUsd: total };
}

/** A call, and the prices that bind it. */
interface PricedCall {
  readonly service: string;
  readonly body: string | undefined;
  /** A payment of an earlier try. */
  readonly payment: string | undefined;
  /** Price that the gateway lists, where it is the call's cap. */
  readonly listedUsd: string | undefined;
  readonly budget: Budget;
}

async function showQuote(
  client: Client,
  { service, body, listedUsd, budget }: PricedCall,
  output: Output,
  payLine: (maxUsd: string) => string,
): Promise<void> {
  const capUsd = listedUsd ?? budget.perCallUsd;
  const quote = await client.quote(service, body, { maxPriceUsd: capUsd });
  output.result(quote);
  output.line(`price    ${priceText(quote.price)}`);
  output.line(`cap      ${capUsd} USD: ${quote.withinCap ? "within it" : "the price is over it"}`);
  output.line(`terms    ${prettyJson(quote.terms)}`);
  output.line(`to buy   ${payLine(quote.price.usd)}`);
  output.line("nothing was signed");
}

/** Writes that a signal came before anything was signed. */
function showInterrupted(output: Output): void {
  const message = "The command was interrupted; nothing was signed.";
  output.result({ error: { code: "CANCELLED", message } });
  if (!output.json) printError(`error CANCELLED: ${message}\n`);
}

/**
 * Buys within the price that the gateway's list shows. Higher terms are shown and, on a terminal, agreed to by a person;
 * a person agrees to one price, and to no more than the budget of a call.
 * @throws AppError SPEND_CAP.
 */
async function callWithinListed(
  client: Client,
  { service, body, payment, listedUsd, budget }: PricedCall,
  signal: AbortSignal,
  json: boolean,
): Promise<PurchaseResult> {
  const options: CallOptions = { signal, keepUntilAcknowledged: true, ...(payment === undefined ? {} : { payment }) };
  try {
    return await client.call(service, body, listedUsd === undefined ? options : { ...options, maxPriceUsd: listedUsd });
  } catch (error) {
    if (listedUsd === undefined || !isAppError(error, "SPEND_CAP")) throw error;
    const { price, withinCap } = await client.quote(service, body, { maxPriceUsd: budget.perCallUsd });
    const higher = `The price is ${price.usd} USD, and the gateway's list shows ${listedUsd} USD`;
    if (!withinCap || json || !canAsk()) {
      // No ready option: a program that follows advice would pay what a seller names.
      throw new AppError("SPEND_CAP", {
        message: `${higher}; nothing was signed.`,
        advice: "A person may agree to more, on a terminal or with --max.",
      });
    }
    if (!(await askYes(`${higher}. Pay ${priceText(price)}?`, { signal }))) {
      throw new AppError("SPEND_CAP", { message: `${higher}; nothing was signed.` });
    }
    return client.call(service, body, { ...options, maxPriceUsd: price.usd });
  }
}

/**
 * Buys, and writes how that ended. Every end after a signature, by an answer, a signal or a fault, names what may have been charged and
 * how to get the answer.
 */
async function buy(
  call: PricedCall,
  shown: Shown,
  context: CommandContext,
  clientOf: (onSigned: (signed: SignedCall) => void) => Client,
  balance: (price: Price | undefined, signal: AbortSignal) => Promise<Balance | undefined>,
): Promise<void> {
  const { output, journal } = shown;
  let openPayment: SignedCall | undefined;
  let outcome: { readonly exitCode: number; readonly document: OpenResult } | undefined;
  let isWritten = false;
  using signals = interruption((exitCode) => {
    // All that is still to be done takes no time.
    if (isWritten) return;
    // What is shown already is the outcome, also while the balance is read.
    outcome?.document[Symbol.dispose]();
    if (outcome === undefined && openPayment !== undefined) {
      using _document = show(openResult(openPayment, "CANCELLED", "The command was interrupted."), shown);
    }
    context.kill(outcome?.exitCode ?? (openPayment === undefined ? exitCode : UNKNOWN));
  });
  await using client = clientOf((payment) => {
    openPayment = payment;
    const { usd, isResumed } = payment;
    const where = journal === undefined ? "kept in no journal" : `kept in ${journal} until its answer is here`;
    output.line(`${isResumed ? "present " : "signed  "} ${usd === undefined ? "a payment" : `${usd} USD`}; ${where}`);
  });
  const { signal } = signals;
  const result = await callWithinListed(client, call, signal, output.json).catch((error: unknown) => {
    if (openPayment === undefined && signal.aborted) return undefined;
    // The client's own errors come before a payment is sent, or after its outcome is known.
    if (openPayment === undefined || isAppError(error)) throw error;
    const { code, message } = failureOf(error);
    return openResult(openPayment, code, message);
  });
  if (result === undefined) {
    showInterrupted(output);
    context.exitWith(signals.exitCode() ?? REFUSED);
    return;
  }
  using document = show(result, shown);
  outcome = { exitCode: exitCodeOf(result), document };
  context.exitWith(outcome.exitCode);
  if (result.kind !== "free" && !signal.aborted) {
    const remaining = await balance(result.price, signal);
    document.add("balance", remaining);
    if (remaining !== undefined) output.line(balanceLine(remaining));
  }
  isWritten = true;
  document[Symbol.dispose]();
  // Killed before that, the same call shows the same again, and pays nothing for it.
  const fault = await flushOutput();
  if (fault === undefined) {
    if (result.kind !== "free" && result.resultId !== undefined) await client.acknowledge(result.resultId);
    return;
  }
  if (outcome.exitCode === 0) context.exitWith(LOST);
  const lines = lostLines(result, fault, shown.again);
  // For people a refusal is on the error output already.
  printError(`${(result.kind === "refused" && !output.json ? lines.slice(0, 1) : lines).join("\n")}\n`);
}

/** Buys one call, or quotes it. @throws AppError USAGE, SPEND_CAP, BUDGET_SPENT and those of the client. */
export async function pay(
  service: string,
  json: string | undefined,
  opts: PayOptions,
  context: CommandContext,
): Promise<void> {
  const output = outputOf(opts);
  const budget = budgetOf(opts);
  const body = bodyOf(opts, json);
  const { gateway, up } = await sellerOf(opts, context);
  if (body === undefined && opts.get !== true) throw await bodyMissing(service, gateway);
  // A quote signs nothing, so any key will do.
  const key = opts.quote === true ? anyKey() : await keyOf(opts, context, up);
  const networks = await networksOf(opts, up);
  let listedUsd: string | undefined;
  // A payment that is signed already goes where it was meant to go, whatever the list says.
  if (opts.payment === undefined) {
    const listing = await listingOf(gateway);
    const anyway = opts.anyway === true || opts.quote === true;
    if (listing !== undefined) assertServed(service, listing, { gateway, anyway, body });
    if (opts.max === undefined) listedUsd = listedPriceBelow(budget.perCallUsd, service, listing);
  }
  // Loaded when everything is there: a mistake in the call is answered at once.
  const { createClient, signerFromKey } = await import("@turnpike/client");
  const signer = signerFromKey(key);
  const buyer = {
    gateway,
    signer,
    budget,
    rpcUrls: nodesOf(opts.rpc === undefined ? [] : [opts.rpc], up),
    ...(networks === undefined ? {} : { networks }),
  };
  const payLine = (more: { readonly max?: string; readonly payment?: string }): string =>
    payCommandLine(service, body, { ...opts, ...(up === undefined ? { gateway } : {}), ...more });
  const call = { service, body, payment: opts.payment, listedUsd, budget };
  if (opts.quote === true) {
    await using client = createClient(buyer);
    await showQuote(client, call, output, (max) => payLine({ max }));
    return;
  }
  const journaledCall = { gateway, address: signer.address, local: up !== undefined, service, body };
  await using spending = await openCallJournal(opts.journal, journaledCall, context.env);
  const { journal, file } = spending;
  const shown: Shown = {
    output,
    journal: file,
    again: (payment) => payLine(payment === undefined ? {} : { payment }),
  };
  const onRetry = (reason: string, waitMs: number): void =>
    output.progress(`${reason}; the same payment again in ${waitMs / 1_000} s`);
  await buy(
    call,
    shown,
    context,
    (onSigned) => createClient({ ...buyer, journal }, { onRetry, onSigned }),
    async (price, signal) => {
      const isLocal = price !== undefined && up !== undefined && sameAddress(price.asset, up.settlement.asset);
      return balanceOf(opts.rpc ?? (isLocal ? up.settlement.rpc : undefined), price, signer.address, signal);
    },
  );
}
