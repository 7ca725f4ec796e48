import { cutText, indentJson, visibleText } from "@turnpike/base";
import type { Price, PurchaseReceipt, PurchaseResult, SignedCall } from "@turnpike/client";
import { readableMessage } from "../../cli/field-text.ts";

/** Exit code of a refusal whose outcome is known. */
export const REFUSED = 4;
/** Exit code where it is not known whether the payment was taken. */
export const UNKNOWN = 5;
/** Exit code of a payment that was taken, or may have been, without an answer for it. */
export const CHARGED = 6;
/** Exit code of an answer that could not be written. */
export const LOST = 7;

/** What a payer still has. */
export interface Balance {
  readonly address: string;
  readonly units: bigint;
  readonly usd: string;
}

type Refused = Extract<PurchaseResult, { kind: "refused" }>;

/** Maximum characters of a gateway's words that are shown. */
const MAX_QUOTED_LENGTH = 600;

/** Words of a gateway, as a JSON string: they stand beside facts of ours. */
const saidText = (words: string): string => visibleText(JSON.stringify(cutText(words, MAX_QUOTED_LENGTH)));

/** A price in words. */
export function priceText(price: Price): string {
  return `${price.usd} USD: ${price.amount} units of ${price.asset} on ${price.network}, to ${price.payTo}`;
}

function settlementText({ transaction, network }: PurchaseReceipt): string {
  return transaction === "" ? "" : ` transaction ${transaction} on ${network}`;
}

function receiptLines(receipt: PurchaseReceipt, open: boolean): string[] {
  const { settlementId, payer, success, errorReason } = receipt;
  const id = settlementId === undefined ? [] : [`payment  ${settlementId}`];
  if (success) {
    return [`receipt  ${settlementText(receipt).trim()}`, ...(payer === undefined ? [] : [`payer    ${payer}`]), ...id];
  }
  const tried = settlementText(receipt);
  if (open) return [`receipt  not yet${tried === "" ? "" : `:${tried}`}`, ...id];
  const why = errorReason === undefined ? "" : ` (${saidText(errorReason)})`;
  return [`receipt  none: attempted${why}${tried === "" ? "" : `;${tried}`}`, ...id];
}

/** Said of an answer that an earlier call paid for, and was ended before it was shown, or got none. */
const RESUMED = "resumed  an earlier payment was presented again: this is its answer, and nothing new was signed";

/** Facts of the payment, on standard output, before the answer: nothing of the answer is read for them. */
export function factLines(result: PurchaseResult): string[] {
  if (result.kind === "free") return ["free     nothing was asked for this call"];
  const { price, receipt, usd } = result;
  const claimed = result.kind === "refused" ? result.claimedReceipt : undefined;
  return [
    ...(result.kind === "bought" && result.isResumed ? [RESUMED] : []),
    ...(result.kind === "bought" ? [`charged  ${usd === undefined ? "the payment" : `${usd} USD`}, once`] : []),
    ...(price === undefined ? [] : [`price    ${priceText(price)}`]),
    ...(receipt === undefined ? [] : receiptLines(receipt, result.kind === "refused" && result.open)),
    ...(claimed === undefined ? [] : [`claimed  a receipt that is not of this payment: ${claimed.misfit}`]),
  ];
}

/** JSON of a result's answer, as it was sent; undefined where it has none. */
export function answerOf(result: PurchaseResult): { readonly key: string; readonly json: string } | undefined {
  if (result.kind === "refused" || result.answerText === undefined) return undefined;
  return { key: result.kind === "bought" ? "envelope" : "answer", json: result.answerText };
}

/** The answer of a result, on standard output. */
export function answerLines(result: PurchaseResult): string[] {
  return result.kind === "refused" ? [] : [`answer   ${indentJson(answerOf(result)?.json ?? "null")}`];
}

/** The balance, on standard output. */
export function balanceLine({ usd, address }: Balance): string {
  return `balance  ${usd} USD of ${address}`;
}

