import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { connect } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, suite, test } from "node:test";
import { isAlive, readPidFile } from "@turnpike/base";
import type { UpFile } from "@turnpike/devnet/files";
import { type StateLayout, stateLayout } from "@turnpike/devnet/up";
import { anvilUrlOf, devRpc, endProcess, freePort, USDC_ADDRESS } from "@turnpike/localnet";
import type { SearchAnswer } from "@turnpike/search";
import { reboundStatus } from "@turnpike/testkit";
import { COMMAND_FILE, runInProcess } from "../../../test/run-command.ts";

const PORTS = [
  "gateway",
  "metrics",
  "facilitator",
  "evm",
  "chain-rpc",
  "chain-rest",
  "chain-metrics",
  "tools",
  "db",
  "search",
] as const;
const CHILDREN = ["anvil", "search", "chain", "gateway", "facilitator", "db"] as const;
const TIMEOUT_MS = 600_000;

interface Run {
  readonly child: ChildProcess;
  /** Lines of the error output. */
  readonly notices: string[];
  /** Resolves with the line of standard output that `--json` prints; rejects when the command ends before. */
  readonly line: Promise<string>;
  readonly exit: Promise<{ readonly code: number | null; readonly output: string }>;
  /** Resolves when a line of the error output matches. */
  notice(pattern: RegExp): Promise<void>;
}

