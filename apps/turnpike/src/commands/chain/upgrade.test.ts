import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { suite, test } from "node:test";
import { isAppError, silentLog } from "@turnpike/base";
import { RULES } from "@turnpike/chain";
import { loadConfig } from "@turnpike/config";
import { eventually } from "@turnpike/testkit";
import { LATER, LATER_RULES } from "@turnpike/testkit/later-program";
import { runCommand } from "../../../test/chain-part.ts";
import { COMMAND_FILE, type Ran, runInProcess } from "../../../test/run-command.ts";
import { type RunningChain, type StartChainModules, startChain } from "../../wiring/chain.ts";

const DAY_MS = 86_400_000;

suite("an upgrade by the commands", { timeout: 480_000 }, () => {
  test("planned, cancelled, planned again; the node stops with a note, shows what it needs, and goes on with the new program", async () => {
    const home = await mkdtemp(join(tmpdir(), "turnpike-upgrade-"));
    await using stack = new AsyncDisposableStack();
    stack.defer(() => rm(home, { recursive: true, force: true }));
    assert.equal((await runCommand(["chain", "init", "--home", home])).error, undefined);
    const free = { port: 0 };
    const start = (more: Partial<StartChainModules> = {}): Promise<RunningChain> => {
      const chain = { blockIntervalMs: 100, rpc: free, rest: free, grpc: free, metrics: { port: 0 } };
      return startChain(loadConfig({ env: {}, overrides: { chain } }), home, { log: silentLog, ...more });
    };
    let node = await start();
    stack.defer(() => node[Symbol.asyncDispose]());
    const run = async (...args: string[]): Promise<Record<string, unknown>> => {
      const { out, error } = await runCommand([...args, "--home", home, "--node", node.urls.rpc ?? "", "--json"]);
      assert.equal(error, undefined);
      return JSON.parse(out) as Record<string, unknown>;
    };
    const height = async (): Promise<number> => {
      const { result } = (await (await fetch(`${node.urls.rpc ?? ""}/status`)).json()) as {
        result: { sync_info: { latest_block_height: string } };
      };
      return Number(result.sync_info.latest_block_height);
    };
    const metric = async (name: string): Promise<number> => {
      const text = await (await fetch(node.urls.metrics ?? "")).text();
      return Number(new RegExp(`^turnpike_chain_${name} (\\S+)$`, "m").exec(text)?.[1]);
    };
    await eventually("a block", async () => (await height()) > 1);
    const plan = async (name: string, at: number): Promise<void> => {
      const flags = [
        "--upgrade-height",
        `${at}`,
        "--upgrade-info",
        "turnpike 9.9",
        "--from",
        "dao",
        "--gas",
        "300000",
        "--wait",
      ];
      await run("tx", "upgrade", "software-upgrade", name, ...flags);
    };
    await plan("mistaken", DAY_MS);
    const answer = (await run("query", "upgrade", "plan")) as { plan: { name: string; height: string } | null };
    assert.deepEqual([answer.plan?.name, answer.plan?.height], ["mistaken", `${DAY_MS}`]);
    assert.deepEqual([await metric("upgrade_height"), await metric("upgrade_unknown")], [DAY_MS, 1]);
    await run("tx", "upgrade", "cancel-software-upgrade", "--from", "dao", "--gas", "300000", "--wait");
    assert.deepEqual(await run("query", "upgrade", "plan"), { plan: null });
    assert.deepEqual([await metric("upgrade_height"), await metric("upgrade_unknown")], [0, 0]);
    const at = (await height()) + 15;
    await plan(LATER, at);
    const needs = (await run("chain", "rules")) as { program: string[]; plan: { isKnown: boolean } };
    assert.deepEqual([needs.program, needs.plan.isKnown], [[...RULES], false]);

    await assert.rejects(node.failed, (error) => isAppError(error, "CHAIN_UPGRADE"));
    await node[Symbol.asyncDispose]();
    const note = JSON.parse(await readFile(join(home, "data", "upgrade-info.json"), "utf8")) as Record<string, unknown>;
    assert.deepEqual([note.name, note.height, note.info], [LATER, at, "turnpike 9.9"]);
    const { out } = await runCommand(["chain", "rules", "--home", home, "--json"]);
    assert.deepEqual(JSON.parse(out), {
      program: [...RULES],
      chain: { height: `${at - 1}`, rules: [{ name: "v1", height: "0" }] },
      plan: { name: LATER, height: `${at}`, info: "turnpike 9.9", isKnown: false },
    });

    node = await start({ rules: LATER_RULES });
    await eventually("the block after the upgrade", async () => (await height()) > at);
    assert.deepEqual(await run("query", "upgrade", "applied", LATER), { height: `${at}` });
    assert.equal(await metric(`rules_height\\{rules="${LATER}"\\}`), at);
    await node[Symbol.asyncDispose]();
    await assert.rejects(start(), (error) => isAppError(error, "CHAIN_RULES"));
    node = await start({ rules: LATER_RULES });
  });

  test("--unsafe-skip-upgrades starts a node that stopped at an upgrade: it drops the plan, and later starts do not need it", async () => {
    const home = await mkdtemp(join(tmpdir(), "turnpike-skip-"));
    await using stack = new AsyncDisposableStack();
    stack.defer(() => rm(home, { recursive: true, force: true }));
    const config = join(home, "turnpike.yaml");
    const free = "{ port: 0 }";
    await writeFile(config, `chain: { blockIntervalMs: 200, rpc: ${free}, rest: ${free}, grpc: ${free} }\n`);
    const run = async (...args: string[]): Promise<Ran> => {
      const ran = await runInProcess([...args, "--home", home]);
      assert.equal(ran.code, 0, ran.err);
      return ran;
    };
    await run("chain", "init");
    const launch = (...flags: string[]): { readonly child: ChildProcess; readonly ran: Promise<Ran> } => {
      const args = [COMMAND_FILE, "chain", "start", "--config", config, "--home", home, "--json", ...flags];
      const child = spawn(process.execPath, args, { env: {}, stdio: ["ignore", "pipe", "pipe"] });
      stack.defer(() => void child.kill("SIGKILL"));
      const ran = Promise.all([once(child, "close"), text(child.stdout), text(child.stderr)]);
      return { child, ran: ran.then(([[code], out, err]) => ({ code: code as number | null, out, err })) };
    };
    const start = async (...flags: string[]) => {
      const { child, ran } = launch(...flags);
      const line = once(child.stdout ?? child, "data").then(([part]) => String(part));
      const first = await Promise.race([line, ran.then(({ err }) => assert.fail(err))]);
      const { rpc } = JSON.parse(first) as { rpc: string };
      const height = async (): Promise<number> => {
        const { result } = (await (await fetch(`${rpc}/status`)).json()) as {
          result: { sync_info: { latest_block_height: string } };
        };
        return Number(result.sync_info.latest_block_height);
      };
      const end = (): Promise<Ran> => {
        child.kill("SIGTERM");
        return ran;
      };
      return { rpc, ran, height, end };
    };
    let node = await start();
    await eventually("a block", async () => (await node.height()) > 1);
    const at = (await node.height()) + 60;
    const plan = ["software-upgrade", LATER, "--upgrade-height", `${at}`, "--upgrade-info", "turnpike 9.9"];
    await run("tx", "upgrade", ...plan, "--from", "dao", "--gas", "300000", "--wait", "--node", node.rpc);
    const needed = new RegExp(`UPGRADE \\\\*"${LATER}\\\\*" NEEDED at height: ${at}`);
    const stopped = await node.ran;
    assert.equal(stopped.code, 1);
    assert.match(stopped.err, needed);
    const again = await launch("--unsafe-skip-upgrades", `${at - 1},${at + 1}`).ran;
    assert.equal(again.code, 1);
    assert.match(again.err, needed);

    node = await start("--unsafe-skip-upgrades", `${at}`);
    await eventually("the block of the dropped upgrade", async () => (await node.height()) > at);
    const { out } = await run("query", "upgrade", "plan", "--node", node.rpc, "--json");
    assert.deepEqual(JSON.parse(out), { plan: null });
    assert.equal((await node.end()).code, 0);
    const dropped = JSON.parse((await run("chain", "rules", "--json")).out) as Record<string, unknown>;
    assert.deepEqual([dropped.program, dropped.plan], [[...RULES], null]);

    node = await start();
    const height = await node.height();
    await eventually("blocks without the flag", async () => (await node.height()) > height + 1);
    assert.equal((await node.end()).code, 0);
    assert.match((await run("chain", "verify")).out, /^sound: block/m);
  });

  test("--unsafe-skip-upgrades refuses what is not a list of heights", async () => {
    const { error } = await runCommand(["chain", "start", "--unsafe-skip-upgrades", "5,x"]);
    assert.ok(isAppError(error, "USAGE"));
    assert.match(error.message, /expected heights/);
  });
});
