import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { AppError, isLoopbackUrl, looksLikeKey, redacted, trimEndOf } from "@turnpike/base";
import { findUp, isUpStarting, type UpFacts } from "@turnpike/devnet/files";
import type { CommandContext } from "./context.ts";
import { printError } from "./terminal.ts";

/** What says who buys and where. */
export interface BuyerOptions {
  readonly gateway?: string;
  readonly keyFile?: string;
}

/** The gateway that a command buys from. */
export interface Seller {
  /** Its base URL, without a slash at its end. */
  readonly gateway: string;
  /** The `turnpike up` whose gateway it is and whose sample buyer pays; undefined where either is another. */
  readonly up: UpFacts | undefined;
}

/**
 * Holds that a text is the URL of a server, without user name and password, and warns of one that is not encrypted.
 * @throws AppError USAGE.
 */
function assertServerUrl(name: string, text: string): void {
  const url = /^https?:\/\/[^/\s]+/.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) {
    throw new AppError("USAGE", {
      message: `${name}: ${JSON.stringify(redacted(text))} is no http:// or https:// address.`,
    });
  }
  if (url.username !== "" || url.password !== "") {
    throw new AppError("USAGE", {
      message: `${name}: leave the user name and the password out of the URL of ${url.host}: it is shown and written down.`,
    });
  }
  if (url.protocol === "https:" || isLoopbackUrl(text)) return;
  printError(
    `warning: ${name}: ${url.host} is called without encryption: others on the way can read and change prices, payments and answers; use https://\n`,
  );
}

/**
 * The gateway to buy from: --gateway, TURNPIKE_GATEWAY, or the running `turnpike up`. A key of the caller's own pays only a
 * gateway that the caller named: a folder that was unpacked or cloned may hold an up.json, too. @throws AppError USAGE.
 */
export async function sellerOf(opts: BuyerOptions, context: CommandContext): Promise<Seller> {
  const ownKey = opts.keyFile === undefined ? "TURNPIKE_BUYER_KEY" : "--key-file";
  const hasOwnKey = opts.keyFile !== undefined || context.env.TURNPIKE_BUYER_KEY !== undefined;
  const found = findUp(process.cwd())?.up;
  const up = hasOwnKey ? undefined : found;
  const gateway = opts.gateway ?? context.env.TURNPIKE_GATEWAY ?? up?.gateway;
  if (gateway === undefined) {
    const why =
      found !== undefined
        ? `${ownKey} pays only a gateway that is named. For the \`npm start\` of this folder give --gateway ${found.gateway}, else`
        : (await isUpStarting(process.cwd()))
          ? "`npm start` is still starting here. Wait until it says ready, or give"
          : "no `npm start` runs in this folder or one above it. Start it, or give";
    throw new AppError("USAGE", {
      message: `There is no gateway to buy from: ${why} --gateway or TURNPIKE_GATEWAY.`,
    });
  }
  assertServerUrl(opts.gateway === undefined ? "TURNPIKE_GATEWAY" : "--gateway", gateway);
  const url = trimEndOf(gateway, "/");
  // The sample buyer and the local node are for the local gateway alone.
  return { gateway: url, up: up?.gateway === url ? up : undefined };
}

/**
 * The private key to pay with: --key-file, TURNPIKE_BUYER_KEY, or the sample buyer of the running `turnpike up`.
 * @throws AppError USAGE, CONFIG_INVALID.
 */
export async function keyOf(opts: BuyerOptions, context: CommandContext, up: UpFacts | undefined): Promise<string> {
  if (opts.keyFile !== undefined) {
    const { readKeyFile } = await import("@turnpike/config");
    if (!existsSync(opts.keyFile)) {
      const file = redacted(opts.keyFile);
      throw new AppError("USAGE", {
        message: looksLikeKey(opts.keyFile)
          ? "--key-file: names a file that holds the key. A key on a command line is seen by every user of the machine: write it into a file of mode 600, or make a new one with npx turnpike keys new <file>."
          : `--key-file: ${resolve(file)} is not there; npx turnpike keys new ${file} makes one.`,
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

/**
 * Networks that a buyer may pay on: those of --network, else those that the key's file names, else that of the running
 * `turnpike up`. Undefined leaves it to the client, which pays on test networks alone. The seller has no say in it.
 * @throws AppError USAGE, CONFIG_INVALID.
 */
export async function networksOf(
  opts: Pick<BuyerOptions, "keyFile"> & { readonly network: readonly string[] },
  up: UpFacts | undefined,
): Promise<readonly string[] | undefined> {
  const { isEvmNetwork } = await import("@turnpike/client");
  for (const network of opts.network) {
    if (isEvmNetwork(network)) continue;
    throw new AppError("USAGE", {
      message: `--network: ${JSON.stringify(network)} is not an EVM network such as eip155:8453.`,
    });
  }
  if (opts.network.length > 0) return opts.network;
  if (opts.keyFile !== undefined) {
    const { readKeyNetworks } = await import("@turnpike/config");
    const networks = readKeyNetworks(opts.keyFile);
    if (networks !== undefined) return networks;
  }
  return up === undefined ? undefined : [up.settlement.network];
}

/** JSON-RPC URLs of the nodes that are given and of the local network. @throws AppError USAGE. */
export function nodesOf(given: readonly string[], up: UpFacts | undefined): string[] {
  for (const url of given) assertServerUrl("--rpc", url);
  return up === undefined ? [...given] : [...given, up.settlement.rpc];
}
