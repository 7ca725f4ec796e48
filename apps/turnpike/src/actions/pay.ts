import { AppError, parseJson, sameAddress, unitsToDecimal } from "@turnpike/base";
import type { DollarAsset, Price, PurchaseReceipt, PurchaseResult } from "@turnpike/client";
import { type CommandContext, outputOf } from "../context.ts";
import { type Output, prettyJson } from "../output.ts";
import { findUpFile, type UpFile } from "../up-file.ts";

/** Options of `turnpike pay`. */
export interface PayOptions {
  readonly json?: boolean;
  readonly max: string;
  readonly quote?: boolean;
  readonly get?: boolean;
  readonly gateway?: string;
  readonly keyFile?: string;
  readonly rpc?: string;
  readonly payment?: string;
}

/** Exit codes beside those of errors: refused with nothing charged, and outcome unknown. */
const REFUSED = 4;
const UNKNOWN = 5;

function gatewayOf(opts: PayOptions, context: CommandContext, up: UpFile | undefined): string {
  const gateway = opts.gateway ?? context.env.TURNPIKE_GATEWAY ?? up?.gateway;
  if (gateway === undefined) {
    throw new AppError("USAGE", {
      message: "There is no gateway to buy from: start one with npm start, or give --gateway or TURNPIKE_GATEWAY.",
    });
  }
  if (!/^https?:\/\/[^/\s]+/.test(gateway)) {
    throw new AppError("USAGE", { message: `${JSON.stringify(gateway)} is no http:// or https:// address.` });
  }
  return gateway.replace(/\/+$/, "");
}

async function keyOf(opts: PayOptions, context: CommandContext, up: UpFile | undefined): Promise<string> {
  if (opts.keyFile !== undefined) {
    const { readKeyFile } = await import("@turnpike/config");
    const [key, more] = readKeyFile(opts.keyFile);
    if (key === undefined || more !== undefined) {
      throw new AppError("USAGE", { message: `${opts.keyFile} must hold exactly one key.` });
    }
    return key;
  }
  const key = context.env.TURNPIKE_BUYER_KEY ?? up?.buyer.privateKey;
  if (key === undefined) {
    throw new AppError("USAGE", {
      message: "There is no key to pay with: give --key-file or TURNPIKE_BUYER_KEY. turnpike keys new makes one.",
    });
  }
  return key;
}

function bodyOf(opts: PayOptions, json: string | undefined): string | undefined {
  if (opts.get === true) {
    if (json !== undefined) throw new AppError("USAGE", { message: "A GET has no body: leave the JSON out." });
    return undefined;
  }
  if (json === undefined) throw new AppError("USAGE", { message: "The JSON body is missing, or --get." });
  const parsed = parseJson(json);
  if (!parsed.ok) {
    const why = parsed.reason === "duplicate" ? `it repeats the key ${JSON.stringify(parsed.key)}` : parsed.reason;
    throw new AppError("USAGE", {
      message: `The body is not JSON (${why}). In most shells it stands in single quotes.`,
    });
  }
  return json;
}

/** The local token, in case that the reference client does not know it. */
function localAssets(up: UpFile | undefined): DollarAsset[] {
  return up === undefined ? [] : [{ network: up.settlement.network, asset: up.settlement.asset, decimals: 6 }];
}

function priceText(price: Price): string {
  return `${price.usd} USD: ${price.amount} units of ${price.asset} on ${price.network}, to ${price.payTo}`;
}

function receiptLines(receipt: PurchaseReceipt): string[] {
  return [
    `receipt  transaction ${receipt.transaction === "" ? "-" : receipt.transaction} on ${receipt.network}`,
    ...(receipt.payer === undefined ? [] : [`payer    ${receipt.payer}`]),
    ...(receipt.settlementId === undefined ? [] : [`payment  ${receipt.settlementId}`]),
  ];
}

interface Balance {
  readonly address: string;
  readonly units: bigint;
  readonly usd: string;
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

function show(result: PurchaseResult, balance: Balance | undefined, output: Output): number {
  output.result({ ...result, ...(balance === undefined ? {} : { balance }) });
  if (result.kind === "free") {
    output.line(prettyJson(result.answer));
    output.line("free     nothing was asked for this call");
    return 0;
  }
  if (result.price !== undefined) output.line(`price    ${priceText(result.price)}`);
  if (result.kind === "bought") output.line(`answer   ${prettyJson(result.envelope)}`);
  for (const line of result.receipt === undefined ? [] : receiptLines(result.receipt)) output.line(line);
  if (balance !== undefined) output.line(`balance  ${balance.usd} USD of ${balance.address}`);
  if (result.kind === "bought") return 0;
  const open = result.code === "SETTLEMENT_PENDING" || result.code === "PAYMENT_IN_PROGRESS";
  if (!output.json) {
    process.stderr.write(`error ${result.code}: ${result.message}\n`);
    if (open && result.payment !== undefined) {
      process.stderr.write(
        `Ask again for the same payment, never with a new one:\nturnpike pay … --payment ${result.payment}\n`,
      );
    }
  }
  return open ? UNKNOWN : REFUSED;
}

/** Buys one call, or quotes it. @throws AppError USAGE, SPEND_CAP and those of the client. */
export async function pay(
  service: string,
  json: string | undefined,
  opts: PayOptions,
  context: CommandContext,
): Promise<void> {
  const output = outputOf(opts);
  const body = bodyOf(opts, json);
  const found = findUpFile(process.cwd());
  const gateway = gatewayOf(opts, context, found);
  // The sample buyer and the local node are for the local gateway alone.
  const up = found?.gateway === gateway ? found : undefined;
  const assets = localAssets(up);
  const key = await keyOf(opts, context, up);
  // Loaded when everything is there: a mistake in the call is answered at once.
  const { createClient, signerFromKey } = await import("@turnpike/client");
  const signer = signerFromKey(key);
  const client = createClient(
    { gateway, maxPriceUsd: opts.max, assets },
    {
      signer,
      onRetry: (reason, waitMs) => output.progress(`${reason}; the same payment again in ${waitMs / 1_000} s`),
    },
  );
  if (opts.quote === true) {
    const quote = await client.quote({ service, body });
    output.result(quote);
    output.line(`price    ${priceText(quote.price)}`);
    output.line(`cap      ${opts.max} USD: ${quote.withinCap ? "within it" : "the price is over it"}`);
    output.line(`terms    ${prettyJson(quote.terms)}`);
    output.line("nothing was signed");
    return;
  }
  const result = await client.call({ service, body, ...(opts.payment === undefined ? {} : { payment: opts.payment }) });
  const price = result.kind === "free" ? undefined : result.price;
  const rpcUrl =
    opts.rpc ??
    (price !== undefined && up !== undefined && sameAddress(price.asset, up.settlement.asset)
      ? up.settlement.rpc
      : undefined);
  context.exitWith(show(result, await balanceOf(rpcUrl, price, signer.address), output));
}
