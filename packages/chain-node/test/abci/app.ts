import { writeSync } from "node:fs";
import { silentLog } from "@turnpike/base";
import { openChainStore } from "@turnpike/chain-store";
import { startAbciServer } from "../../src/abci/server.ts";
import { testApp } from "./chain.ts";

// The application in a process of its own. It says its address and serves, until it dies in the midst of a block: before
// or after the store has it.
const [, , folder = "", address = "", dies = "never", atHeight = "0"] = process.argv;
await using store = await openChainStore({ folder });
const application = testApp(store);
const commit = application.commit.bind(application);
application.commit = async (records) => {
  const isLast = application.latestHeightBlocks() + 1n === BigInt(atHeight);
  if (isLast && dies === "before") process.kill(process.pid, "SIGKILL");
  await commit(records);
  if (isLast && dies === "after") process.kill(process.pid, "SIGKILL");
};
await using server = await startAbciServer({ address }, { application, queries: application, log: silentLog });
writeSync(1, `${server.address}\n`);
await new Promise(() => {});
