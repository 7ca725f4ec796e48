import { once } from "node:events";
import { createClient, openSpendJournal, signerFromKey } from "../src/index.ts";

// A buyer that dies by SIGKILL where its first argument says, or waits there for its input, where that begins with "hold ". Only
// for tests.
const [point = "", file = "", gateway = "", key = "", body = ""] = process.argv.slice(2);
let isHeld = false;
const faults = {
  async reach(name: string): Promise<void> {
    if (`hold ${name}` === point && !isHeld) {
      isHeld = true;
      process.stdout.write("held\n");
      await once(process.stdin, "data");
    }
    if (name === point) {
      process.kill(process.pid, "SIGKILL");
      // The signal is delivered while this waits.
      await new Promise(() => setInterval(() => {}, 1_000));
    }
  },
};
const journal = await openSpendJournal({ file }, { faults });
process.stdout.write("open\n");
if (gateway === "") await new Promise(() => setInterval(() => {}, 1_000));
const client = createClient({
  gateway,
  signer: signerFromKey(key),
  budget: { perCallUsd: "0.05", totalUsd: "0.005" },
  journal,
});
const result = await client.call("eth", body);
process.stdout.write(`${result.kind}\n`);
await journal[Symbol.asyncDispose]();
