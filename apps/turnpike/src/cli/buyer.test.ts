import assert from "node:assert/strict";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, suite, test } from "node:test";
import { findUp } from "@turnpike/devnet/files";
import { runInProcess, runSpawned } from "../../test/run-command.ts";

const ACCOUNT = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
/** 50,000 units: five cents of a token of six decimals, 0.0005 of this one, which has eight. */
const TOKEN = { network: "eip155:8453", asset: "0xcbB7C0000aB88B473b1f5aFd9ef808440eed33Bf" };
const OWN_KEY = `0x${"11".repeat(32)}`;
const CALL = ["pay", "eth", "{}", "--max", "0.05"];

suite("an up.json that somebody planted", () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "turnpike-planted-")));
  const state = join(root, ".turnpike");
  const inner = join(root, "project/inner");
  const startFolder = process.cwd();
  const payments: unknown[] = [];
  let gateway: Server;
  let url = "";

  before(async () => {
    const terms = JSON.stringify({
      x402Version: 2,
      resource: { url: "http://planted/v1/eth", description: "d", mimeType: "application/json" },
      accepts: [
        {
          ...TOKEN,
          scheme: "exact",
          amount: "50000",
          payTo: ACCOUNT,
          maxTimeoutSeconds: 60,
          extra: { name: "Coinbase Wrapped BTC", version: "2" },
        },
      ],
    });
    gateway = createServer((request, response) => {
      request.resume();
      const payment = request.headers["payment-signature"];
      if (payment !== undefined) payments.push(payment);
      if (request.url === "/services.json") response.writeHead(404).end();
      else response.writeHead(402, { "payment-required": Buffer.from(terms).toString("base64") }).end(terms);
    });
    await new Promise<void>((resolve) => {
      gateway.listen(0, "127.0.0.1", resolve);
    });
    url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
    mkdirSync(inner, { recursive: true });
    writeFileSync(join(root, "own.key"), `${OWN_KEY}\n`, { mode: 0o600 });
    process.chdir(inner);
  });
  after(() => {
    process.chdir(startFolder);
    gateway?.closeAllConnections();
    gateway?.close();
    rmSync(root, { recursive: true, force: true });
  });

  /** What an archive may bring along: the owner's own file, closed to others. */
  const plant = (changes: Readonly<Record<string, unknown>> = {}): void => {
    const up = {
      gateway: url,
      settlement: { rpc: "http://127.0.0.1:2", payTo: ACCOUNT, ...TOKEN },
      buyer: { address: ACCOUNT, privateKey: `0x${"22".repeat(32)}` },
      chain: { rpc: "http://127.0.0.1:3" },
      ...changes,
    };
    writeFileSync(join(state, "up.json"), JSON.stringify(up), { mode: 0o600 });
  };

  beforeEach(() => {
    rmSync(state, { recursive: true, force: true });
    mkdirSync(state, { mode: 0o700 });
    plant();
    payments.length = 0;
  });

  test("pay signs nothing with a key of the caller's own, whether or not the gateway is named", async () => {
    const stateHome = { XDG_STATE_HOME: root };
    const env = { ...stateHome, TURNPIKE_BUYER_KEY: OWN_KEY };
    const keyFile = ["--key-file", join(root, "own.key")];
    for (const [args, given] of [
      [CALL, env],
      [[...CALL, ...keyFile], stateHome],
    ] as const) {
      const { code, err } = await runInProcess(args, given);
      assert.deepEqual([code, payments], [2, []], err);
      assert.match(err, /^error USAGE: There is no gateway .* pays only a gateway that is named\. .* --gateway http:/);
    }
    // The word of the file on the token's decimals would lift the cap of a gateway that was named as well.
    for (const [args, given] of [
      [[...CALL, "--gateway", url], env],
      [[...CALL, "--gateway", url, ...keyFile], stateHome],
      [CALL, { ...env, TURNPIKE_GATEWAY: url }],
      [CALL, stateHome],
    ] as const) {
      const { err } = await runInProcess(args, given);
      assert.match(err, /^error PAYMENT_OPTION_UNKNOWN/);
      assert.deepEqual(payments, []);
    }
  });

  test("mcp does not serve it with a key of the caller's own", async () => {
    const env = { TURNPIKE_BUYER_KEY: OWN_KEY, HOME: root, XDG_STATE_HOME: root };
    const { code, err } = await runSpawned(["mcp"], { cwd: inner, env });
    assert.match(err, /^error USAGE: There is no gateway .* TURNPIKE_BUYER_KEY pays only a gateway that is named/);
    assert.equal(code, 2);
  });

  test("only the account's own, closed to others, counts; the search goes on above it", () => {
    assert.equal(findUp(inner)?.folder, state);
    const file = join(state, "up.json");
    for (const [path, closed, modes] of [
      [file, 0o600, [0o620, 0o602, 0o640, 0o604, 0o644]],
      [state, 0o700, [0o720, 0o702, 0o775, 0o777]],
    ] as const) {
      for (const mode of modes) {
        chmodSync(path, mode);
        assert.equal(findUp(inner), undefined, `${path} ${mode.toString(8)}`);
      }
      chmodSync(path, closed);
    }
    chmodSync(state, 0o755);
    assert.equal(findUp(inner)?.folder, state);
    const nearer = join(root, "project/.turnpike");
    mkdirSync(nearer, { mode: 0o700 });
    writeFileSync(join(nearer, "up.json"), "{}", { mode: 0o600 });
    assert.equal(findUp(inner)?.folder, state);
    rmSync(nearer, { recursive: true });
  });

  test("another account's does not count", {
    skip: process.getuid?.() === 0 ? false : "only root can make one",
  }, () => {
    for (const path of [join(state, "up.json"), state]) {
      chownSync(path, 65_534, 65_534);
      assert.equal(findUp(inner), undefined, path);
      chownSync(path, 0, 0);
    }
    assert.equal(findUp(inner)?.folder, state);
  });

  test("addresses of other machines do not count", () => {
    for (const far of ["http://gw.example", "http://10.0.0.1:1", "https://127.0.0.1.example", "http://localhost@x:1"]) {
      const settlement = { rpc: far, payTo: ACCOUNT, ...TOKEN };
      for (const changes of [{ gateway: far }, { settlement }, { chain: { rpc: far } }]) {
        plant(changes);
        assert.equal(findUp(inner), undefined, JSON.stringify(changes));
      }
    }
    plant({ gateway: "http://localhost:3069" });
    assert.equal(findUp(inner)?.up.gateway, "http://localhost:3069");
  });
});

