import { writeSync } from "node:fs";
import { bytesToHex, isAppError } from "@turnpike/base";
import { openTestNode, sendTx } from "@turnpike/testkit/embedded-node";
import { must } from "./verify.ts";

/** The transaction that the child sends before block `n` of the chain: the same whenever it is asked. */
export function childTx(n: bigint): Uint8Array {
  return sendTx({ from: Number(n % 2n), sequence: n / 2n, amount: n + 1n });
}

/** Makes block after block, each with a transaction, and says each once it is committed. */
async function main(folder: string): Promise<void> {
  await using node = await openTestNode({ folder });
  node.listen((event) => {
    if (event.type !== "NewBlock") return;
    const { block, id } = event.block;
    writeSync(1, `${block.header.height} ${bytesToHex(id.hash)} ${bytesToHex(event.results.appHash)}\n`);
  });
  writeSync(1, "open\n");
  for (let height = node.moment().heightBlocks; ; height++) {
    const sent = node.submit(childTx(height - 1n));
    if (sent.kind !== "checked" || sent.result.code !== 0) throw new TypeError(`refused: ${sent.kind}`);
    must(await node.produceBlock());
  }
}

const [, script, folder] = process.argv;
if (script !== undefined && import.meta.filename === script && folder !== undefined) {
  await main(folder).catch((error: unknown) => {
    writeSync(1, `failed ${isAppError(error) ? error.code : String(error)}\n`);
    process.exit(1);
  });
}
