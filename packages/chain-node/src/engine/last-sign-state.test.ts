import assert from "node:assert/strict";
import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { suite, test } from "node:test";
import { isAppError, type Log, silentLog } from "@turnpike/base";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { LastSignState, type SignedBlock } from "./last-sign-state.ts";

const address = Buffer.alloc(20, 1);
const hash = Buffer.alloc(32, 7);
const BLOCK: SignedBlock = { chainId: "mark-1", address, heightBlocks: 12n, hash };
const none = (): undefined => undefined;

const saysSigned =
  (says: RegExp) =>
  (error: unknown): boolean =>
    isAppError(error, "CHAIN_SIGNED") && says.test(error.message);

function keptLog(): { readonly log: Log; readonly errors: string[] } {
  const errors: string[] = [];
  return { errors, log: { ...silentLog, error: (_, text) => void errors.push(text) } };
}

suite("which block was signed last", () => {
  test("a block that the store does not have is not signed again; what is another's does not count", async () => {
    await using folder = await scratchFolder();
    const path = join(folder.path, "signed.json");
    {
      await using mark = await LastSignState.open(path, { log: silentLog });
      mark.check(BLOCK, 1n, none);
      await mark.write({ ...BLOCK, heightBlocks: 1_000_000n });
      await mark.write(BLOCK);
      assert.equal((await stat(path)).size, 512, "of one length, whatever it says");
    }
    await using mark = await LastSignState.open(path, { log: silentLog });
    mark.check(BLOCK, 13n, () => hash);
    mark.check({ ...BLOCK, chainId: "mark-2" }, 1n, none);
    mark.check({ ...BLOCK, address: Buffer.alloc(20, 2) }, 1n, none);
    // A chain that goes on from an export above it.
    mark.check(BLOCK, 13n, none);
    const refused = (next: bigint, hashOf: () => Uint8Array | undefined, says: RegExp): void =>
      assert.throws(() => mark.check(BLOCK, next, hashOf), saysSigned(says));
    refused(12n, none, /signed block 12 already, and the store ends at block 11/);
    refused(1n, none, /store ends at block 0/);
    refused(40n, () => Buffer.alloc(32, 8), /the store has another block of that height/);
  });

  test("what a loss of power leaves of a new file is no mark; anything else that is none is refused", async () => {
    await using folder = await scratchFolder();
    const path = join(folder.path, "signed.json");
    for (const left of ["", " ".repeat(512), "\0".repeat(512), " ".repeat(40)]) {
      await writeFile(path, left);
      await using mark = await LastSignState.open(path, { log: silentLog });
      mark.check(BLOCK, 1n, none);
      await mark.write(BLOCK);
      assert.match(await readFile(path, "utf8"), /^\{"chainId":"mark-1",.*"height":"12".*\}\s+$/);
    }
    for (const text of ["{}", "[]", '{"chainId":"mark-1"', '{"chainId":"a","address":"b","hash":"c","height":"-1"}']) {
      await writeFile(path, text);
      await assert.rejects(
        LastSignState.open(path, { log: silentLog }),
        saysSigned(/does not say which block was signed/),
      );
      assert.equal(await readFile(path, "utf8"), text, "it stays as it is");
    }
  });

  test("where it cannot be made the chain goes on, and the log says so; what cannot be read is refused", async () => {
    await using folder = await scratchFolder();
    const { log, errors } = keptLog();
    {
      await using mark = await LastSignState.open(join(folder.path, "missing", "signed.json"), { log });
      mark.check(BLOCK, 1n, none);
      await mark.write(BLOCK);
    }
    assert.equal(errors.length, 1);
    assert.match(errors[0] ?? "", /which block is signed cannot be noted/);
    const path = join(folder.path, "signed.json");
    {
      const mark = await LastSignState.open(path, { log });
      // As a disk that fails later on.
      await mark[Symbol.asyncDispose]();
      await mark.write(BLOCK);
      await mark.write(BLOCK);
      assert.equal(errors.length, 2, "once for as long as it lasts");
    }
    await rm(path);
    await mkdir(path);
    await assert.rejects(LastSignState.open(path, { log }), saysSigned(/cannot be read/));
  });
});