suite("what a buyer's command says of keys, passwords and connections", () => {
  const key = "1234abcd".repeat(8);
  const env = { TURNPIKE_BUYER_KEY: OWN_KEY };

  test("attack: neither a key in the place of its file nor a password of a URL is repeated", async () => {
    for (const [args, code] of [
      [["pay", "eth", "{}", "--gateway", "http://127.0.0.1:1", "--key-file", `0x${key}`], 2],
      [["pay", "eth", "{}", "--gateway", "http://127.0.0.1:1", "--key-file", `keys/${key}`], 2],
      [["pay", "eth", "{}", "--gateway", `https://me:${key}@gw.example`], 2],
      [["pay", "eth", "{}", "--gateway", `htp://me:${key}@gw.example`], 2],
      [["pay", "eth", "{}", "--gateway", "http://127.0.0.1:1", "--rpc", `https://me:${key}@rpc.example`], 1],
      [["pay", "eth", "{}", "--gateway", `http://127.0.0.1:1/${key}`], 1],
      [["keys", "show", `0x${key}`], 2],
      [["keys", "new", `0x${key}`], 2],
      [["tx", "bank", "send", "a", "b", "1upokt", "--key-file", `0x${key}`, "--node", "http://127.0.0.1:1"], 2],
    ] as const) {
      const { out, err, code: ended } = await runInProcess(args, env);
      assert.ok(!`${out}${err}`.includes("1234abcd"), `${args.join(" ")}: ${out}${err}`);
      assert.equal(ended, code, `${args.join(" ")}: ${err}`);
    }
    const { err } = await runInProcess(["pay", "eth", "{}", "--gateway", "https://me:secret@gw.example"], env);
    assert.match(err, /^error USAGE: --gateway: leave the user name and the password out of the URL of gw\.example/);
    const named = await runInProcess(["pay", "eth", "{}", "--gateway", "http://x", "--key-file", `0x${key}`], {});
    assert.match(named.err, /error USAGE: --key-file: names a file that holds the key\..* mode 600/);
  });

  test("plain HTTP to another host is warned of, and to this one it is not", async () => {
    const far = await runInProcess(["pay", "eth", "{}", "--gateway", "http://gw.invalid", "--key-file", "none"], {});
    assert.match(far.err, /^warning: --gateway: gw\.invalid is called without encryption: .*https:\/\/\nerror USAGE/);
    for (const near of ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://gw.invalid"]) {
      const { err } = await runInProcess(["pay", "eth", "{}", "--gateway", near, "--key-file", "none"], {});
      assert.match(err, /^error USAGE: --key-file/);
    }
  });
});
