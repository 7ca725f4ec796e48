import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { devRpc, setTokenBalance } from "@turnpike/localnet";
import { generatePrivateKey, privateKeyToAddress } from "viem/accounts";
import { type Ground, startGround } from "../support/network.ts";
import { type OpenGateway, openGateway } from "./support.ts";

const ROOT = join(import.meta.dirname, "../..");
const PAGE = readFileSync(join(ROOT, "docs/client.md"), "utf8");

suite("docs/client.md", { timeout: 60_000 }, () => {
  let ground: Ground;
  let gateway: OpenGateway;
  const folder = mkdtempSync(join(tmpdir(), "turnpike-client-"));
  before(async () => {
    ground = await startGround();
    gateway = await openGateway(ground);
  });
  after(async () => {
    rmSync(folder, { recursive: true, force: true });
    await gateway?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  const run = (file: string): Promise<{ readonly code: unknown; readonly out: string; readonly err: string }> =>
    new Promise((resolve) => {
      execFile(process.execPath, [file], { cwd: folder, env: {}, timeout: 30_000 }, (error, out, err) => {
        resolve({ code: error?.code ?? 0, out, err });
      });
    });

  test("its agent.mjs buys as it is pasted, and its journal counts over runs until the budget is spent", async () => {
    const [, script = ""] = /```js\n(\/\/ agent\.mjs\n.*?)```/s.exec(PAGE) ?? [];
    assert.ok(script !== "", "the page has no agent.mjs");
    const privateKey = generatePrivateKey();
    await setTokenBalance(ground.anvil.url, { address: privateKeyToAddress(privateKey), units: 100_000n });
    mkdirSync(join(folder, ".turnpike"));
    writeFileSync(join(folder, ".turnpike/up.json"), JSON.stringify({ gateway: gateway.url, buyer: { privateKey } }));
    writeFileSync(join(folder, "agent.mjs"), script.replace('totalUsd: "0.05"', 'totalUsd: "0.01"'));
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));

    for (const [calls, charged] of [
      [1, "0.005000"],
      [2, "0.010000"],
    ] as const) {
      const { code, out, err } = await run("agent.mjs");
      assert.equal(code, 0, err);
      const [, block = "", transaction = ""] = /^block (\d+) for 0\.005000 USD\n(0x[0-9a-f]{64})\n/.exec(out) ?? [];
      assert.ok(Number(block) <= Number(await devRpc(ground.anvil.url, "eth_blockNumber", [])), out);
      assert.notEqual(await devRpc(ground.anvil.url, "eth_getTransactionReceipt", [transaction]), null);
      assert.match(out, new RegExp(`chargedUsd: '${charged}'[^}]*calls: ${calls}`));
      await gateway.assertSettled(calls);
    }
    const spent = await run("agent.mjs");
    assert.notEqual(spent.code, 0);
    assert.match(spent.err, /BUDGET_SPENT|are left of the budget of 0\.010000 USD/);
    await gateway.assertSettled(2);
  });

  test("names every option of the client, and every call", () => {
    const types = readFileSync(join(ROOT, "packages/client/src/types.ts"), "utf8");
    const membersOf = (name: string): string[] => {
      const [, body = ""] = new RegExp(`export interface ${name} \\{\\n(.*?)\\n\\}`, "s").exec(types) ?? [];
      return [...body.matchAll(/^ {2}(?:readonly )?(\w+)[?(:]/gm)].map(([, member = ""]) => member);
    };
    const options = [...membersOf("ClientOptions"), ...membersOf("Budget"), ...membersOf("CallOptions")];
    assert.ok(options.length > 8 && membersOf("Client").length === 5);
    for (const option of options) assert.match(PAGE, new RegExp(`\`${option}\``), option);
    for (const call of membersOf("Client")) assert.match(PAGE, new RegExp(`\`client\\.${call}\\(`), call);
  });
});
