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
const PAGE = readFileSync(join(ROOT, "docs/buy.md"), "utf8");

suite("docs/buy.md", { timeout: 60_000 }, () => {
  let ground: Ground;
  let gateway: OpenGateway;
  const folder = mkdtempSync(join(tmpdir(), "turnpike-buy-"));
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

  test("its buy.mjs buys a call as it is pasted, and says so when it cannot", async () => {
    const [, script = ""] = /```js\n(\/\/ buy\.mjs\n.*?)```/s.exec(PAGE) ?? [];
    assert.ok(script !== "", "the page has no buy.mjs");
    const privateKey = generatePrivateKey();
    await setTokenBalance(ground.anvil.url, { address: privateKeyToAddress(privateKey), units: 5_000n });
    mkdirSync(join(folder, ".turnpike"));
    const up = { gateway: gateway.url, buyer: { privateKey } };
    writeFileSync(join(folder, ".turnpike/up.json"), JSON.stringify(up));
    writeFileSync(join(folder, "buy.mjs"), script);
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));

    const bought = await run("buy.mjs");
    assert.equal(bought.code, 0, bought.err);
    const [, block = "", transaction = ""] =
      /^block (\d+) of eth, schemaCheck passed\n(0x[0-9a-f]{64})\n$/.exec(bought.out) ?? [];
    assert.ok(Number(block) <= Number(await devRpc(ground.anvil.url, "eth_blockNumber", [])), bought.out);
    assert.notEqual(await devRpc(ground.anvil.url, "eth_getTransactionReceipt", [transaction]), null);
    await gateway.assertSettled(1);

    const empty = await run("buy.mjs");
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
