import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, open, rm, rmdir, statfs, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isRecord } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import type { ChaosFigure, ChaosOptions } from "../chaos.ts";
import { verifyByCommand } from "./storage-missing.ts";
import { newestOf, type SpokenNode, startNode, startTurnpike, supplyOf } from "./storage-process.ts";

/** A file system of a few megabytes. */
export interface SmallDisk extends AsyncDisposable {
  readonly folder: string;
  /** Takes all the room that is left but so many bytes. */
  fill(leftBytes: number): Promise<void>;
  /** Gives the room back. */
  free(): Promise<void>;
}

/** Why there is none here; undefined: there is. */
export function whyNoSmallDisk(): string | undefined {
  if (process.platform !== "linux") return "a small file system is mounted on Linux alone";
  return process.getuid?.() === 0 ? undefined : "to mount a small file system needs root";
}

/** Mounts one. */
export async function mountSmallDisk(sizeMb: number): Promise<SmallDisk> {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-disk-"));
  const made = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${sizeMb}m`, "tmpfs", folder], { encoding: "utf8" });
  if (made.status !== 0) {
    await rmdir(folder);
    throw new TypeError(`mount: ${made.stderr}`);
  }
  const ballast = join(folder, "ballast");
  return {
    folder,
    async fill(leftBytes) {
      await using file = await open(ballast, "a");
      const { bavail, bsize } = await statfs(folder);
      const piece = Buffer.alloc(65_536, 1);
      try {
        for (let left = bavail * bsize - leftBytes; left > 0; left -= piece.length) {
          await file.write(piece, 0, Math.min(left, piece.length));
        }
      } catch (cause) {
        // The node took some of it meanwhile.
        if (!isRecord(cause) || cause.code !== "ENOSPC") throw cause;
      }
    },
    free: () => rm(ballast, { force: true }),
    async [Symbol.asyncDispose]() {
      // Lazily: what a killed process still holds goes with it.
      spawnSync("umount", ["-l", folder]);
      await rmdir(folder);
    },
  };
}

const DISK_MB = 12;
const HELD = /no block is made until this is fixed/;
const GOES_ON = /blocks go on/;

const reaches = (node: SpokenNode, height: bigint): Promise<true> =>
  eventually(`block ${height}`, async () => (await newestOf(node)) >= height);

/** The newest block when it is said that none is made, by that line. The store's library may write before it, on one line. */
function heldAfterOf(line: string): bigint {
  const { heightBlocks } = JSON.parse(line.slice(line.indexOf("{"))) as { readonly heightBlocks: string };
  return BigInt(heightBlocks) - 1n;
}

/** Waits until blocks go on: the first one is the one that there was no room for, so none was made meanwhile. */
async function goesOn(node: SpokenNode, heldAfter: bigint): Promise<void> {
  const line = await node.said(GOES_ON);
  assert.equal((JSON.parse(line) as { heightBlocks: string }).heightBlocks, `${heldAfter + 1n}`, line);
}

/** The embedded engine on a disk that fills up, is full at the start, and has room again. */
export async function fillEmbedded({ progress }: Pick<ChaosOptions, "progress">): Promise<ChaosFigure[]> {
  await using disk = await mountSmallDisk(DISK_MB);
  const home = join(disk.folder, "home");
  await using stack = new AsyncDisposableStack();
  const outside = await mkdtemp(join(tmpdir(), "turnpike-room-"));
  stack.defer(() => rm(outside, { recursive: true, force: true }));
  const config = join(outside, "turnpike.yaml");
  const ports = { rpc: { port: 0 }, rest: { port: 0 }, grpc: { port: 0 } };
  await writeFile(config, JSON.stringify({ chain: { home, blockIntervalMs: 50, ...ports } }));
  assert.equal(await startTurnpike("chain", "init", "--home", home, "--config", config).ended, 0);

  let before = 0n;
  let heldMs = 0;
  {
    await using node = await startNode(config);
    await reaches(node, 3n);
    await disk.fill(0);
    const began = performance.now();
    const line = await node.said(HELD);
    assert.match(line, /CHAIN_STORE_FULL/);
    assert.match(line, /MB free.*Make room on that disk/);
    before = await newestOf(node);
    progress(`full at block ${before}: ${line.slice(0, 400)}`);
    const supply = await supplyOf(node);
    assert.equal(supply.status, 200);
    assert.deepEqual(await supplyOf(node), supply);
    assert.equal(await newestOf(node), before, "a block on a full disk");
    assert.ok(!node.lines.some((text) => GOES_ON.test(text)));
    await disk.free();
    await goesOn(node, before);
    heldMs = performance.now() - began;
    assert.equal(node.lines.filter((text) => HELD.test(text)).length, 1, "it is said once");
    await reaches(node, before + 3n);
    // Full again, and ended there.
    const from = node.lines.length;
    await disk.fill(0);
    before = heldAfterOf(await node.said(HELD, from));
    assert.equal(await newestOf(node), before);
    assert.equal(await node.stop(), 0);
  }
  let after = 0n;
  {
    await disk.fill(0);
    await using node = await startNode(config);
    // Pages of the store that readers of the process before still held are free now. Blocks that fit in them need no room
    // on the disk, and are made. None is made from the first that does not fit on.
    const held = heldAfterOf(await node.said(HELD));
    assert.ok(held >= before, `nothing is lost: ${held}, ${before} before`);
    assert.equal((await supplyOf(node)).status, 200);
    assert.equal(await newestOf(node), held, "a block on a full disk, after the start");
    await disk.free();
    await goesOn(node, held);
    await reaches(node, held + 3n);
    after = await newestOf(node);
    assert.equal(await node.stop(), 0);
  }
  await verifyByCommand(home);
  return [
    { what: "disk full, embedded: newest block then", value: Number(before), unit: "" },
    { what: "disk full, embedded: newest block after", value: Number(after), unit: "" },
    { what: "disk full, embedded: full until blocks went on", value: heldMs, unit: "ms" },
  ];
}