function start(args: readonly string[]): Run {
  const child = spawn(process.execPath, [COMMAND_FILE, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const notices: string[] = [];
  const waiting = new Set<() => void>();
  const lines = createInterface(child.stderr);
  lines.on("line", (line) => {
    notices.push(line);
    for (const wake of waiting) wake();
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  const exit = once(child, "close").then(() => ({ code: child.exitCode, output }));
  const line = Promise.race([
    once(createInterface(child.stdout), "line").then(([text]) => String(text)),
    exit.then(({ code }) => assert.fail(`it ended with code ${code}: ${output}\n${notices.join("\n")}`)),
  ]);
  line.catch(() => {});
  const notice = async (pattern: RegExp): Promise<void> => {
    while (!notices.some((text) => pattern.test(text))) {
      await new Promise<void>((resolve) => {
        waiting.add(resolve);
        void exit.then(() => resolve());
      });
      if (child.exitCode !== null && !notices.some((text) => pattern.test(text))) assert.fail(notices.join("\n"));
    }
  };
  return { child, notices, line, exit, notice };
}

suite("turnpike up", { timeout: TIMEOUT_MS }, () => {
  let folder = "";
  let layout: StateLayout;
  let args: readonly string[] = [];
  const startFolder = process.cwd();
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "turnpike-test-"));
    // Commands find there what runs.
    process.chdir(folder);
    layout = stateLayout(join(folder, ".turnpike"));
    const ports = await Promise.all(PORTS.map(() => freePort()));
    args = [
      "up",
      "--json",
      "--state",
      layout.folder,
      ...PORTS.flatMap((name, at) => [`--${name}-port`, `${ports[at]}`]),
    ];
  });

  const readUp = async (): Promise<UpFile> => JSON.parse(await readFile(layout.upFile, "utf8")) as UpFile;
  const pidOf = async (part: string): Promise<number> => {
    const found = await readPidFile(layout.pidFile(part));
    assert.ok(found !== undefined, `${part} has no pid file`);
    return found.pid;
  };
  const ready = async (up: UpFile): Promise<number> => (await fetch(`${up.gateway}/ready`)).status;
  const managed = async ({ db, dbTokens }: UpFile): Promise<number> =>
    (await fetch(`${db}/portal_applications`, { headers: { authorization: `Bearer ${dbTokens.admin}` } })).status;
  const chainHeight = async ({ chain }: UpFile): Promise<number> => {
    const { result } = (await (await fetch(`${chain.rpc}/status`)).json()) as {
      result: { sync_info: { latest_block_height: string } };
    };
    return Number(result.sync_info.latest_block_height);
  };
  const grpcAnswers = ({ chain }: UpFile): Promise<number> =>
    new Promise((resolve, reject) => {
      const session = connect(`http://${chain.grpc}`).on("error", reject);
      const call = session.request({
        ":method": "POST",
        ":path": "/pocket.shared.Query/Params",
        "content-type": "application/grpc",
        te: "trailers",
      });
      call.on("error", reject);
      call.on("trailers", (trailers) => {
        session.close();
        resolve(Number(trailers["grpc-status"]));
      });
      call.resume();
      call.end(Buffer.alloc(5));
    });
  const balance = async (up: UpFile, address: string): Promise<bigint> => {
    const data = `0x70a08231${address.slice(2).toLowerCase().padStart(64, "0")}`;
    return BigInt(String(await devRpc(up.settlement.rpc, "eth_call", [{ to: up.settlement.asset, data }, "latest"])));
  };

  test("boots, survives the death of each part and of itself, and stops cleanly", async () => {
    const first = start(args);
    const firstLine = await first.line;
    assert.equal((JSON.parse(firstLine) as { ready: boolean }).ready, true, firstLine);
    const up = await readUp();
    assert.equal((await stat(layout.upFile)).mode & 0o777, 0o600);
    assert.equal(await ready(up), 200);
    assert.equal((await fetch(`${up.metrics}/metrics`)).status, 200);
    assert.equal((await fetch(`${up.facilitator}/supported`)).status, 200);
    assert.deepEqual([...up.services].sort(), ["document-digest", "eth", "pocket", "search"]);
    assert.equal(await managed(up), 200);
    assert.equal(up.settlement.asset, USDC_ADDRESS);
    assert.equal(await devRpc(up.settlement.rpc, "eth_chainId"), "0x14a34");
    assert.equal(await balance(up, up.buyer.address), 1_000_000_000_000n);
    assert.ok((await chainHeight(up)) >= 2);
    assert.match(await (await fetch(`${up.chain.metrics}/metrics`)).text(), /^turnpike_chain_height [1-9]/m);
    assert.equal(await grpcAnswers(up), 0, "gRPC is served on the port of the metrics");
    const listed = await fetch(
      `${up.chain.rest}/pocket/service/service?pagination.count_total=true&pagination.limit=1`,
    );
    const { pagination } = (await listed.json()) as { pagination: { total: string } };
    assert.ok(Number(pagination.total) > 100, "the catalogue's services are registered");
    const repriced = `${up.chain.rest}/pocket/service/compute_units_per_relay/document-digest/history`;
    assert.match(await (await fetch(repriced)).text(), /"compute_units_per_relay":"120"/);
    for (const part of [
      "keys.json",
      "keys/faucet.json",
      "chain/config/priv_validator_key.json",
      "portal.json",
      "config/local.yaml",
    ]) {
      assert.equal((await stat(join(layout.folder, part))).mode & 0o777, 0o600, part);
    }

    const tools = args[args.indexOf("--tools-port") + 1];
    for (const url of [
      `${up.metrics}/metrics`,
      `${up.facilitator}/supported`,
      up.settlement.rpc,
      `${up.chain.rpc}/status`,
      `${up.chain.rest}/pocket/shared/params`,
      `${up.chain.metrics}/metrics`,
      `${up.db}/`,
      `${up.search}/documents/x`,
      `http://127.0.0.1:${tools}/health`,
    ]) {
      const { port, pathname } = new URL(url);
      assert.equal(await reboundStatus(Number(port), pathname), 403, `attack: DNS rebinding: ${url}`);
    }
    await assert.rejects(devRpc(up.settlement.rpc, "anvil_mine", ["0x1"]), "the chain's owner alone mines at will");

    const second = await runInProcess(args);
    assert.notEqual(second.code, 0);
    assert.match(second.out, /"ALREADY_RUNNING".*already running/);
    assert.doesNotMatch(second.out, /--fresh/, "it must not lose the state of the one that runs");
    const other = await runInProcess(args.with(3, join(folder, "other")));
    assert.match(other.out, /PORT_IN_USE/);
    assert.ok(!(await readdir(folder)).includes("other"), "a run that started nothing leaves nothing");
    assert.equal(await ready(up), 200);

    const bought = await runInProcess(["pay", "eth", '{"method":"eth_blockNumber"}', "--json"]);
    assert.equal(bought.code, 0, bought.out);
    const asked = { query: "how are payments settled", max_results: 3 };
    const found = await runInProcess(["pay", "search", JSON.stringify(asked), "--json"]);
    assert.equal(found.code, 0, found.out);
    const { data } = (JSON.parse(found.out) as { envelope: { data: SearchAnswer } }).envelope;
    assert.equal(data.query, asked.query);
    assert.equal(data.results.length, 3);
    assert.ok(
      data.results.some(({ url }) => url.startsWith(`${up.search}/documents/`)),
      "the product's own pages are found",
    );
    const [page] = data.results.filter(({ url }) => url.startsWith(up.search));
    assert.equal((await fetch(page?.url ?? "")).status, 200);
    const bad = await runInProcess(["pay", "search", '{"query":"x","max_results":0}', "--json"]);
    assert.notEqual(bad.code, 0);
    assert.match(bad.out, /VALIDATION_FAILED/);

    const settled = await runInProcess(["db", "books", "--list", "settled", "--json"]);
    const [searched, payment, ...more] = JSON.parse(settled.out) as {
      payer: string;
      value: string;
      transaction: string;
    }[];
    assert.equal(
      payment?.payer.toLowerCase(),
      up.buyer.address.toLowerCase(),
      "the ledger of what runs in this folder",
    );
    assert.deepEqual([searched?.value, payment.value, more.length], ["5000", "5000", 0], "the bad query was free");
    assert.ok(bought.out.includes(payment.transaction));
    assert.match((await runInProcess(["db", "books", "--list", "owed,disputed"])).out, /^There is none\.$/m);
    assert.match((await runInProcess(["db", "books"])).out, /^ {2}settled +2 +0\.010000$/m);

    const gateway = await pidOf("gateway");
    process.kill(gateway, "SIGKILL");
    assert.equal(await grpcAnswers(up), 0, "the chain is served while the gateway is away");
    await first.notice(/gateway is back/);
    const before = await chainHeight(up);
    process.kill(await pidOf("chain"), "SIGKILL");
    assert.equal((await fetch(`${up.metrics}/metrics`)).status, 200, "metrics are served while the chain is away");
    await first.notice(/protocol chain is back/);
    assert.ok((await chainHeight(up)) >= before, "no committed block is lost");
    assert.notEqual(await pidOf("gateway"), gateway);
    assert.equal(await ready(up), 200);

    await devRpc((await anvilUrlOf(await pidOf("anvil"))) ?? "", "anvil_mine", ["0x20"]);
    const height = BigInt(String(await devRpc(up.settlement.rpc, "eth_blockNumber")));
    const parts = await Promise.all(CHILDREN.map(pidOf));
    first.child.kill("SIGKILL");
    await first.exit;
    assert.ok(parts.every(isAlive), "the parts outlive a supervisor that is killed");

    const again = start(args);
    const nextLine = await again.line;
    assert.equal((JSON.parse(nextLine) as { ready: boolean }).ready, true, nextLine);
    assert.match(again.notices.join("\n"), /Ended what an earlier run left behind: .*anvil, postgres/);
    assert.deepEqual({ ...(await readUp()), dbTokens: up.dbTokens }, up);
    assert.ok((await chainHeight(up)) > before, "the chain goes on where it was");
    assert.equal(await managed(up), 200, "a token of the run before is still good");
    assert.ok(BigInt(String(await devRpc(up.settlement.rpc, "eth_blockNumber"))) >= height);
    const last = await Promise.all(CHILDREN.map(pidOf));
    again.child.kill("SIGTERM");
    assert.equal((await again.exit).code, 0);
    assert.ok(!last.some(isAlive));
    assert.deepEqual(await readdir(layout.pidFolder), []);
    await assert.rejects(stat(layout.upFile), { code: "ENOENT" });
  });

  after(async () => {
    // whatever a failed test left, the supervisor first: it would start the others again
    const holder = await readPidFile(layout.lockFile);
    if (holder !== undefined) await endProcess(holder.pid, "SIGTERM", 20_000);
    for (const name of await readdir(layout.pidFolder).catch(() => [])) {
      const found = await readPidFile(join(layout.pidFolder, name));
      if (found !== undefined) await endProcess(found.pid, "SIGTERM", 5_000);
    }
    process.chdir(startFolder);
    await rm(folder, { recursive: true, force: true });
  });
});