/** A payment that was signed and got no answer, as a result: for every end of a command between the two. */
export function openResult(signed: SignedCall, code: string, message: string): Refused {
  const { payment, usd } = signed;
  return {
    kind: "refused",
    state: "open",
    usd,
    status: 0,
    code,
    message,
    messageOf: "client",
    charge: `${usd === undefined ? "The payment" : `${usd} USD`} may have been charged, once.`,
    retryable: true,
    open: true,
    receipt: undefined,
    claimedReceipt: undefined,
    price: undefined,
    payment,
    resultId: undefined,
  };
}

/** The sentence of a refusal: ours, the fields of a 422, or the gateway's, quoted. */
function refusalText({ code, message, messageOf }: Refused): string {
  const readable = readableMessage(code, message);
  return messageOf === "client" || readable !== message ? readable : `The gateway says: ${saidText(message)}`;
}

/** What went wrong, what it cost, and the command that presents the same payment again where that may help. */
export function whatNext(refused: Refused, again: string): string[] {
  const { code, payment, charge, open, retryable } = refused;
  const lines = [`error ${code}: ${refusalText(refused)}`, charge];
  if (payment === undefined) return lines;
  if (open) return [...lines, "To ask again for the same payment, never with a new one:", again];
  if (!retryable) return lines;
  return [...lines, "The payment is good until it expires. To present the same one again:", again];
}

/** Lines for the error output where standard output was lost: the charge, and how to get the answer. */
export function lostLines(
  result: PurchaseResult,
  fault: string,
  again: (payment: string | undefined) => string,
): string[] {
  const lost = `The output could not be written (${fault}).`;
  if (result.kind === "free") return [lost];
  if (result.kind === "refused") return [lost, ...whatNext(result, again(result.payment))];
  const { usd, payment } = result;
  const charge = `${usd === undefined ? "The payment" : `${usd} USD`} was charged, once.`;
  return [`${lost} ${charge}`, "To get the answer for the same payment, never with a new one:", again(payment)];
}

/** A word as a shell reads it: with an octal escape for each byte that is not printable ASCII, and for `!`, of histories. */
function escapedWord(word: string): string {
  let text = "";
  for (const byte of Buffer.from(word)) {
    const character = String.fromCharCode(byte);
    if (byte < 0x20 || byte > 0x7e || character === "!") text += `\\${byte.toString(8).padStart(3, "0")}`;
    else text += character === "'" || character === "\\" ? `\\${character}` : character;
  }
  return `$'${text}'`;
}

/**
 * A word of a command line. One that a terminal does not get as it is (the selectors and joiners of emoji, no-break spaces) has
 * escapes of the shell: it has to name the same call again. Octal ones are the same in every shell that has $'...', and in every
 * locale.
 */
function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (/[\n\t]/.test(word) || visibleText(word) !== word) return escapedWord(word);
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** A command line of `pay`, ready for a shell. */
export function payCommandLine(
  service: string,
  body: string | undefined,
  opts: {
    readonly gateway?: string;
    readonly keyFile?: string;
    readonly max?: string;
    readonly network?: readonly string[];
    readonly rpc?: string;
    readonly journal?: string | false;
    readonly payment?: string;
  } = {},
): string {
  const flags = [
    ["--gateway", opts.gateway],
    ["--key-file", opts.keyFile],
    ["--max", opts.max],
    ...(opts.network ?? []).map((network) => ["--network", network] as const),
    ["--rpc", opts.rpc],
    ["--journal", opts.journal === false ? undefined : opts.journal],
    ["--payment", opts.payment],
  ] as const;
  const given = flags.flatMap(([flag, value]) => (value === undefined ? [] : [flag, quoted(value)]));
  if (opts.journal === false) given.push("--no-journal");
  return ["npx turnpike pay", quoted(service), body === undefined ? "--get" : quoted(body), ...given].join(" ");
}
