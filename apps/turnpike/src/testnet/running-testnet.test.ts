import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { commandLineOf } from "@turnpike/localnet";
import { runCommand } from "../wiring/testing-chain.ts";
import { addressesOf, bridgeName, networkNames, type Testnet } from "./plan.ts";
import { findTestnetPrograms } from "./programs.ts";
import { readTestnet, testnetLayout } from "./testnet-file.ts";

const BIN = join(import.meta.dirname, "../../bin/turnpike.js");
const folder = mkdtempSync(join(tmpdir(), "turnpike testnets-"));
const home = join(folder, "one validator");

async function reasonToSkip(): Promise<string | false> {
  try {
    await findTestnetPrograms(process.env);
    return false;
  } catch (error) {
    return isAppError(error, "DEPENDENCY_MISSING") ? error.message : Promise.reject(error);
  }
}

interface Runner {
  readonly child: ChildProcess;
  /** The next JSON document on its output. */
  next(): Promise<Record<string, unknown>>;
}

function startCommand(): Runner {
  const args = [BIN, "chain", "testnet", "start", "--home", home, "--json"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    async next() {
      const { value, done } = await lines.next();
      assert.ok(done !== true, "it ended");
      return JSON.parse(String(value)) as Record<string, unknown>;
    },
  };
}

const ip = (...args: string[]): string => spawnSync("ip", args, { encoding: "utf8" }).stdout;

function pidsIn(testnet: Testnet): number[] {
  return testnet.nodes.flatMap((node) => {
    const text = ip("netns", "pids", networkNames(testnet, node).namespace);
    return text
      .split("\n")
      .map(Number)
      .filter((pid) => pid > 0);
  });
}

/** What of the testnet is in this machine's network. */
function traces({ id }: Testnet): string[] {
  const all = `${ip("netns", "list")}\n${ip("-o", "link", "show")}`;
  return all.split("\n").filter((line) => line.includes(id));
}

suite("a testnet in namespaces", { timeout: 240_000, skip: await reasonToSkip() }, () => {
  const stop = () => runCommand(["chain", "testnet", "stop", "--home", home, "--json"]);
  const started: ChildProcess[] = [];

  after(async () => {
    for (const child of started) child.kill("SIGKILL");
    await stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test("says when a process dies, goes on, and leaves nothing; what a killed run leaves, stop takes away", {
    timeout: 240_000,
  }, async () => {
    await runCommand(["chain", "testnet", "--home", home, "--validators", "1"]);
    const layout = testnetLayout(home);
    const testnet = await readTestnet(layout);
    const runner = startCommand();
    started.push(runner.child);
    const ready = await runner.next();
    assert.deepEqual([ready.ready, ready.id], [true, testnet.id]);
    const pids = pidsIn(testnet);
    assert.equal(pids.length, 2);
    const [node] = testnet.nodes;
    assert.ok(node !== undefined);
    const answer = await fetch(`${addressesOf(node).rpc}/health`);
    assert.equal(answer.status, 200);

    const second = await runCommand(["chain", "testnet", "start", "--home", home]);
    assert.ok(isAppError(second.error, "CHAIN_HOME"));
    assert.match(second.error.message, new RegExp(`node0 of .* is run by process ${runner.child.pid} already`));
    assert.deepEqual(pidsIn(testnet), pids, "the refused one changed nothing");

    const comet = pids.find((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[1] === "start");
    assert.ok(comet !== undefined);
    process.kill(comet, "SIGKILL");
    const { event } = await runner.next();
    assert.match(String(event), /^node0: cometbft was ended by SIGKILL; its log is .*\/node0\/logs\/cometbft\.log$/);
    assert.equal(runner.child.exitCode, null);

    runner.child.kill("SIGKILL");
    await once(runner.child, "exit");
    assert.equal(pidsIn(testnet).length, 1, "the application outlives it");
    assert.equal(traces(testnet).length, 3);
    const { out } = await stop();
    assert.deepEqual((JSON.parse(out) as { ended: string[] }).ended, ["node0", bridgeName(testnet)]);
    // An ended process that nobody has waited for has no command line.
    assert.deepEqual(await Promise.all(pids.map(commandLineOf)), [undefined, undefined]);
    assert.deepEqual(traces(testnet), []);
    assert.deepEqual((JSON.parse((await stop()).out) as { ended: string[] }).ended, []);

    const again = startCommand();
    started.push(again.child);
    assert.equal((await again.next()).ready, true);
    again.child.kill("SIGTERM");
    assert.deepEqual(await once(again.child, "exit"), [0, null]);
    assert.deepEqual([traces(testnet), readdirSync(layout.runFolder)], [[], []]);
  });
});
