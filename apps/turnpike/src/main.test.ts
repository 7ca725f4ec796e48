import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import type { Command } from "commander";
import { program } from "./main.ts";

const BIN = join(import.meta.dirname, "../bin/turnpike.js");
const folder = mkdtempSync(join(tmpdir(), "turnpike-cli-"));
after(() => rmSync(folder, { recursive: true, force: true }));

interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs the command as a user does, in an empty folder and with nothing in its environment but what is given. */
function run(args: readonly string[], env: Record<string, string> = {}): Promise<Ran> {
  const child = spawn(process.execPath, [BIN, ...args], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let err = "";
  child.stdout.on("data", (part) => {
    out += String(part);
  });
  child.stderr.on("data", (part) => {
    err += String(part);
  });
  return new Promise((resolve) => {
    child.on("close", (code) => resolve({ code, out, err }));
  });
}

function leaves(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap((inner) => leaves(inner as Command));
}

suite("the command", () => {
  test("every command explains itself and its arguments, and has --json", () => {
    const all = leaves(program({ env: {}, exitWith() {}, kill: () => process.exit(1) }));
    const names = all.map((command) => `${command.parent?.name()} ${command.name()}`);
    assert.deepEqual(names, [
      "turnpike up",
      "turnpike pay",
      "keys new",
      "keys show",
      "keys address",
      "turnpike gateway",
      "turnpike facilitator",
      "config check",
      "config schema",
      "db migrate",
      "db books",
    ]);
    for (const command of all) {
      assert.ok(command.description().length > 20, command.name());
      assert.ok(
        command.options.some(({ long }) => long === "--json"),
        `${command.name()} has no --json`,
      );
      for (const option of command.options) assert.ok(option.description !== "", `${command.name()} ${option.flags}`);
    }
  });

  test("--help and --version end well", async () => {
    for (const args of [["--help"], ["keys", "new", "--help"]]) {
      const { code, out } = await run(args);
      assert.equal(code, 0, args.join(" "));
      assert.match(out, /^Usage: turnpike/);
    }
    assert.match((await run(["--version"])).out, /^\d+\.\d+\.\d+\n$/);
  });

  test("an unknown command or option is a usage error, told once, without a stack", async () => {
    const unknown = await run(["nope"]);
    assert.deepEqual([unknown.code, unknown.out], [2, ""]);
    assert.equal(unknown.err, "error USAGE: unknown command 'nope'\nSee turnpike --help.\n");
    const option = await run(["pay", "eth", "{}", "--wrong", "--json"]);
    assert.equal(option.code, 2);
    assert.deepEqual(JSON.parse(option.out), { error: { code: "USAGE", message: "unknown option '--wrong'" } });
  });

  test("an error says its code and what to do; the stack comes with --verbose only", async () => {
    const short = await run(["gateway"]);
    assert.equal(short.code, 2);
    assert.match(short.err, /^error CONFIG_INVALID: payment\.networks: empty; .+\n.+\n$/);
    assert.doesNotMatch(short.err, /\n\s+at /);
    assert.match((await run(["gateway", "--verbose"])).err, /\n\s+at /);
    const json = await run(["db", "migrate", "--json"]);
    assert.match(json.out, /^\{"error":\{"code":"CONFIG_INVALID","message":"ledger\.url: missing/);
  });

  test("config check names each fault; config schema prints the schema", async () => {
    writeFileSync(join(folder, "turnpike.yaml"), "gateway: { prot: 1 }\nlog: { level: loud }\n");
    const bad = await run(["config", "check"]);
    assert.equal(bad.code, 2);
    assert.match(bad.err, /gateway\.prot: unknown key; did you mean "port"\?/);
    assert.match(bad.err, /log\.level: expected one of/);
    const suppliers =
      "suppliers: { eth: { endpoints: [{ operator: a, urls: { json_rpc: 'https://h/secret-key' } }] } }";
    writeFileSync(join(folder, "turnpike.yaml"), suppliers);
    const good = await run(["config", "check", "--json"]);
    assert.equal(good.code, 0, good.err);
    assert.match(good.out, /"valid":true,"services":\["eth"\]/);
    assert.doesNotMatch(good.out, /secret-key/);
    rmSync(join(folder, "turnpike.yaml"));
    assert.equal(
      (await run(["config", "schema"])).out,
      readFileSync(join(import.meta.dirname, "../../../config.schema.json"), "utf8"),
    );
  });

  test("keys are made in closed files, never written over, and shown only when asked for", async () => {
    const file = join(folder, "buyer.json");
    const made = await run(["keys", "new", file]);
    assert.equal(made.code, 0, made.err);
    assert.match(made.out, /^0x[0-9a-fA-F]{40}\n$/);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    const text = readFileSync(file, "utf8");
    const { address, privateKey } = JSON.parse(text) as { address: string; privateKey: string };
    assert.equal(made.out.trim(), address);
    assert.equal((await run(["keys", "new", file])).code, 2);
    assert.equal(readFileSync(file, "utf8"), text);
    assert.doesNotMatch((await run(["keys", "show", file, "--json"])).out, new RegExp(privateKey));
    assert.match((await run(["keys", "show", file, "--show-private"])).out, new RegExp(privateKey));
    const many = await run(["keys", "new", join(folder, "relayers"), "--count", "3", "--json"]);
    assert.equal((JSON.parse(many.out) as unknown[]).length, 3);
    assert.equal(readFileSync(join(folder, "relayers"), "utf8").match(/^0x[0-9a-f]{64}$/gm)?.length, 3);
    chmodSync(file, 0o644);
    assert.match((await run(["keys", "show", file])).err, /other users can read .*chmod 600/);
  });

  test("pay says what is missing before it asks anybody", async () => {
    assert.match((await run(["pay", "eth", "{}"])).err, /USAGE: There is no gateway/);
    const env = { TURNPIKE_GATEWAY: "http://127.0.0.1:1" };
    assert.match((await run(["pay", "eth", "{}"], env)).err, /USAGE: There is no key/);
    assert.match((await run(["pay", "eth"], env)).err, /USAGE: The JSON body is missing/);
    assert.match((await run(["pay", "eth", "{'a':1}"], env)).err, /USAGE: The body is not JSON/);
    assert.match((await run(["pay", "eth", '{"a":1,"a":2}'], env)).err, /repeats the key "a"/);
    const key = { ...env, TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}` };
    const off = await run(["pay", "eth", "{}"], key);
    assert.equal(off.code, 1);
    assert.match(
      off.err,
      /SERVICE_UNAVAILABLE: The gateway at http:\/\/127\.0\.0\.1:1 cannot be reached; nothing was signed/,
    );
  });

  test("pay keeps the cap and quotes, against a stand-in that only asks for payment", async () => {
    let paid = 0;
    const terms = {
      x402Version: 2,
      resource: { url: "http://stand-in/v1/eth", description: "d", mimeType: "application/json" },
      accepts: [
        {
          scheme: "exact",
          network: "eip155:84532",
          amount: "5000",
          asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
          payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
          maxTimeoutSeconds: 60,
          extra: { name: "USDC", version: "2" },
        },
      ],
    };
    const text = JSON.stringify(terms);
    const standIn = createServer((request, response) => {
      if (request.headers["payment-signature"] !== undefined) paid++;
      request.resume();
      response.writeHead(402, { "payment-required": Buffer.from(text).toString("base64") }).end(text);
    });
    await new Promise<void>((resolve) => {
      standIn.listen(0, "127.0.0.1", resolve);
    });
    try {
      const port = (standIn.address() as AddressInfo).port;
      const env = { TURNPIKE_GATEWAY: `http://127.0.0.1:${port}`, TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}` };
      const quote = await run(["pay", "eth", "{}", "--quote"], env);
      assert.equal(quote.code, 0, quote.err);
      assert.match(quote.out, /price {4}0\.005000 USD: 5000 units/);
      assert.match(quote.out, /nothing was signed/);
      const capped = await run(["pay", "eth", "{}", "--max", "0.004999", "--json"], env);
      assert.equal(capped.code, 3);
      assert.match(capped.out, /"code":"SPEND_CAP"/);
      assert.equal(paid, 0);
      const refused = await run(["pay", "eth", "{}"], env);
      assert.equal(refused.code, 4);
      assert.match(refused.err, /^error PAYMENT_REQUIRED: /);
      assert.equal(paid, 1);
    } finally {
      standIn.closeAllConnections();
      standIn.close();
    }
  });
});
