import { existsSync, readFileSync } from "node:fs";
import { createChainSigner } from "@turnpike/chain-client";
import { main } from "../../../../apps/turnpike/src/main.ts";
import { BYZANTINE_FILE, type ByzantineFile } from "./byzantine-file.ts";
import { ByzantineProxy } from "./byzantine-proxy.ts";

// The turnpike command, with a proxy before the application of a node whose folder says so.
if (existsSync(BYZANTINE_FILE)) {
  const file = JSON.parse(readFileSync(BYZANTINE_FILE, "utf8")) as ByzantineFile;
  const signer = createChainSigner(Buffer.from(file.privateKey, "hex"));
  const account = { signer, accountNumber: BigInt(file.accountNumber), chainId: file.chainId };
  const { abciPort, log } = file;
  new ByzantineProxy({ abciPort, log, account, fromHeight: BigInt(file.fromHeight) }).listen();
}
await main(process.argv.slice(2), process.env);
