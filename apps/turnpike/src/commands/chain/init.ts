import { resolve } from "node:path";
import { AppError, systemClock } from "@turnpike/base";
import { readCatalogue } from "@turnpike/catalogue";
import { CHAIN_PROFILES, LOCAL_ROLES, type ProfileName } from "@turnpike/chain";
import { chainHome, consensusKeyOf } from "@turnpike/chain-node";
import { initChain, localServices, namedKey } from "@turnpike/devnet";
import { configOf } from "../../cli/config-file.ts";
import { type CommandContext, outputOf } from "../../cli/context.ts";
import { catalogueOptions } from "../../wiring/catalogue.ts";
import { nodeFolder } from "../../wiring/chain-folder.ts";
import type { ChainStartOptions } from "./action.ts";

export interface ChainInitOptions extends ChainStartOptions {
  readonly chainId: string;
  readonly profile: ProfileName;
}

const SUPPLIER_URLS = ["http://127.0.0.1:8549", "http://127.0.0.1:8550"] as const;

/** Makes a new chain. @throws AppError DATA_FOLDER when the folder has one. */
export async function init(opts: ChainInitOptions, context: CommandContext): Promise<void> {
  const config = configOf(context, opts.config);
  const output = outputOf(opts);
  const home = nodeFolder(opts.home, config.chain.home);
  if (!/^[a-zA-Z0-9._-]{1,50}$/.test(opts.chainId)) {
    throw new AppError("USAGE", {
      message: "--chain-id: expected 1 to 50 letters, digits, points, dashes and underscores.",
    });
  }
  const keysFolder = resolve(home, "keys");
  const genesis = await initChain({
    home,
    keysFolder,
    chainId: opts.chainId,
    profile: CHAIN_PROFILES[opts.profile],
    genesisTime: new Date(systemClock.nowMs()).toISOString(),
    services: localServices(readCatalogue(catalogueOptions(config)).catalogue),
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
