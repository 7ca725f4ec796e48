import { existsSync } from "node:fs";
import { AppError } from "@turnpike/base";
import { PROTOCOL_VERSION, pocketMachine } from "@turnpike/chain";
import { chainHome, readGenesis, verifyChain } from "@turnpike/chain-node";
import { failureOf } from "../../../cli/output.ts";
import type { VerifyWord } from "./action.ts";

const say = (word: VerifyWord): Promise<void> =>
  new Promise((resolve) => void process.send?.(word, undefined, undefined, () => resolve()));

async function main(folder: string): Promise<void> {
  const home = chainHome(folder);
  const { storeFolder } = home;
  if (!existsSync(storeFolder)) {
    throw new AppError("CHAIN_HOME", { message: `${storeFolder} is missing: no chain ever ran in ${folder}.` });
  }
  // Before a page can end this process.
  await say({ kind: "opening", storeFolder });
  const genesis = await readGenesis(home);
  const { machine } = pocketMachine({ gasPrices: [] });
  const found = await verifyChain(
    { folder: storeFolder, genesis, version: PROTOCOL_VERSION },
    { machine, progress: (text) => void say({ kind: "progress", text }) },
  );
  await say({
    kind: "sound",
    heightBlocks: `${found.heightBlocks}`,
    appHash: Buffer.from(found.appHash).toString("hex"),
    blocks: found.blocks,
    txs: found.txs,
  });
}

// The parent is gone, and no one waits for the answer.
const end = (): void => void process.kill(process.pid, "SIGKILL");
process.once("disconnect", end);
const [, , folder = ""] = process.argv;
try {
  await main(folder);
} catch (error) {
  const { code, message } = failureOf(error);
  await say({ kind: "failed", code, message });
}
process.off("disconnect", end);
process.disconnect?.();
