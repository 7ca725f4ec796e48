import { existsSync } from "node:fs";
import { AppError } from "@turnpike/base";
import { PROTOCOL_VERSION, pocketMachine } from "@turnpike/chain";
import { chainHome, readGenesis, verifyChain } from "@turnpike/chain-node";
import { failureOf } from "../../../cli/output.ts";
import type { VerifyMessage } from "./action.ts";

const send = (message: VerifyMessage): Promise<void> =>
  new Promise((resolve) => void process.send?.(message, undefined, undefined, () => resolve()));

async function main(folder: string): Promise<void> {
  const home = chainHome(folder);
  const { storeFolder } = home;
  if (!existsSync(storeFolder)) {
    throw new AppError("CHAIN_HOME", { message: `${storeFolder} is missing: no chain ever ran in ${folder}.` });
  }
  // Before a page can end this process.
  await send({ kind: "opening", storeFolder });
  const genesis = await readGenesis(home);
  const { machine } = pocketMachine({ gasPrices: [] });
  const found = await verifyChain(
    { folder: storeFolder, genesis, version: PROTOCOL_VERSION },
    { machine, progress: (text) => void send({ kind: "progress", text }) },
  );
  await send({
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
  await send({ kind: "failed", code, message });
}
process.off("disconnect", end);
process.disconnect?.();
