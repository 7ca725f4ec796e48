import { fork } from "node:child_process";
import { once } from "node:events";
import { AppError, type ErrorCode } from "@turnpike/base";
import { configOf } from "../../../cli/config-file.ts";
import { type CommandContext, outputOf } from "../../../cli/context.ts";
import { createProgressLine } from "../../../cli/progress-line.ts";
import { nodeFolder } from "../../../wiring/chain-folder.ts";

export interface ChainVerifyOptions {
  readonly json?: boolean;
  readonly config?: string;
  readonly home?: string;
}

/** A message of the process that reads the store. */
export type VerifyMessage =
  | { readonly kind: "opening"; readonly storeFolder: string }
  | { readonly kind: "progress"; readonly text: string }
  | {
      readonly kind: "sound";
      readonly heightBlocks: string;
      /** Hex digits. */
      readonly appHash: string;
      readonly blocks: number;
      readonly txs: number;
    }
  | { readonly kind: "failed"; readonly code: ErrorCode; readonly message: string };

/** How the library ends a process that a page misleads. Any other end, as for want of memory, says nothing of the store. */
const MISLED: ReadonlySet<NodeJS.Signals> = new Set(["SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"]);

/**
 * Reads a stopped node's store whole and says whether it is sound. It is read in a process of its own: the library that
 * reads the file ends the process when a page misleads it, and that is an answer too.
 * @throws AppError CHAIN_STORE_DAMAGED when it is not, CHAIN_STORE when that is not known, CHAIN_STORE_BUSY while a node runs there, CHAIN_HOME.
 */
export async function verify(opts: ChainVerifyOptions, context: CommandContext): Promise<void> {
  const home = nodeFolder(opts.home, configOf(context, opts.config).chain.home);
  const output = outputOf(opts);
  const child = fork(new URL("./child.ts", import.meta.url), [home], {
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  let stderr = "";
  child.stderr?.on("data", (part) => {
    stderr = `${stderr}${String(part)}`.slice(-2_000);
  });
  // The child reports it: it loads the chain, which this process would load for a path alone.
  let storeFolder: string | undefined;
  let last: VerifyMessage | undefined;
  {
    using line = createProgressLine({ isShown: opts.json !== true });
    child.on("message", (message: VerifyMessage) => {
      if (message.kind === "progress") line.show(message.text);
      else if (message.kind === "opening") storeFolder = message.storeFolder;
      else last = message;
    });
    // Its last message may come after its exit.
    await Promise.all([once(child, "close"), once(child, "disconnect")]);
  }
  if (last?.kind === "sound") {
    const { heightBlocks, appHash, blocks, txs } = last;
    output.result({ sound: true, home, height: heightBlocks, appHash, blocks, txs });
    if (heightBlocks === "0") return output.line("sound: no block yet");
    output.line(`sound: block ${heightBlocks}, app hash ${appHash}`);
    output.line(blocks === 0 ? "CometBFT keeps the blocks" : `${blocks} blocks and their ${txs} transactions followed`);
    return;
  }
  if (last?.kind === "failed") throw new AppError(last.code, { message: last.message });
  const how = child.signalCode ?? `code ${child.exitCode}`;
  const lastLine = stderr === "" ? "" : ` It said: ${stderr.trim().split("\n").at(-1)}`;
  // Before it opened the store, no page of it can have ended it.
  if (storeFolder !== undefined && child.signalCode !== null && MISLED.has(child.signalCode)) {
    throw new AppError("CHAIN_STORE_DAMAGED", {
      message: `The chain's store in ${storeFolder} is damaged: reading it ended the process (${how}).${lastLine}`,
    });
  }
  throw new AppError("CHAIN_STORE", {
    message: `Whether the chain's store in ${storeFolder ?? home} is sound is not known: the process that read it was ended (${how}).${lastLine}`,
  });
}
