import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { devRpc, setTokenBalance } from "@turnpike/localnet";
import { generatePrivateKey, privateKeyToAddress } from "viem/accounts";
import { type Ground, startGround } from "../support/network.ts";
import { pageScript, pageText, ROOT, type ScriptFolder, scriptFolder } from "../support/page-script.ts";
import { type OpenGateway, openGateway } from "./support.ts";

const PAGE = pageText("docs/client.md");

suite("docs/client.md", () => {
  let ground: Ground;
  let gateway: OpenGateway;
  let scripts: ScriptFolder;
  before(async () => {
    scripts = scriptFolder();
    ground = await startGround();
    gateway = await openGateway(ground);
  });
  after(async () => {
    scripts?.[Symbol.dispose]();
    await gateway?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  test("its agent.mjs buys as it is pasted, and its journal counts over runs until the budget is spent", async () => {
    const script = pageScript(PAGE, "agent.mjs");
    const privateKey = generatePrivateKey();
    await setTokenBalance(ground.anvil.url, { address: privateKeyToAddress(privateKey), units: 100_000n });
    const cheap = script.replace('totalUsd: "0.05"', 'totalUsd: "0.01"');
    scripts.place("agent.mjs", cheap, { gateway: gateway.url, privateKey });

    for (const [calls, charged] of [
      [1, "0.005000"],
      [2, "0.010000"],
    ] as const) {
      const { code, out, err } = await scripts.run("agent.mjs");
      assert.equal(code, 0, err);
      const [, block = "", transaction = ""] = /^block (\d+) for 0\.005000 USD\n(0x[0-9a-f]{64})\n/.exec(out) ?? [];
      assert.ok(Number(block) <= Number(await devRpc(ground.anvil.url, "eth_blockNumber", [])), out);
      assert.notEqual(await devRpc(ground.anvil.url, "eth_getTransactionReceipt", [transaction]), null);
      assert.match(out, new RegExp(`chargedUsd: '${charged}'[^}]*calls: ${calls}`));
      await gateway.assertSettled(calls);
    }
    const spent = await scripts.run("agent.mjs");
    assert.equal(spent.code, 1);
    assert.match(spent.err, /^BUDGET_SPENT: .* are left of the budget of 0\.010000 USD.*\n$/, "one line, and no stack");
    assert.match(spent.out, /chargedUsd: '0\.010000'/);
    await gateway.assertSettled(2);
  });

  test("names every option of the client, and every call", () => {
    const types = readFileSync(join(ROOT, "packages/client/src/types.ts"), "utf8");
    const membersOf = (name: string): string[] => {
      const [, body = ""] = new RegExp(`export interface ${name}\\b[^{]*\\{\\n(.*?)\\n\\}`, "s").exec(types) ?? [];
      return [...body.matchAll(/^ {2}(?:readonly )?(\w+)[?(:]/gm)].map(([, member = ""]) => member);
    };
    const options = [...membersOf("ClientOptions"), ...membersOf("Budget"), ...membersOf("CallOptions")];
    assert.ok(options.length > 8 && membersOf("Client").length === 6);
    for (const option of options) assert.match(PAGE, new RegExp(`\`${option}\``), option);
    for (const call of membersOf("Client")) assert.match(PAGE, new RegExp(`\`client\\.${call}\\(`), call);
  });
});
