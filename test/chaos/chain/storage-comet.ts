import assert from "node:assert/strict";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { initComet } from "../../support/chain/comet.ts";
import type { ChaosFigure, ChaosOptions } from "../chaos.ts";
import { type Spoken, startNode, startSpoken, startTurnpike, supplyOf } from "./storage-process.ts";
import { mountSmallDisk, whyNoSmallDisk } from "./storage-room.ts";

const PROGRAM = process.env.COMETBFT ?? "cometbft";
const GIVES_UP_MS = 30_000;

interface Rig {
  readonly config: string;
  readonly address: string;
  readonly appHome: string;
  readonly cometHome: string;
}

/** A chain for both sides, each with a folder of its own. */
async function makeRig(folder: string, appHome: string, cometHome: string): Promise<Rig> {
  const config = join(folder, "turnpike.yaml");
  const address = `unix://${join(folder, "abci.sock")}`;
  const ports = { rpc: { port: 0 }, rest: { port: 0 }, grpc: { port: 0 } };
  await writeFile(
    config,
    JSON.stringify({ chain: { home: appHome, engine: "cometbft", abciAddress: address, ...ports } }),
  );
  assert.equal(await startTurnpike("chain", "init", "--home", appHome, "--config", config).ended, 0);
  initComet(cometHome, 100);
  for (const file of ["genesis.json", "priv_validator_key.json"]) {
    await cp(join(appHome, "config", file), join(cometHome, "config", file));
  }
  return { config, address, appHome, cometHome };
}

const startComet = ({ cometHome, address }: Rig): Spoken =>
  startSpoken(PROGRAM, [
    "start",
    `--home=${cometHome}`,
    `--proxy_app=${address}`,
    "--log_level=info",
    "--rpc.laddr=tcp://127.0.0.1:0",
    "--p2p.laddr=tcp://127.0.0.1:0",
  ]);

const COMMITTED = /finalized block|committed state/;

/** Waits until CometBFT has told of so many committed blocks, and gives the newest height. */
async function committed(comet: Spoken, count: number): Promise<number> {
  let from = 0;
  let line = "";
  for (let n = 0; n < count; n++) {
    line = await comet.said(/committed state/, from);
    from = comet.lines.indexOf(line, from) + 1;
  }
  return Number(/height=(\d+)/.exec(line)?.[1] ?? 0);
}

/** How CometBFT ends by itself; it is killed where it stands still instead, and that is told. */
async function givesUp(comet: Spoken): Promise<"ended" | "stood"> {
  const stop = new AbortController();
  const late = pause(GIVES_UP_MS, "stood" as const, { signal: stop.signal }).catch(() => "ended" as const);
  const how = await Promise.race([comet.ended.then(() => "ended" as const), late]);
  stop.abort();
  await comet.stop("SIGKILL");
  return how;
}

/** The application's disk is full, then CometBFT's: neither answers wrongly, and with room both go on. */
async function fillEither(whose: "ours" | "cometbft", { progress }: Pick<ChaosOptions, "progress">) {
  await using disk = await mountSmallDisk(whose === "ours" ? 12 : 40);
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-comet-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const place = (side: "ours" | "cometbft"): string => join(side === whose ? disk.folder : folder, side);
  const rig = await makeRig(folder, place("ours"), place("cometbft"));
  await using node = await startNode(rig.config);
  let before = 0;
  {
    await using comet = startComet(rig);
    await committed(comet, 3);
    await disk.fill(0);
    if (whose === "ours") {
      const line = await node.said(/abci request failed/);
      assert.match(line, /CHAIN_STORE_FULL|There is no room/);
      assert.match(line, /Make room on that disk/);
    }
    const how = await givesUp(comet);
    const lines = comet.lines.filter((line) => COMMITTED.test(line));
    before = Number(/height=(\d+)/.exec(lines.at(-1) ?? "")?.[1] ?? 0);
    const last = comet.lines.find((line) => /no space|no room/i.test(line)) ?? comet.lines.at(-1) ?? "";
    progress(`${whose}: CometBFT ${how} after block ${before}: ${last.slice(0, 300)}`);
  }
  const answer = await supplyOf(node);
  assert.equal(answer.status, 200, "queries are answered meanwhile");
  await disk.free();
  await using comet = startComet(rig);
  const after = await committed(comet, 3);
  assert.ok(after > before, `goes on from ${before}: ${after}`);
  await comet.stop();
  assert.equal(await node.stop(), 0);
  const verified = startTurnpike("chain", "verify", "--home", rig.appHome, "--json");
  assert.equal(await verified.ended, 0, verified.lines.join("\n"));
  return [
    { what: `disk full, ${whose} under CometBFT: blocks before and after`, value: after - before, unit: "blocks" },
  ];
}

/** Older copies of either side's data in place of the newest. */
async function putOldBack({ progress }: Pick<ChaosOptions, "progress">): Promise<ChaosFigure[]> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "turnpike-comet-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const rig = await makeRig(folder, join(folder, "ours"), join(folder, "cometbft"));
  const data = (home: string): string => join(home, "data");
  const copyOf = (home: string): string => `${home}-copy`;
  const run = async (blocks: number): Promise<number> => {
    await using node = await startNode(rig.config);
    await using comet = startComet(rig);
    const height = await committed(comet, blocks);
    await comet.stop();
    await node.stop();
    return height;
  };
  const old = await run(3);
  for (const home of [rig.appHome, rig.cometHome]) await cp(data(home), copyOf(home), { recursive: true });
  const newest = await run(6);
  // Ours behind: CometBFT runs the blocks anew, and compares every app hash.
  await rm(data(rig.appHome), { recursive: true });
  await cp(copyOf(rig.appHome), data(rig.appHome), { recursive: true });
  const replayed = await run(2);
  assert.ok(replayed > newest, `${replayed} after ${newest}`);
  // CometBFT behind: it refuses.
  await rm(data(rig.cometHome), { recursive: true });
  await cp(copyOf(rig.cometHome), data(rig.cometHome), { recursive: true });
  await using node = await startNode(rig.config);
  await using comet = startComet(rig);
  assert.notEqual(await comet.ended, 0);
  const why = comet.lines.find((line) => /higher than (the )?(chain|core)|app block height/i.test(line));
  assert.ok(why !== undefined, comet.lines.slice(-5).join("\n"));
  progress(`CometBFT behind: ${why.slice(0, 300)}`);
  assert.equal((await supplyOf(node)).status, 200);
  return [
    { what: "our store older than CometBFT's blocks: replayed", value: newest - old, unit: "blocks" },
    { what: "CometBFT's blocks older than our store: refused by CometBFT", value: 1, unit: "" },
  ];
}

/** All of it. */
export async function faultsUnderComet(options: Pick<ChaosOptions, "progress" | "size">): Promise<ChaosFigure[]> {
  const figures: ChaosFigure[] = [];
  if (whyNoSmallDisk() === undefined) {
    figures.push(...(await fillEither("ours", options)));
    if (options.size === "full") figures.push(...(await fillEither("cometbft", options)));
  }
  if (options.size === "full") figures.push(...(await putOldBack(options)));
  return figures;
}
