import { existsSync } from "node:fs";
import { join } from "node:path";
import { AppError, bytesToHex } from "@turnpike/base";
import { chainHome, type KeptSnapshot } from "@turnpike/chain-node";
import type { Config } from "@turnpike/config";
import { configOf } from "../../../cli/config-file.ts";
import { type CommandContext, outputOf } from "../../../cli/context.ts";
import { createLog } from "../../../cli/logging.ts";
import { createProgressLine } from "../../../cli/progress-line.ts";
import { isTestnetFolder, nodeFolder } from "../../../wiring/chain-folder.ts";
import { listSnapshots, snapshotChain } from "../../../wiring/chain-snapshots.ts";

export interface ChainSnapshotListOptions {
  readonly json?: boolean;
  readonly config?: string;
  readonly home?: string;
}

export interface ChainSnapshotOptions extends ChainSnapshotListOptions {
  readonly height?: string;
}

const BYTES_PER_KB = 1_000;

/** The node's folder. @throws AppError CHAIN_HOME when it is none */
function homeOf(opts: ChainSnapshotListOptions, config: Config): string {
  const folder = nodeFolder(opts.home, config.chain.home);
  const { genesisFile } = chainHome(folder);
  if (existsSync(genesisFile)) return folder;
  const message = isTestnetFolder(folder)
    ? `${folder} is a testnet's; name a node of it, such as --home ${join(folder, "node0")}.`
    : `${genesisFile} is missing: ${folder} is no folder of a node.`;
  throw new AppError("CHAIN_HOME", { message });
}

function sizeText(bytes: number): string {
  const kilobytes = bytes / BYTES_PER_KB;
  return kilobytes < BYTES_PER_KB ? `${kilobytes.toFixed(1)} kB` : `${(kilobytes / BYTES_PER_KB).toFixed(1)} MB`;
}

const logOf = (config: Config) =>
  createLog({ level: config.log.level === "info" ? "warn" : config.log.level, name: "chain" });

const shown = ({ heightBlocks, format, chunks, hash, appHash, entries, stateBytes, fileBytes }: KeptSnapshot) => ({
  height: `${heightBlocks}`,
  format,
  chunks,
  entries,
  stateBytes,
  fileBytes,
  hash: bytesToHex(hash),
  appHash: bytesToHex(appHash),
});

/** Makes a snapshot of a node that does not run. @throws AppError USAGE, CHAIN_HOME, CHAIN_STORE_BUSY, HEIGHT_UNAVAILABLE. */
export async function snapshot(opts: ChainSnapshotOptions, context: CommandContext): Promise<void> {
  const config = configOf(context, opts.config);
  const output = outputOf(opts);
  if (opts.height !== undefined && !/^[1-9]\d{0,17}$/.test(opts.height)) {
    throw new AppError("USAGE", { message: "--height: expected a height, such as 100." });
  }
  using line = createProgressLine({ isShown: !output.json });
  const { snapshot: made, isNew } = await snapshotChain(
    {
      folder: homeOf(opts, config),
      heightBlocks: opts.height === undefined ? undefined : BigInt(opts.height),
      onProgress: (entries, bytes) => line.show(`${entries} entries, ${sizeText(bytes)}`),
    },
    { log: logOf(config) },
  );
  line.clear();
  output.result({ ...shown(made), isNew });
  if (!isNew) output.line(`Height ${made.heightBlocks} has a snapshot already.`);
  output.line(textOf(made));
}

/** Shows the snapshots of a node, newest first; it may run. @throws AppError CHAIN_HOME */
export async function listAll(opts: ChainSnapshotListOptions, context: CommandContext): Promise<void> {
  const config = configOf(context, opts.config);
  const output = outputOf(opts);
  const home = homeOf(opts, config);
  const found = await listSnapshots(home, { log: logOf(config) });
  output.result({ snapshots: found.map(shown) });
  for (const one of found) output.line(textOf(one));
  if (found.length === 0) {
    output.line(
      `No snapshots in ${home}; make one with npx turnpike chain snapshot; under CometBFT chain.snapshots.everyBlocks makes them.`,
    );
  }
}

function textOf({ heightBlocks, chunks, entries, fileBytes, appHash }: KeptSnapshot): string {
  const size = `${entries} entries  ${sizeText(fileBytes)} in ${chunks} ${chunks === 1 ? "chunk" : "chunks"}`;
  return `height ${heightBlocks}  ${size}  app hash ${bytesToHex(appHash)}`;
}
