import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { AppError } from "@turnpike/base";
import type { DollarAsset } from "@turnpike/client";
import type { CommandContext } from "../context.ts";
import { type BuyerFacts, isUpStarting } from "../up-file.ts";

/** What says who buys and where. */
export interface BuyerOptions {
  readonly gateway?: string;
  readonly keyFile?: string;
}

/**
 * Base URL of the gateway to buy from, without a slash at its end: --gateway, TURNPIKE_GATEWAY, or the running
 * `turnpike up`. @throws AppError USAGE.
 */
export async function gatewayOf(
  opts: BuyerOptions,
  context: CommandContext,
  up: BuyerFacts | undefined,
): Promise<string> {
  const gateway = opts.gateway ?? context.env.TURNPIKE_GATEWAY ?? up?.gateway;
  if (gateway === undefined) {
    const why = (await isUpStarting(process.cwd()))
      ? "`npm start` is still starting here. Wait until it says ready, or give"
      : "no `npm start` runs in this folder or one above it. Start it, or give";
    throw new AppError("USAGE", {
      message: `There is no gateway to buy from: ${why} --gateway or TURNPIKE_GATEWAY.`,
    });
  }
  if (!/^https?:\/\/[^/\s]+/.test(gateway)) {
    throw new AppError("USAGE", { message: `${JSON.stringify(gateway)} is no http:// or https:// address.` });
  }
  return gateway.replace(/\/+$/, "");
}

/**
 * The private key to pay with: --key-file, TURNPIKE_BUYER_KEY, or the sample buyer of the running `turnpike up`.
 * @throws AppError USAGE, CONFIG_INVALID.
 */
export async function keyOf(opts: BuyerOptions, context: CommandContext, up: BuyerFacts | undefined): Promise<string> {
  if (opts.keyFile !== undefined) {
    const { readKeyFile } = await import("@turnpike/config");
    if (!existsSync(opts.keyFile)) {
      throw new AppError("USAGE", {
        message: `--key-file: ${resolve(opts.keyFile)} is not there; npx turnpike keys new ${opts.keyFile} makes one.`,
      });
    }
    const [key, more] = readKeyFile(opts.keyFile);
    if (key === undefined || more !== undefined) {
      throw new AppError("USAGE", { message: `${opts.keyFile} must hold exactly one key.` });
    }
    return key;
  }
  const given = context.env.TURNPIKE_BUYER_KEY;
  const key = given ?? up?.buyer.privateKey;
  if (key === undefined) {
    throw new AppError("USAGE", {
      message:
        "There is no key to pay with: give --key-file or TURNPIKE_BUYER_KEY. npx turnpike keys new <file> makes one.",
    });
  }
  const { parseKey } = await import("@turnpike/config");
  return parseKey(key, given === undefined ? "the buyer in .turnpike/up.json" : "TURNPIKE_BUYER_KEY");
}

/** The local token, in case that the reference client does not know it. */
export function localAssets(up: BuyerFacts | undefined): DollarAsset[] {
  return up === undefined ? [] : [{ network: up.settlement.network, asset: up.settlement.asset, decimals: 6 }];
}
