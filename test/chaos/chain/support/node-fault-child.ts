import { writeSync } from "node:fs";
import type { FaultPoints } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { createLog } from "../../../../apps/turnpike/src/cli/logging.ts";
import { startChain } from "../../../../apps/turnpike/src/wiring/chain.ts";

// `turnpike chain start` as the command wires it, which kills itself the n-th time that a fault point is reached. It says
// every point that it reaches for the first time, and every block that is on the disk.
const [, , file = "", point = "", nth = "1"] = process.argv;

const say = (word: object): void => void writeSync(1, `${JSON.stringify(word)}\n`);

const seen = new Map<string, number>();
const faults: FaultPoints = {
  reach(name) {
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    if (times === 1) say({ reached: name });
    if (name === "chain-store.written") say({ written: true });
    if (name !== point || times !== Number(nth)) return;
    say({ dying: true });
    // The system ends the process before this call returns: within a transaction nothing more is done.
    process.kill(process.pid, "SIGKILL");
  },
};

const config = loadConfig({ file, env: {} });
const log = createLog({ level: config.log.level, name: "chain" });
await using running = await startChain(config, config.chain.home ?? "", { log, faults });
say({ ready: true, chainId: running.chainId, ...running.urls });
await (running.failed ?? new Promise(() => {}));
