import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { isAppError, silentLog } from "@turnpike/base";
import { RULES } from "@turnpike/chain";
import { loadConfig } from "@turnpike/config";
import { eventually } from "@turnpike/testkit";
import { LATER, LATER_RULES } from "@turnpike/testkit/later-program";
import { runCommand } from "../../../test/chain-part.ts";
import { type RunningChain, type StartChainModules, startChain } from "../../wiring/chain.ts";

const DAY_MS = 86_400_000;

suite("an upgrade by the commands", { timeout: 240_000 }, () => {
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

  test("--unsafe-skip-upgrades refuses what is not a list of heights", async () => {
    const { error } = await runCommand(["chain", "start", "--unsafe-skip-upgrades", "5,x"]);
    assert.ok(isAppError(error, "USAGE"));
    assert.match(error.message, /expected heights/);
  });
});
