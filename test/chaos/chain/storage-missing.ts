import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAppError } from "@turnpike/base";
import { openTestNode } from "@turnpike/testkit/embedded-node";
import { TABLES } from "../../../packages/chain-node/src/engine/tx-places.ts";
import { heightToBytes } from "../../../packages/chain-store/src/keys.ts";
import { recordKey } from "../../../packages/chain-store/src/plan.ts";
import { Tables } from "../../../packages/chain-store/src/tables.ts";
import type { ChaosFigure } from "../chaos.ts";
import { startTurnpike } from "./storage-process.ts";

const BLOCKS = 12;
const OLD_BLOCKS = 8;

/** What is taken from a stopped node, and what its next start says. */
interface Case {
  readonly name: string;
  readonly take: (folder: string) => Promise<void>;
  readonly code: string;
  readonly says: RegExp;
}

const fileOf = (folder: string): string => join(folder, "store", "chain.mdb");

// As LMDB itself would: the file is sound, and the record is not there.
async function removeRecords(folder: string, names: readonly (keyof typeof TABLES)[], height: number): Promise<void> {
  const tables = new Tables({ file: fileOf(folder), mapSizeBytes: 1 << 28, create: false });
  tables.write(() => {
    for (const name of names) tables.records.remove(recordKey(TABLES[name], heightToBytes(BigInt(height))));
  });
  await tables.close();
}

const CASES: readonly Case[] = [
  {
    name: "the newest block's records are gone",
    take: (folder) => removeRecords(folder, ["blocks", "ids"], BLOCKS),
    code: "CHAIN_STORE_DAMAGED",
    says: /block 12, but the block itself is missing.*Restore/,
  },
  {
    name: "the newest block's results are gone",
    take: (folder) => removeRecords(folder, ["results"], BLOCKS),
    code: "CHAIN_STORE_DAMAGED",
    says: /newest results/,
  },
  {
    name: "who signs next is gone",
    take: (folder) => removeRecords(folder, ["validators"], BLOCKS + 2),
    code: "CHAIN_STORE_DAMAGED",
    says: /validator set/,
  },
  {
    name: "an older copy of the store",
    async take(folder) {
      await rm(join(folder, "store"), { recursive: true });
      await cp(join(folder, "old"), join(folder, "store"), { recursive: true });
    },
    code: "CHAIN_SIGNED",
    says: /signed block 12 already, and the store ends at block 8.*Put the newest store back/,
  },
  {
    name: "the store's folder is gone",
    take: (folder) => rm(join(folder, "store"), { recursive: true }),
    code: "CHAIN_SIGNED",
    says: /signed block 12 already, and the store ends at block 0/,
  },
  {
    name: "the file is gone, the folder is not",
    take: (folder) => rm(fileOf(folder)),
    code: "CHAIN_SIGNED",
    says: /Put the newest store back/,
  },
  {
    name: "the file is empty",
    take: (folder) => truncate(fileOf(folder), 0),
    code: "CHAIN_STORE",
    says: /chain.mdb is empty: restore it from a copy/,
  },
  ...[0.01, 0.3, 0.6, 0.9].map((part) => ({
    name: `the file is cut off at ${part * 100} %`,
    take: async (folder: string) => {
      await truncate(fileOf(folder), Math.floor((await stat(fileOf(folder))).size * part));
    },
    code: "CHAIN_STORE_DAMAGED",
    says: /damaged/,
  })),
  {
    name: "what was signed cannot be read",
    take: (folder) => writeFile(join(folder, "signed.json"), "{}"),
    code: "CHAIN_SIGNED",
    says: /does not say which block was signed last: restore it/,
  },
];

/** Takes the newest block, or more, from a stopped node of the embedded engine: each start says what is wrong and what to do. */
export async function takeBlocks(): Promise<ChaosFigure[]> {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-missing-"));
  try {
    const open = (at: string) => openTestNode({ folder: join(at, "store"), signedFile: join(at, "signed.json") });
    const whole = join(folder, "whole");
    await cp(import.meta.filename, join(whole, "other"));
    for (const [blocks, isOld] of [
      [OLD_BLOCKS, true],
      [BLOCKS, false],
    ] as const) {
      {
        await using node = await open(whole);
        while (node.blocks.latestHeightBlocks() < blocks) await node.produceBlock();
      }
      if (isOld) await cp(join(whole, "store"), join(whole, "old"), { recursive: true });
    }
    for (const [n, { name, take, code, says }] of CASES.entries()) {
      const at = join(folder, `case-${n}`);
      await cp(whole, at, { recursive: true });
      await take(at);
      const signed = await readFile(join(at, "signed.json"), "utf8");
      await assert.rejects(
        async () => {
          await using node = await open(at);
          assert.fail(`${name}: opened at block ${node.blocks.latestHeightBlocks()}`);
        },
        (error: unknown) => {
          assert.ok(isAppError(error), `${name}: ${String(error)}`);
          assert.equal(error.code, code, `${name}: ${error.message}`);
          assert.match(error.message, says, name);
          return true;
        },
      );
      assert.equal(await readFile(join(at, "signed.json"), "utf8"), signed, `${name}: the mark stays`);
    }
    // Without the mark the operator has said that nobody needs the later blocks.
    const at = join(folder, "case-3");
    await rm(join(at, "signed.json"));
    await using node = await open(at);
    assert.equal((await node.produceBlock()).block.header.height, BigInt(OLD_BLOCKS) + 1n);
    return [{ what: "ways of missing blocks, each refused with what to do", value: CASES.length, unit: "" }];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The command's own words about a sound store, a damaged one, and none. */
export async function verifyByCommand(home: string): Promise<void> {
  const verify = (): ReturnType<typeof startTurnpike> => startTurnpike("chain", "verify", "--home", home);
  const sound = verify();
  assert.equal(await sound.ended, 0, sound.lines.join("\n"));
  assert.match(sound.lines.join("\n"), /^sound: block \d+/m);
  const file = join(home, "data", "application", "chain.mdb");
  const bytes = await readFile(file);
  bytes.fill(0, Math.floor(bytes.length / 2));
  await writeFile(file, bytes);
  const damaged = verify();
  assert.equal(await damaged.ended, 1);
  assert.match(damaged.lines.join("\n"), /CHAIN_STORE_DAMAGED[\s\S]*Restore the folder from a copy/);
}
