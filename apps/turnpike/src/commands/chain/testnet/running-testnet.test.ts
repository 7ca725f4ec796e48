import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, suite, test } from "node:test";
import { commandLineOf, isAppError } from "@turnpike/base";
import {
  addressesOf,
  bridgeName,
  findTestnetPrograms,
  networkNames,
  readTestnet,
  type Testnet,
  type TestnetNode,
  testnetLayout,
} from "@turnpike/devnet";
import { eventually } from "@turnpike/testkit";
import { runCommand } from "../../../../test/chain-part.ts";

const BIN = join(import.meta.dirname, "../../../../bin/turnpike.js");
const folder = mkdtempSync(join(tmpdir(), "turnpike testnets-"));
const home = join(folder, "one validator");
const pair = join(folder, "two validators");

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
  /** The next event of this text. Others may come before it: on a slow machine the chain stalls, and goes on. */
  event(text: RegExp): Promise<string>;
}

function startCommand(home: string): Runner {
  const args = [BIN, "chain", "testnet", "start", "--home", home, "--json"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<Record<string, unknown>> => {
    const { value, done } = await lines.next();
    assert.ok(done !== true, "it ended");
    return JSON.parse(String(value)) as Record<string, unknown>;
  };
  return {
    child,
    next,
    async event(text) {
      for (;;) {
        const { event } = await next();
        if (text.test(String(event))) return String(event);
      }
    },
  };
}

const ip = (...args: string[]): string => spawnSync("ip", args, { encoding: "utf8" }).stdout;

/** Two processes of each node share the machine with other tests; a block needs several turns of all of them. */
const BLOCK_PATIENCE_MS = 150_000;

const textAt = async (url: string): Promise<string> => (await fetch(url)).text();

/** Waits for a block of the chain above a height. Returns its height; without one, the error has the node's state. */
async function heightAbove(rpc: string, heightBlocks: number): Promise<number> {
  const look = async (): Promise<number | false> => {
    const { result } = JSON.parse(await textAt(`${rpc}/status`)) as {
      result: { sync_info: { latest_block_height: string } };
    };
    const newest = Number(result.sync_info.latest_block_height);
    return newest > heightBlocks && newest;
  };
  try {
    return await eventually(`a block above ${heightBlocks}`, look, BLOCK_PATIENCE_MS);
  } catch (cause) {
    const state = await Promise.all(["consensus_state", "net_info"].map((name) => textAt(`${rpc}/${name}`)));
    assert.fail(`no block above ${heightBlocks}: ${String(cause)}\n${state.join("\n")}`);
  }
}

/** CometBFT of the processes of a node. */
function cometOf(pids: readonly number[]): number {
  const comet = pids.find((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[1] === "start");
  return comet ?? assert.fail("CometBFT does not run");
}

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

suite("a testnet in namespaces", { timeout: 480_000, skip: await reasonToSkip() }, () => {
  const stop = () => runCommand(["chain", "testnet", "stop", "--home", home, "--json"]);
  const started: ChildProcess[] = [];

  after(async () => {
    for (const child of started) child.kill("SIGKILL");
    await stop();
    await runCommand(["chain", "testnet", "stop", "--home", pair]);
    rmSync(folder, { recursive: true, force: true });
  });

  test("says when a process dies, goes on, and leaves nothing; what a killed run leaves, stop takes away", {
    timeout: 240_000,
  }, async () => {
    await runCommand(["chain", "testnet", "--home", home, "--validators", "1"]);
    const layout = testnetLayout(home);
    const testnet = await readTestnet(layout);
    const runner = startCommand(home);
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

    process.kill(cometOf(pids), "SIGKILL");
    assert.match(
      await runner.event(/^node0: cometbft/),
      /^node0: cometbft was ended by SIGKILL; its log is .*\/node0\/logs\/cometbft\.log; bring it back,/,
    );
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

    const again = startCommand(home);
    started.push(again.child);
    assert.equal((await again.next()).ready, true);
    again.child.kill("SIGTERM");
    assert.deepEqual(await once(again.child, "exit"), [0, null]);
    assert.deepEqual([traces(testnet), readdirSync(layout.runFolder)], [[], []]);
  });

  test("a dead node is started again from a second terminal, while the other goes on, and catches up", {
    timeout: 240_000,
  }, async () => {
    await runCommand(["chain", "testnet", "--home", pair, "--validators", "2"]);
    const layout = testnetLayout(pair);
    const testnet = await readTestnet(layout);
    const [first, second] = testnet.nodes;
    assert.ok(first !== undefined && second !== undefined);
    const { rpc } = addressesOf(second);
    const pidsOf = (node: TestnetNode) => pidsIn({ ...testnet, nodes: [node] });
    const startSecond = (...more: string[]) =>
      runCommand(["chain", "testnet", "start", "--home", pair, "--node", "node1", ...more]);
    const runner = startCommand(pair);
    started.push(runner.child);
    assert.equal((await runner.next()).ready, true);
    const pidsOfFirst = pidsOf(first);

    const running = await startSecond();
    assert.ok(isAppError(running.error, "CHAIN_HOME"));
    assert.match(running.error.message, new RegExp(`node1 of .* is run by process ${runner.child.pid} already`));

    const height = await heightAbove(rpc, 1);
    const dead = pidsOf(second);
    assert.equal(dead.length, 2);
    // CometBFT first: it ends by itself soon after its application.
    const comet = cometOf(dead);
    process.kill(comet, "SIGKILL");
    for (const pid of dead) if (pid !== comet) process.kill(pid, "SIGKILL");
    const event = await runner.event(/^node1: \w+ was ended/);
    const command = `npx turnpike chain testnet start --home '${pair}' --node node1`;
    assert.ok(event.endsWith(`; bring it back, in another terminal: ${command}`), event);
    const { error, out } = await startSecond("--json");
    assert.equal(error, undefined);
    assert.deepEqual(JSON.parse(out), { node: "node1", startedAgainBy: runner.child.pid, rpc });
    await heightAbove(rpc, height + 1);

    // CometBFT alone dies: the application, which is of no use then, is started anew, too.
    const whole = pidsOf(second);
    process.kill(cometOf(whole), "SIGKILL");
    // Until it is reported, the command may find nothing dead. What is reported before is of the first time.
    await runner.event(/^node1: runs again$/);
    await runner.event(/^node1: cometbft was ended/);
    const again = await startSecond();
    assert.equal(again.error, undefined);
    assert.match(again.out, new RegExp(`^node1: process ${runner.child.pid} starts it again\nnode1: runs again; `));
    assert.deepEqual([pidsOf(second).length, pidsOf(second).filter((pid) => whole.includes(pid))], [2, []]);
    await heightAbove(rpc, await heightAbove(rpc, 0));

    assert.deepEqual(pidsOf(first), pidsOfFirst, "the other one was left alone");
    assert.deepEqual(readdirSync(layout.runFolder).sort(), ["node0.json", "node1.json"]);
    runner.child.kill("SIGTERM");
    assert.deepEqual(await once(runner.child, "exit"), [0, null]);
    assert.deepEqual(traces(testnet), []);
  });
});
