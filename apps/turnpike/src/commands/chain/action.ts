import { join, resolve } from "node:path";
import { setFlagsFromString } from "node:v8";
import { AppError, systemClock } from "@turnpike/base";
import {
  CHAIN_PROFILES,
  chainHome,
  consensusKeyOf,
  genesisFileText,
  LOCAL_ROLES,
  type ProfileName,
} from "@turnpike/chain";
import type { Config } from "@turnpike/config";
import { configOf } from "../../cli/config-file.ts";
import { type CommandContext, outputOf } from "../../cli/context.ts";
import { serve } from "../../cli/lifecycle.ts";
import { createLog } from "../../cli/logging.ts";
import { exportChain, startChain } from "../../wiring/chain.ts";
import { keysFolderOf } from "../../wiring/chain-client.ts";
import { nodeFolder } from "../../wiring/chain-folder.ts";
import { initChain, namedKey } from "../../wiring/chain-home.ts";

export interface ChainStartOptions {
  readonly json?: boolean;
  readonly config?: string;
  readonly home?: string;
}

export interface ChainInitOptions extends ChainStartOptions {
  readonly chainId: string;
  readonly profile: ProfileName;
}

export interface ChainExportOptions extends ChainStartOptions {
  readonly height?: string;
}

/**
 * How much the heap may grow over what is alive before old garbage is collected, in percent. Without it V8 lets a node's heap of
 * 70 MB grow to four times as much, on a machine with much memory; a collection of that size is a few milliseconds of this thread.
 */
const HEAP_GROWTH = "--heap-growing-percent=40";
const SUPPLIER_URLS = ["http://127.0.0.1:8549", "http://127.0.0.1:8550"] as const;

function homeOf(opts: ChainStartOptions, config: Config): string {
  return nodeFolder(opts.home, config.chain.home);
}

/** Makes a new chain. @throws AppError DATA_FOLDER when the folder has one. */
export async function init(opts: ChainInitOptions, context: CommandContext): Promise<void> {
  const config = configOf(context, opts.config);
  const output = outputOf(opts);
  const home = homeOf(opts, config);
  if (!/^[a-zA-Z0-9._-]{1,50}$/.test(opts.chainId)) {
    throw new AppError("USAGE", {
      message: "--chain-id: expected 1 to 50 letters, digits, points, dashes and underscores.",
    });
  }
  const keysFolder = resolve(home, "keys");
  // Here alone: a node that starts needs no catalogue.
  const { chainServices } = await import("../../wiring/chain-services.ts");
  const genesis = await initChain({
    home,
    keysFolder,
    chainId: opts.chainId,
    profile: CHAIN_PROFILES[opts.profile],
    genesisTime: new Date(systemClock.nowMs()).toISOString(),
    services: chainServices(config),
    supplierUrls: SUPPLIER_URLS,
    consensusKey: await consensusKeyOf(home),
  });
  const accounts: Record<string, string> = {};
  for (const role of LOCAL_ROLES) accounts[role] = (await namedKey(keysFolder, role)).signer.address;
  output.result({ home, chainId: genesis.chain_id, genesis: chainHome(home).genesisFile, keysFolder, accounts });
  output.line(`genesis   ${chainHome(home).genesisFile}`);
  output.line(`keys      ${keysFolder}`);
  for (const [role, address] of Object.entries(accounts)) output.line(`  ${role.padEnd(17)} ${address}`);
  const named = opts.config === undefined ? "" : ` --config ${opts.config}`;
  output.line(`Start it with npx turnpike chain start --home ${home}${named}`);
}

/** Makes a key in the keys' folder, or shows the address of one. @throws AppError USAGE, CHAIN_HOME. */
export async function key(name: string, opts: ChainStartOptions): Promise<void> {
  const output = outputOf(opts);
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$/.test(name)) {
    throw new AppError("USAGE", { message: "NAME: expected up to 64 letters, digits, - and _." });
  }
  const keysFolder = keysFolderOf(opts);
  const { signer } = await namedKey(keysFolder, name);
  output.result({ name, address: signer.address, file: join(keysFolder, `${name}.json`) });
  output.line(signer.address);
}

/** Runs a node until a signal ends it. */
export async function start(opts: ChainStartOptions, context: CommandContext): Promise<void> {
  const config = configOf(context, opts.config);
  const output = outputOf(opts);
  const log = createLog({ level: config.log.level, name: "chain" });
  setFlagsFromString(HEAP_GROWTH);
  await serve(context, { log }, async () => {
    const running = await startChain(config, homeOf(opts, config), { log });
    const { urls } = running;
    output.result({ ready: true, chainId: running.chainId, ...urls });
    for (const [name, url] of Object.entries(urls)) output.line(`${name.padEnd(7)} ${url}`);
    return {
      ...(running.failed === undefined ? {} : { failed: running.failed }),
      [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
    };
  });
}

/** Prints the state as a genesis. @throws AppError CHAIN_STORE_BUSY while a node runs there. */
export async function exportState(opts: ChainExportOptions, context: CommandContext): Promise<void> {
  const config = configOf(context, opts.config);
  const log = createLog({ level: config.log.level === "info" ? "warn" : config.log.level, name: "chain" });
  if (opts.height !== undefined && !/^[1-9]\d{0,18}$/.test(opts.height)) {
    throw new AppError("USAGE", { message: "--height: expected a height, such as 100." });
  }
  const height = opts.height === undefined ? undefined : BigInt(opts.height);
  const genesis = await exportChain(homeOf(opts, config), { log }, height);
  process.stdout.write(genesisFileText(genesis));
}
