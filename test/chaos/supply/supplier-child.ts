import { once } from "node:events";
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { bytesToHex, type FaultPoints } from "@turnpike/base";
import { relayHash } from "@turnpike/protocol";
import { chainParty } from "@turnpike/testkit/chain";
import { makeRelay } from "../../../packages/supplier/test/relays.ts";
import { startSupplier, type TestSupplier } from "../../../packages/supplier/test/supplier-rig.ts";

const say = (text: string): void => void writeSync(1, `${text}\n`);

/** Ends the process as kill -9 does, when a point is reached for the n-th time. */
function killAt(point: string, times: number): FaultPoints {
  let left = times;
  return {
    reach(name) {
      if (name !== point || --left > 0) return;
      say(`killed ${point}`);
      process.kill(process.pid, "SIGKILL");
      // The signal is on its way.
      return new Promise(() => {});
    },
  };
}

/** Serves relays of the session of now, some at once, and says the hash of each whose answer may leave. */
async function serve({ queries, store, operator, head }: TestSupplier, first: number, count: number): Promise<void> {
  const application = chainParty("app");
  const found = await queries.session(application.address, "eth", head.newest?.heightBlocks ?? 1n);
  const header = found.ok ? found.value.header : undefined;
  if (header === undefined) throw new TypeError(found.ok ? "no header" : found.text);
  say(`session ${header.sessionId}`);
  const parties = { header, application, gateways: [chainParty("gateway")], supplier: chainParty("supplier") };
  const one = async (number: number): Promise<void> => {
    const relay = makeRelay(parties, `call ${number}`);
    const result = await store.append({ operatorAddress: operator, header, relay });
    say(`${result} ${bytesToHex(relayHash(relay))}`);
  };
  for (let i = 0; i < count; i += 2) await Promise.all([one(first + i), one(first + i + 1)]);
  say("served");
}

async function main(rpcUrl: string, folder: string, point: string, times: number): Promise<void> {
  const lines = createInterface({ input: process.stdin });
  const ended = new AbortController();
  lines.on("close", () => ended.abort());
  const supplier = await startSupplier(rpcUrl, folder, {
    faults: killAt(point, times),
    // Sums and removal come right after the settlement.
    store: { keepLogsMs: 3_600_000, ...(point === "supplier.sums.added" ? { keepSessionsMs: 0 } : {}) },
  });
  const { runner, head } = supplier;
  const newest = await head.waitFor(1n, ended.signal);
  void (async () => {
    for (let height = newest?.heightBlocks ?? 1n; ; height++) {
      await runner.processed(height);
      say(`processed ${height}`);
    }
  })();
  say("ready");
  lines.on("line", (line) => {
    const [, first, count] = line.split(" ");
    void serve(supplier, Number(first), Number(count));
  });
  if (!ended.signal.aborted) await once(lines, "close");
  await supplier[Symbol.asyncDispose]();
  process.exit(0);
}

const [, script, rpcUrl, folder, point = "", times = "1"] = process.argv;
if (script !== undefined && import.meta.filename === script && rpcUrl !== undefined && folder !== undefined) {
  await main(rpcUrl, folder, point, Number(times));
}
