import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { writePidFile } from "@turnpike/base";

import type { Command } from "commander";
import { COMMAND_FILE, runInProcess as run, runSpawned } from "../test/run-command.ts";
import { program } from "./main.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike-cli-"));
const startFolder = process.cwd();
process.chdir(folder);
after(() => {
  process.chdir(startFolder);
  rmSync(folder, { recursive: true, force: true });
});

/** A device that is full is of Linux alone. */
const FULL_DISK = { skip: !existsSync("/dev/full") };

const ADDRESS = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

/** What every route of a stand-in asks for. */
const TERMS = {
  x402Version: 2,
  resource: { url: "http://stand-in/v1/eth", description: "d", mimeType: "application/json" },
  accepts: [
    {
      scheme: "exact",
      network: "eip155:84532",
      amount: "5000",
      asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
      payTo: ADDRESS,
      maxTimeoutSeconds: 60,
      extra: { name: "USDC", version: "2" },
    },
  ],
};

/** A stand-in for a gateway that lists services and asks for payment; `paid` answers what is paid. */
async function withStandIn(
  paid: (response: ServerResponse) => void,
  work: (env: Record<string, string>, payments: string[]) => Promise<void>,
): Promise<void> {
  const payments: string[] = [];
  const list = [
    {
      id: "eth",
      serves: true,
      paid: true,
      example: { method: "eth_blockNumber" },
      methods: ["eth_blockNumber", "GET /x"],
    },
    { id: "osmosis", serves: false, paid: true, example: {} },
    { id: "free", serves: true, paid: false, relayUrl: "http://relay/free" },
  ];
  const text = JSON.stringify(TERMS);
  const server = createServer((request, response) => {
    request.resume();
    const payment = request.headers["payment-signature"];
    if (request.url === "/services.json") response.end(JSON.stringify(list));
    else if (typeof payment === "string") {
      payments.push(payment);
      paid(response);
    } else response.writeHead(402, { "payment-required": Buffer.from(text).toString("base64") }).end(text);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  try {
    const gateway = `http://127.0.0.1:${port}`;
    const env = { TURNPIKE_GATEWAY: gateway, TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}`, XDG_STATE_HOME: folder };
    await work(env, payments);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const refusing =
  (status: number, body: Record<string, unknown>, receipt?: Record<string, unknown>) =>
  (response: ServerResponse): void => {
    const header = Buffer.from(JSON.stringify(receipt ?? {})).toString("base64");
    response.writeHead(status, receipt === undefined ? {} : { "payment-response": header }).end(JSON.stringify(body));
  };

/** Commands that can be run: those without others below them, and those that have options of their own. */
function leaves(command: Command): Command[] {
  const below = command.commands.flatMap((inner) => leaves(inner as Command));
  const isRun = below.length === 0 || (command.parent !== null && command.options.length > 0);
  return isRun ? [command, ...below] : below;
}

suite("the command", () => {
  test("every command explains itself and its arguments, and has --json", () => {
    const all = leaves(program({ env: {}, exitWith() {}, kill: () => process.exit(1) }));
    // Those of `tx` and `query` are rows of tables; commands/tx/page.test.ts looks at each of them.
    const isRow = ({ parent }: Command): boolean =>
      [parent?.name(), parent?.parent?.name()].some((name) => name === "tx" || name === "query");
    const names = all
      .filter((command) => !isRow(command))
      .map((command) => `${command.parent?.name()} ${command.name()}`);
    assert.deepEqual(names, [
      "turnpike up",
      "turnpike pay",
      "turnpike mcp",
      "keys new",
      "keys show",
      "keys address",
      "turnpike gateway",
      "relay suppliers",
      "relay drain",
      "relay undrain",
      "relay reset-score",
      "relay forgive",
      "relay flags",
      "relay purge-cache",
      "relay forget",
      "relay reload",
      "turnpike facilitator",
      "config check",
      "config schema",
      "chain init",
      "chain start",
      "chain export",
      "chain rules",
      "chain snapshot",
      "snapshot list",
      "chain verify",
      "chain testnet",
      "testnet join",
      "testnet start",
      "testnet stop",
      "chain key",
      "turnpike db",
      "db migrate",
      "db doctor",
      "db ledger",
      "db token",
      "db revoke",
      "settlements transactions",
      "settlements contract",
      "settlements cancel",
      "settlements retry",
      "settlements release",
      "settlements block",
      "settlements unblock",
      "settlements blocked",
      "turnpike search",
      "search index",
      "search status",
      "supplier start",
      "supplier status",
      "supplier check",
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

  test("in a process of its own: outputs and exit codes", async () => {
    const [version, help, unknown, capless, gateway] = await Promise.all([
      runSpawned(["--version"], { cwd: folder }),
      runSpawned(["keys", "new", "--help"], { cwd: folder }),
      runSpawned(["nope"], { cwd: folder }),
      runSpawned(["pay", "eth", "{}", "--max", "abc", "--json"], { cwd: folder }),
      runSpawned(["gateway"], { cwd: folder }),
    ]);
    assert.deepEqual(version, { code: 0, out: (await run(["--version"])).out, err: "" });
    assert.deepEqual([help.code, help.err], [0, ""]);
    assert.match(help.out, /^Usage: turnpike keys new/);
    assert.deepEqual(unknown, { code: 2, out: "", err: (await run(["nope"])).err });
    assert.deepEqual([capless.code, capless.err], [2, ""]);
    assert.match(capless.out, /^\{"error":\{"code":"USAGE"/);
    assert.deepEqual([gateway.code, gateway.out], [2, ""]);
    assert.match(gateway.err, /^error CONFIG_INVALID: /);
  });

  test("attack: output that is lost to a full disk is a failure with a line on the error output", FULL_DISK, () => {
    const full = openSync("/dev/full", "w");
    const { status, stderr } = spawnSync(process.execPath, [COMMAND_FILE, "config", "schema"], {
      stdio: ["ignore", full, "pipe"],
      encoding: "utf8",
    });
    closeSync(full);
    assert.deepEqual([status, stderr], [1, "error INTERNAL: The output could not be written (ENOSPC).\n"]);
  });

  test("an unknown command or option is a usage error, told once, without a stack", async () => {
    const unknown = await run(["nope"]);
    assert.deepEqual([unknown.code, unknown.out], [2, ""]);
    assert.equal(unknown.err, "error USAGE: unknown command 'nope'\nSee npx turnpike --help.\n");
    const option = await run(["pay", "eth", "{}", "--wrong", "--json"]);
    assert.equal(option.code, 2);
    assert.deepEqual(JSON.parse(option.out), { error: { code: "USAGE", message: "unknown option '--wrong'" } });
  });

  test("an error says its code and what to do; the stack comes with --verbose only", async () => {
    const short = await run(["gateway"]);
    assert.equal(short.code, 2);
    assert.match(
      short.err,
      /^error CONFIG_INVALID: payment\.networks: empty; .+\nledger\.url: missing; .+\npayment\.relayer\.keysFile: .+\nNo file was read: .+\n.+\n$/,
    );
    assert.doesNotMatch(short.err, /\n\s+at /);
    assert.match((await run(["gateway", "--verbose"])).err, /\n\s+at /);
    const json = await run(["db", "migrate", "--json"]);
    assert.match(json.out, /^\{"error":\{"code":"CONFIG_INVALID","message":"ledger\.url: missing/);
    const away = "postgres://portal_authenticator:not-there@127.0.0.1:1/portal";
    writeFileSync(join(folder, "turnpike.yaml"), `portalDb: { ownerUrl: "${away}", url: "${away}" }\n`);
    const portal = await run(["db", "migrate", "--json"]);
    rmSync(join(folder, "turnpike.yaml"));
    assert.match(portal.out, /"PORTAL_DB_UNAVAILABLE"/, "management data alone needs no ledger");
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
    const idle = await run(["config", "check"]);
    assert.equal(idle.code, 2);
    for (const path of [
      /payment\.networks: empty/,
      /ledger\.url: missing/,
      /payment\.relayer\.keysFile: there is no/,
    ]) {
      assert.match(idle.err, path);
    }
    const network = `{ network: 'eip155:1', rpcUrls: ['http://127.0.0.1:1'], asset: '${ADDRESS}', name: T, payTo: '${ADDRESS}' }`;
    writeFileSync(join(folder, "turnpike.yaml"), `${suppliers}\npayment: { networks: [${network}] }\n`);
    const env = { DATABASE_URL: "postgres://127.0.0.1/none", TURNPIKE_RELAYER_KEYS: `0x${"11".repeat(32)}` };
    const good = await run(["config", "check", "--json"], env);
    assert.equal(good.code, 0, good.err);
    assert.match(good.out, /"valid":true,"services":\["eth"\]/);
    writeFileSync(
      join(folder, "turnpike.yaml"),
      `${suppliers}\npayment: { networks: [${network}] }\nsearch: { engines: [{ kind: brave, apiKey: secret-key }] }\n`,
    );
    const engines = await run(["config", "check", "--json"], env);
    assert.match(engines.out, /"apiKey":"\[hidden\]"/);
    assert.doesNotMatch(engines.out, /secret-key/);
    assert.doesNotMatch(good.out, /secret-key/);
    for (const [text, said] of [
      ["chain: { home: chain }", /a node of the chain, and nothing for a gateway/],
      [`payment: { mode: none }\n${suppliers}`, /valid: nothing is sold, 1 service/],
    ] as const) {
      writeFileSync(join(folder, "turnpike.yaml"), text);
      assert.match((await run(["config", "check"])).out, said);
    }
    assert.match((await run(["db", "migrate"])).out, /nothing to make: nothing is sold/);
    writeFileSync(join(folder, "turnpike.yaml"), "chain: { home: chain }");
    const both = await run(["config", "check"], { TURNPIKE_FACILITATOR_KEYS: `0x${"12".repeat(32)}` });
    assert.match(both.err, /payment\.networks: empty/, "a facilitator is checked also beside a node");
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

  test("a file with a token or a key that others can read is refused; a configuration with one is warned of", async () => {
    const secret = join(folder, "secret");
    writeFileSync(secret, "0f1e2d3c4b5a69788796a5b4c3d2e1f0\n", { mode: 0o644 });
    const env = { TURNPIKE_GATEWAY: "http://127.0.0.1:1", TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}` };
    const journal = ["--journal", join(folder, "mcp.jsonl")];
    const agent = await run(["mcp", "--http", "--port", "0", "--token-file", secret, ...journal], env);
    assert.equal(agent.code, 2);
    assert.match(agent.err, /^error CONFIG_INVALID: --token-file: other users can read \/.*\/secret; run chmod 600/);
    const minted = await run(["db", "token", "--role", "reader", "--key-file", secret]);
    assert.match(minted.err, /^error CONFIG_INVALID: --key-file: other users can read/);
    const config = join(folder, "open.yaml");
    writeFileSync(config, "chain: { home: chain }\nadmin: { token: 0f1e2d3c4b5a69788796a5b4c3d2e1f0 }\n");
    const open = await run(["config", "check", config, "--json"]);
    assert.equal(open.code, 0);
    assert.match(open.err, /^warning: other users can read \/.*open\.yaml, which holds admin\.token; run chmod 600/);
    assert.doesNotMatch(open.err + open.out, /0f1e2d3c/);
    chmodSync(config, 0o600);
    assert.equal((await run(["config", "check", config])).err, "");
  });

  test("pay says what is missing before it asks anybody", async () => {
    assert.match((await run(["pay", "eth", "{}"])).err, /USAGE: There is no gateway/);
    const env = { TURNPIKE_GATEWAY: "http://127.0.0.1:1" };
    assert.match((await run(["pay", "eth", "{}"], env)).err, /USAGE: There is no key/);
    assert.match((await run(["pay", "eth"], env)).err, /USAGE: The JSON body is missing/);
    assert.match((await run(["pay", "eth", "{'a':1}"], env)).err, /USAGE: The body is not JSON/);
    assert.match((await run(["pay", "eth", '{"a":1,"a":2}'], env)).err, /repeats the key "a"/);
    const key = { ...env, TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}` };
    const odd = await run(["pay", "eth", "{}"], { ...env, TURNPIKE_BUYER_KEY: "0x12secret" });
    assert.equal(odd.code, 2);
    assert.match(odd.err, /TURNPIKE_BUYER_KEY: expected a private key: 0x and 64 hex digits\./);
    const agent = await run(["mcp"], { ...env, TURNPIKE_BUYER_KEY: "0x12secret" });
    assert.match(agent.err, /TURNPIKE_BUYER_KEY: expected a private key/);
    assert.doesNotMatch(odd.err + agent.err, /12secret/);
    const off = await run(["pay", "eth", "{}"], key);
    assert.equal(off.code, 1);
    assert.match(
      off.err,
      /GATEWAY_UNREACHABLE: The gateway at http:\/\/127\.0\.0\.1:1 cannot be reached; nothing was signed\.\nStart one with npm start/,
    );
    const cap = await run(["pay", "eth", "{}", "--max", "abc"], key);
    assert.deepEqual([cap.code, cap.err.split("\n")[1]], [2, "See npx turnpike pay --help."]);
    assert.match(cap.err, /^error USAGE: --max: "abc" is no amount of US dollars/);
    const lost = await run(["pay", "eth", "{}", "--key-file", "lost.json"], env);
    assert.equal(lost.code, 2);
    assert.match(lost.err, /^error USAGE: --key-file: \/.*\/lost\.json is not there; npx turnpike keys new lost\.json/);
    assert.match(
      (await run(["keys", "show", "lost.json"])).err,
      /^error USAGE: .*\/lost\.json is not there\.\nSee npx turnpike keys show --help/,
    );
  });

  test("pay keeps the cap and quotes, against a stand-in that only asks for payment", async () => {
    let paid = 0;
    const text = JSON.stringify(TERMS);
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
      const gateway = `http://127.0.0.1:${port}`;
      const env = { TURNPIKE_GATEWAY: gateway, TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}`, XDG_STATE_HOME: folder };
      const quote = await run(["pay", "eth", "{}", "--quote"], { TURNPIKE_GATEWAY: env.TURNPIKE_GATEWAY });
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

  test("what needs a running npm start says when it is still starting", async () => {
    const state = join(folder, ".turnpike");
    mkdirSync(state);
    try {
      await writePidFile(join(state, "up.lock"), process.pid);
      const own = readFileSync(join(state, "up.lock"), "utf8");
      for (const [lock, said] of [
        [own, /^error USAGE: .*`npm start` is still starting here\. Wait until it says ready/],
        [
          own.replace(/"started":"/, "$&another "),
          /^error (USAGE: There is no gateway to buy from: no `npm start` runs|CONFIG_INVALID: .*ledger\.url)/,
        ],
      ] as const) {
        writeFileSync(join(state, "up.lock"), lock);
        assert.match((await run(["pay", "eth", "{}"])).err, said);
        assert.match((await run(["db", "ledger"])).err, said);
      }
    } finally {
      rmSync(state, { recursive: true });
    }
  });

  test("pay looks at the gateway's list before it signs", async () => {
    const never = (): void => assert.fail("nothing may be signed");
    await withStandIn(never, async (env, payments) => {
      const typo = await run(["pay", "etth", "{}"], env);
      assert.equal(typo.code, 1);
      assert.match(
        typo.err,
        /^error UNKNOWN_SERVICE: .* has no service "etth"; nothing was signed\. Did you mean eth\?/,
      );
      const idle = await run(["pay", "osmosis/status", "--get"], env);
      assert.match(
        idle.err,
        /^error NO_SUPPLIERS: No supplier serves osmosis now; .* The gateway serves now: eth\. --anyway asks/,
      );
      assert.match(
        (await run(["pay", "free", "{}"], env)).err,
        /free is not sold; .* It is free at http:\/\/relay\/free\./,
      );
      const method = await run(["pay", "eth", '{"method":"eth_blockNumbr"}'], env);
      assert.match(
        method.err,
        /^error METHOD_NOT_ALLOWED: eth does not sell "eth_blockNumbr"; nothing was signed\. Did you mean eth_blockNumber\?/,
      );
      assert.equal(
        (await run(["pay", "eth/x", '{"method":"transfer"}', "--quote"], env)).code,
        0,
        "the path is the method",
      );
      const body = await run(["pay", "eth"], env);
      assert.equal(body.code, 2);
      assert.match(
        body.err,
        /The JSON body is missing, or --get\. For example:\nnpx turnpike pay eth '\{"method":"eth_blockNumber"\}'\nSee npx turnpike pay --help/,
      );
      assert.equal((await run(["pay", "osmosis", "{}", "--quote"], env)).code, 0, "a quote signs nothing");
      assert.deepEqual(payments, []);
    });
    const gone = refusing(503, { code: "SERVICE_UNAVAILABLE", message: "Not now.", retryable: true });
    await withStandIn(gone, async (env, payments) => {
      const asked = await run(["pay", "osmosis", '{"a":"it\'s"}', "--anyway"], env);
      assert.equal(asked.code, 4);
      const [error, charge, what, again = ""] = asked.err.split("\n");
      assert.equal(error, 'error SERVICE_UNAVAILABLE: The gateway says: "Not now."');
      assert.match(
        charge ?? "",
        /^Nothing was charged, as the gateway says\. A budget counts the payment as spent until /,
      );
      assert.match(what ?? "", /^The payment is good until it expires/);
      const shell = `npx turnpike pay osmosis '{"a":"it'\\''s"}' --gateway ${env.TURNPIKE_GATEWAY} --payment ${payments[0]}`;
      assert.equal(again, shell);
      const args = ["pay", "osmosis", '{"a":"it\'s"}', "--payment", payments[0] ?? ""];
      assert.equal((await run(args, env)).code, 4);
      assert.equal(new Set(payments).size, 1, "the same payment, and nothing new");
    });
  });

  test("pay tells the fields of a 422, in lines; --json is as the gateway says it", async () => {
    const detail = [
      { loc: ["body", "query"], msg: "Field required\nerror PAID: \u001b[2J", type: "missing" },
      { loc: ["body", "filters", 0, "site"], msg: "Too long", type: "x" },
    ];
    await withStandIn(refusing(422, { detail }), async (env) => {
      const told = await run(["pay", "eth", "{}"], env);
      assert.equal(told.code, 4);
      assert.deepEqual(told.err.split("\n").slice(0, 3), [
        "error VALIDATION_FAILED: The query is not valid.",
        '  "query": "Field required error PAID: \\u001b[2J"',
        '  "filters.0.site": "Too long"',
      ]);
      const { code, message } = JSON.parse((await run(["pay", "eth", "{}", "--json"], env)).out) as Record<
        string,
        string
      >;
      assert.equal(code, "VALIDATION_FAILED");
      assert.deepEqual(JSON.parse(message ?? ""), detail);
    });
  });

  test("pay spends one budget over the calls of a journal", async () => {
    const error = "PAYMENT_SETTLEMENT_FAILED: The payment could not be settled. Sign a new payment.";
    await withStandIn(refusing(402, { x402Version: 2, error }), async (env, payments) => {
      const alone = await run(["pay", "eth", "{}", "--total", "1"], env);
      assert.deepEqual([alone.code, payments.length], [2, 0]);
      assert.match(alone.err, /^error USAGE: --total is over the calls of one journal: give --journal/);
      const folder = mkdtempSync(join(tmpdir(), "turnpike-pay-"));
      try {
        const budget = ["--journal", join(folder, "spend.jsonl"), "--total", "0.009"];
        assert.equal((await run(["pay", "eth", "{}", ...budget], env)).code, 4);
        const spent = await run(["pay", "eth", '{"a":1}', ...budget], env);
        assert.deepEqual([spent.code, payments.length], [3, 1], "the first signature can still be taken");
        assert.match(
          spent.err,
          /^error BUDGET_SPENT: The call costs 0\.005000 USD and 0\.004000 USD are left .*nothing was/,
        );
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  });

  test("pay says what became of a settlement, and its code once", async () => {
    const error = "PAYMENT_SETTLEMENT_FAILED: The payment could not be settled. Sign a new payment.";
    const receipt = { success: false, errorReason: "cancelled", transaction: "", network: "eip155:84532" };
    await withStandIn(refusing(402, { x402Version: 2, error }, receipt), async (env) => {
      const failed = await run(["pay", "eth", "{}"], env);
      assert.equal(failed.code, 4);
      assert.match(
        failed.err,
        /^error PAYMENT_SETTLEMENT_FAILED: The gateway says: "The payment could not be settled\. Sign a new payment\."\nNothing was charged, as the gateway says\. [^\n]+\n$/,
      );
      assert.match(failed.out, /^receipt {2}none: attempted \("cancelled"\)$/m);
    });
  });

  test("pay never says that nothing was charged where a payment was used", async () => {
    const error = "PAYMENT_NONCE_USED: The payment was used.";
    const receipt = { success: false, errorReason: "used", transaction: "", network: "eip155:84532" };
    await withStandIn(refusing(402, { x402Version: 2, error }, receipt), async (env) => {
      const used = await run(["pay", "eth", "{}"], env);
      assert.equal(used.code, 6);
      assert.match(used.err, /was charged, or may have been/);
      assert.doesNotMatch(`${used.out}${used.err}`, /[Nn]othing was charged/);
    });
  });

  test("db token and revoke without anything that runs or is configured name both ways", async () => {
    for (const args of [
      ["db", "token", "--role", "reader"],
      ["db", "revoke", "an-id"],
    ]) {
      const { code, err } = await run(args);
      assert.equal(code, 2);
      assert.match(err, /^error USAGE: There is no management data .* no `npm start` runs .*--config/);
    }
    const own = await run(["db", "token", "--role", "reader"], { TURNPIKE_CONFIG: "lost.yaml" });
    assert.doesNotMatch(own.err, /npm start/, "a configuration that is named is what is wrong");
  });

  test("db ledger: states and limits are checked before anything is opened", async () => {
    const states = await run(["db", "ledger", "--list", "owed,lost"]);
    assert.deepEqual([states.code, states.err.split("\n")[1]], [2, "See npx turnpike db ledger --help."]);
    assert.match(states.err, /^error USAGE: --list: expected states of claimed, /);
    assert.match((await run(["db", "ledger", "--limit", "0"])).err, /^error USAGE: --limit: expected an integer/);
  });
});
