import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, suite, test } from "node:test";
import { runInProcess as run } from "../../../test/run-command.ts";

const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const KEY = `0x${"11".repeat(32)}`;
const SEPOLIA = {
  scheme: "exact",
  network: "eip155:84532",
  amount: "5000",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: PAYEE,
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
};
const BASE = {
  ...SEPOLIA,
  network: "eip155:8453",
  asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
  extra: { name: "USD Coin", version: "2" },
};

suite("pay, and the terms of a seller", () => {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-terms-"));
  const startFolder = process.cwd();
  const seller = { listedUsd: "0.005", accepts: [SEPOLIA] as object[], payments: [] as string[] };
  const server = createServer((request, response) => {
    request.resume();
    const payment = request.headers["payment-signature"];
    if (request.url === "/services.json") {
      const price = { amount: seller.listedUsd, currency: "USD" };
      response.end(JSON.stringify([{ id: "eth", serves: true, paid: true, price }]));
    } else if (typeof payment === "string") {
      seller.payments.push(payment);
      response.writeHead(402).end(JSON.stringify({ x402Version: 2, error: "PAYMENT_EXPIRED: No." }));
    } else {
      const text = JSON.stringify({ x402Version: 2, resource: { url: "http://s/v1/eth" }, accepts: seller.accepts });
      response.writeHead(402, { "payment-required": Buffer.from(text).toString("base64") }).end(text);
    }
  });
  let env: Record<string, string> = {};

  before(async () => {
    process.chdir(folder);
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const { port } = server.address() as AddressInfo;
    const state = { HOME: folder, XDG_STATE_HOME: folder };
    env = { TURNPIKE_GATEWAY: `http://127.0.0.1:${port}`, TURNPIKE_BUYER_KEY: KEY, ...state };
  });
  after(() => {
    process.chdir(startFolder);
    rmSync(folder, { recursive: true, force: true });
    server.closeAllConnections();
    server.close();
  });
  beforeEach(() => {
    seller.listedUsd = "0.005";
    seller.accepts = [SEPOLIA];
    seller.payments.length = 0;
  });

  test("attack: a price above the listed one is refused before anything is signed, and paid where --max agrees", async () => {
    seller.listedUsd = "0.0001";
    seller.accepts = [{ ...SEPOLIA, amount: "50000" }];
    for (const args of [["--json"], []]) {
      const { code, out, err } = await run(["pay", "eth", "{}", ...args], env);
      assert.equal(code, 3);
      assert.match(
        `${out}${err}`,
        /SPEND_CAP.*The price is 0\.050000 USD, and the gateway's list shows 0\.000100 USD; nothing was signed\./,
      );
      assert.match(`${out}${err}`, /A person may agree to more, on a terminal or with --max\./);
      assert.doesNotMatch(`${out}${err}`, /--max 0/);
    }
    const quote = await run(["pay", "eth", "{}", "--quote"], env);
    assert.match(quote.out, /^cap {6}0\.000100 USD: the price is over it$/m);
    assert.match(quote.out, /^to buy {3}npx turnpike pay eth '\{\}' --gateway http:\S+ --max 0\.050000$/m);
    assert.deepEqual(seller.payments, []);
    assert.equal((await run(["pay", "eth", "{}", "--max", "0.05"], env)).code, 4);
    assert.equal(seller.payments.length, 1);
  });

  test("the listed price is paid, a lower one too, and none above five cents without --max", async () => {
    assert.equal((await run(["pay", "eth", "{}"], env)).code, 4);
    seller.accepts = [{ ...SEPOLIA, amount: "4999" }];
    assert.equal((await run(["pay", "eth", '{"a":1}'], env)).code, 4);
    assert.equal(seller.payments.length, 2);
    seller.listedUsd = "0.06";
    seller.accepts = [{ ...SEPOLIA, amount: "60000" }];
    const { code, err } = await run(["pay", "eth", '{"a":2}'], env);
    assert.equal(code, 3);
    assert.match(err, /over the cap of 0\.05 USD/);
    assert.equal(seller.payments.length, 2);
  });

  test("attack: a seller of a main network gets no signature, until a person names the network", async () => {
    seller.accepts = [BASE];
    const call = ["pay", "eth", '{"n":1}'];
    const { code, err } = await run(call, env);
    assert.equal(code, 1);
    assert.match(err, /^error PAYMENT_OPTION_UNKNOWN: The gateway is paid on eip155:8453, and this buyer pays on test/);
    assert.match(err, /^A person may allow another network, with --network, or `networks` of the client\.$/m);
    const json = await run([...call, "--json"], env);
    assert.doesNotMatch(
      `${err}${json.out}`,
      /--network eip155/,
      "a program that follows advice would allow what a seller names",
    );
    const { stdin, stderr } = process;
    const terminals = [stdin.isTTY, stderr.isTTY];
    Object.assign(stdin, { isTTY: true });
    Object.assign(stderr, { isTTY: true });
    try {
      assert.match((await run(call, env)).err, /^If you mean to pay on eip155:8453, allow it: --network eip155:8453$/m);
      assert.doesNotMatch((await run([...call, "--json"], env)).out, /--network eip155/);
    } finally {
      Object.assign(stdin, { isTTY: terminals[0] });
      Object.assign(stderr, { isTTY: terminals[1] });
    }
    const other = await run([...call, "--network", "eip155:1"], env);
    assert.match(other.err, /and this buyer pays on eip155:1; nothing was signed/);
    assert.match((await run([...call, "--network", "base"], env)).err, /^error USAGE: --network: "base"/);
    assert.deepEqual(seller.payments, []);
    const allowed = await run([...call, "--network", "eip155:8453"], env);
    assert.equal(allowed.code, 4, allowed.err);
    assert.equal(seller.payments.length, 1);
  });

  test("a key file names the networks of its key, and --network is above it", async () => {
    const file = join(folder, "buyer.json");
    const { TURNPIKE_BUYER_KEY: _, ...keyless } = env;
    const pay = (...args: string[]) => run(["pay", "eth", "{}", "--quote", "--key-file", file, ...args], keyless);
    const write = (networks: unknown): void =>
      writeFileSync(file, JSON.stringify({ privateKey: KEY, networks }), { mode: 0o600 });
    seller.accepts = [BASE];
    write(undefined);
    assert.match((await pay()).err, /PAYMENT_OPTION_UNKNOWN/);
    write(["eip155:8453"]);
    assert.match((await pay()).out, /on eip155:8453/);
    assert.match((await pay("--network", "eip155:84532")).err, /PAYMENT_OPTION_UNKNOWN/);
    write("eip155:8453");
    assert.match((await pay()).err, /CONFIG_INVALID: .*networks: expected a list/);
    write(["base"]);
    assert.match((await pay()).err, /CONFIG_INVALID: networks: "base" is not an EVM network/);
  });
});
