import { randomBytes } from "node:crypto";
import { AppError, isAppError, parseJson, sameAddress, unitsToDecimal } from "@turnpike/base";
import type { Budget, CallOptions, Client, ListedService, Price, PurchaseResult, SpendJournal } from "@turnpike/client";
import { keyOf, networksOf, nodesOf, sellerOf } from "../../cli/buyer.ts";
import { type CommandContext, outputOf } from "../../cli/context.ts";
import { prettyJson } from "../../cli/output.ts";
import { askYes, canAsk } from "../../cli/question.ts";
import { assertServed, exampleOf, listedPriceBelow } from "./listing.ts";
import { type Balance, payCommandLine, priceText, REFUSED, resultLines, UNKNOWN, whatNext } from "./text.ts";

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
  readonly journal?: string;
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
): Promise<Balance | undefined> {
  if (rpcUrl === undefined || price === undefined) return undefined;
  const { tokenBalance } = await import("@turnpike/client");
  try {
    const units = await tokenBalance(rpcUrl, price.asset, address);
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

function show(result: PurchaseResult, balance: Balance | undefined, again: string, opts: PayOptions): number {
  const output = outputOf(opts);
  output.result({ ...result, ...(balance === undefined ? {} : { balance }) });
  for (const line of resultLines(result, balance)) output.line(line);
  if (result.kind !== "refused") return 0;
  if (!output.json) process.stderr.write(`${whatNext(result, again).join("\n")}\n`);
  return result.open ? UNKNOWN : REFUSED;
}

function assertUsd(flag: string, usd: string): void {
  if (/^(0|[1-9]\d{0,11})(\.\d{1,18})?$/.test(usd)) return;
  throw new AppError("USAGE", { message: `${flag}: ${JSON.stringify(usd)} is no amount of US dollars such as 0.05.` });
}

function budgetOf({ max = DEFAULT_MAX_USD, total, journal }: PayOptions): Budget {
  assertUsd("--max", max);
  if (total === undefined) return { perCallUsd: max };
  assertUsd("--total", total);
  if (journal === undefined) {
    throw new AppError("USAGE", { message: "--total is over the calls of one journal: give --journal <file> too." });
  }
  return { perCallUsd: max, totalUsd: total };
}

/** The journal of `--journal`, for as long as a command runs. */
async function journalOf(opts: PayOptions): Promise<SpendJournal> {
  const { memoryJournal, openSpendJournal } = await import("@turnpike/client");
  // A quote counts nothing, and need not wait for who spends.
  return opts.journal === undefined || opts.quote === true ? memoryJournal() : openSpendJournal({ file: opts.journal });
}

/**
 * Buys within the price that the gateway's list shows. Higher terms are shown and, on a terminal, agreed to by a person;
 * a person agrees to one price, and to no more than the budget of a call.
 * @throws AppError SPEND_CAP.
 */
async function callWithinListed(
  client: Client,
  call: { readonly service: string; readonly body: string | undefined; readonly options: CallOptions },
  budget: Budget,
  json: boolean,
): Promise<PurchaseResult> {
  const { service, body, options } = call;
  try {
    return await client.call(service, body, options);
  } catch (error) {
    const listed = options.maxPriceUsd;
    if (listed === undefined || !isAppError(error, "SPEND_CAP")) throw error;
    const { price, withinCap } = await client.quote(service, body, { maxPriceUsd: budget.perCallUsd });
    const higher = `The price is ${price.usd} USD, and the gateway's list shows ${listed} USD`;
    if (!withinCap || json || !canAsk()) {
      throw new AppError("SPEND_CAP", {
        message: `${higher}; nothing was signed.`,
        advice: `To agree to it: --max ${price.usd}`,
      });
    }
    if (!(await askYes(`${higher}. Pay ${priceText(price)}?`))) {
      throw new AppError("SPEND_CAP", { message: `${higher}; nothing was signed.` });
    }
    return client.call(service, body, { ...options, maxPriceUsd: price.usd });
  }
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
  await using journal = await journalOf(opts);
  await using client = createClient(
    {
      gateway,
      signer,
      budget,
      journal,
      rpcUrls: nodesOf(opts.rpc === undefined ? [] : [opts.rpc], up),
      ...(networks === undefined ? {} : { networks }),
    },
    { onRetry: (reason, waitMs) => output.progress(`${reason}; the same payment again in ${waitMs / 1_000} s`) },
  );
  if (opts.quote === true) {
    const cap = listedUsd === undefined ? {} : { maxPriceUsd: listedUsd };
    const quote = await client.quote(service, body, cap);
    output.result(quote);
    output.line(`price    ${priceText(quote.price)}`);
    const capUsd = listedUsd ?? budget.perCallUsd;
    output.line(`cap      ${capUsd} USD: ${quote.withinCap ? "within it" : "the price is over it"}`);
    output.line(`terms    ${prettyJson(quote.terms)}`);
    const named = up === undefined ? { gateway } : {};
    output.line(`to buy   ${payCommandLine(service, body, { ...opts, ...named, max: quote.price.usd })}`);
    output.line("nothing was signed");
    return;
  }
  const options = {
    ...(opts.payment === undefined ? {} : { payment: opts.payment }),
    ...(listedUsd === undefined ? {} : { maxPriceUsd: listedUsd }),
  };
  const result = await callWithinListed(client, { service, body, options }, budget, output.json);
  const price = result.kind === "free" ? undefined : result.price;
  const rpcUrl =
    opts.rpc ??
    (price !== undefined && up !== undefined && sameAddress(price.asset, up.settlement.asset)
      ? up.settlement.rpc
      : undefined);
  const again = payCommandLine(service, body, {
    ...opts,
    ...(up === undefined ? { gateway } : {}),
    ...(result.kind === "refused" && result.payment !== undefined ? { payment: result.payment } : {}),
  });
  context.exitWith(show(result, await balanceOf(rpcUrl, price, signer.address), again, opts));
}
