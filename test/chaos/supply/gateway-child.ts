import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { balanceRequest, startRelay, startSessions } from "../../e2e/economy-rig.ts";

const WORKERS = 4;
const say = (text: string): void => void writeSync(1, `${text}\n`);

async function main(rpcUrl: string): Promise<void> {
  const relay = await startRelay(await startSessions(rpcUrl));
  const lines = createInterface({ input: process.stdin });
  lines.on("close", () => process.exit(0));
  lines.on("line", (count) => {
    const call = async (): Promise<void> => {
      const outcome = await relay.send(balanceRequest());
      say(`answer ${outcome.ok ? "ok" : outcome.code}`);
    };
    const work = async (): Promise<void> => {
      for (let left = Number(count) / WORKERS; left > 0; left--) await call();
    };
    void Promise.all(Array.from({ length: WORKERS }, work)).then(() => say("called"));
  });
  say("ready");
}

const [, script, rpcUrl] = process.argv;
if (script !== undefined && import.meta.filename === script && rpcUrl !== undefined) await main(rpcUrl);
