import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { devRpc, setTokenBalance } from "@turnpike/localnet";
import { generatePrivateKey, privateKeyToAddress } from "viem/accounts";
import { type Ground, startGround } from "../support/network.ts";
import { pageScript, pageText, ROOT, type ScriptFolder, scriptFolder } from "../support/page-script.ts";
import { type OpenGateway, openGateway } from "./support.ts";

const PAGE = pageText("docs/buy.md");

suite("docs/buy.md", () => {
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

  test("its buy.mjs buys a call as it is pasted, and says so when it cannot", async () => {
    const script = pageScript(PAGE, "buy.mjs");
    const privateKey = generatePrivateKey();
    await setTokenBalance(ground.anvil.url, { address: privateKeyToAddress(privateKey), units: 5_000n });
    scripts.place("buy.mjs", script, { gateway: gateway.url, privateKey });

    const bought = await scripts.run("buy.mjs");
    assert.equal(bought.code, 0, bought.err);
    const [, block = "", transaction = ""] =
      /^block (\d+) of eth, schemaCheck passed\n(0x[0-9a-f]{64})\n$/.exec(bought.out) ?? [];
    assert.ok(Number(block) <= Number(await devRpc(ground.anvil.url, "eth_blockNumber", [])), bought.out);
    assert.notEqual(await devRpc(ground.anvil.url, "eth_getTransactionReceipt", [transaction]), null);
    await gateway.assertSettled(1);

    const empty = await scripts.run("buy.mjs");
    assert.notEqual(empty.code, 0);
    assert.match(empty.err, /402/, "the payer has nothing left");
    await gateway.assertSettled(1);
  });

  test("the packages that it tells to install are those that it is tested with", () => {
    const [line = ""] = /npm i @x402\/\S+ [^`]+/.exec(PAGE) ?? [];
    const named = [...line.matchAll(/((?:@\w+\/)?\w+)@(\d\S*)/g)].map(([, name = "", version]) => ({ name, version }));
    assert.equal(named.length, 3, line);
    for (const { name, version } of named) {
      const found = JSON.parse(readFileSync(join(ROOT, "node_modules", name, "package.json"), "utf8")) as unknown;
      assert.equal((found as { version: string }).version, version, name);
    }
  });
});
