import { setFlagsFromString } from "node:v8";
import { AppError } from "@turnpike/base";
import { genesisFileText } from "@turnpike/chain";
import type { Config } from "@turnpike/config";
import { configOf } from "../../cli/config-file.ts";
import { type CommandContext, outputOf } from "../../cli/context.ts";
import { serve } from "../../cli/lifecycle.ts";
import { createLog } from "../../cli/logging.ts";
import { printExact } from "../../cli/terminal.ts";
import { exportChain, startChain } from "../../wiring/chain.ts";
import { nodeFolder } from "../../wiring/chain-folder.ts";

export interface ChainStartOptions {
  readonly json?: boolean;
  readonly config?: string;
  readonly home?: string;
}

export interface ChainRunOptions extends ChainStartOptions {
  readonly unsafeSkipUpgrades?: string;
}

export interface ChainExportOptions extends ChainStartOptions {
  readonly height?: string;
}

/**
 * How much the heap may grow over what is alive before old garbage is collected, in percent. Without it V8 lets a node's heap of
 * 70 MB grow to four times as much, on a machine with much memory; a collection of that size is a few milliseconds of this thread.
 */
const HEAP_GROWTH = "--heap-growing-percent=40";
const HEIGHT = /^[1-9]\d{0,18}$/;

function homeOf(opts: ChainStartOptions, config: Config): string {
  return nodeFolder(opts.home, config.chain.home);
}

function skippedHeights(text: string | undefined): ReadonlySet<bigint> {
  const parts = text === undefined ? [] : text.split(",");
  if (!parts.every((part) => HEIGHT.test(part))) {
    throw new AppError("USAGE", { message: "--unsafe-skip-upgrades: expected heights, such as 100 or 100,200." });
  }
  return new Set(parts.map(BigInt));
}

/** Runs a node until a signal ends it. */
export async function start(opts: ChainRunOptions, context: CommandContext): Promise<void> {
  const skipHeights = skippedHeights(opts.unsafeSkipUpgrades);
  const config = configOf(context, opts.config);
  const output = outputOf(opts);
  const log = createLog({ level: config.log.level, name: "chain" });
  setFlagsFromString(HEAP_GROWTH);
  if (skipHeights.size > 0) {
    log.warn({ heights: [...skipHeights].join(",") }, "an upgrade that is planned for such a height is dropped there");
  }
  await serve(context, { log }, async () => {
    const running = await startChain(config, homeOf(opts, config), { log, skipHeights });
    const { urls } = running;
    output.result({ ready: true, chainId: running.chainId, ...urls });
    for (const [name, url] of Object.entries(urls)) output.line(`${name.padEnd(7)} ${url}`);
    return {
      failed: running.failed,
      metrics: running.metrics,
      [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
    };
  });
}

/** Prints the state as a genesis. @throws AppError CHAIN_STORE_BUSY while a node runs there. */
export async function exportState(opts: ChainExportOptions, context: CommandContext): Promise<void> {
  const config = configOf(context, opts.config);
  const log = createLog({ level: config.log.level === "info" ? "warn" : config.log.level, name: "chain" });
  if (opts.height !== undefined && !HEIGHT.test(opts.height)) {
    throw new AppError("USAGE", { message: "--height: expected a height, such as 100." });
  }
  const height = opts.height === undefined ? undefined : BigInt(opts.height);
  const genesis = await exportChain(homeOf(opts, config), { log }, height);
  printExact(genesisFileText(genesis));
}
