import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { suite, test } from "node:test";
import { isAppError, startOf, systemClock } from "@turnpike/base";
import { chainParty } from "@turnpike/testkit/chain";
import { OPERATOR, openTestStore, scratchFolder } from "../../test/sessions.ts";
import { lockOperator } from "./operator-lock.ts";

const CHILD = join(import.meta.dirname, "../../test/lock-child.ts");

async function startHolder(
  folder: string,
): Promise<{ readonly child: ChildProcess; readonly said: string } & AsyncDisposable> {
  const child = spawn(process.execPath, [CHILD, folder], { stdio: ["ignore", "pipe", "inherit"] });
  assert.ok(child.stdout !== null);
  const [said] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return {
    child,
    said,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}

const refusal = (opening: Promise<unknown>): Promise<string> =>
  opening.then(
    () => "opened",
    (error: unknown) => (isAppError(error, "OPERATOR_KEY_HELD") ? error.message : assert.fail(String(error))),
  );

suite("the lock of an operator's key", () => {
  test("a second process is refused and learns who holds the key, in the same and in another folder", async () => {
    await using scratch = await scratchFolder();
    await using other = await scratchFolder();
    await using holder = await startHolder(scratch.folder);
    assert.equal(holder.said, "held");
    const { pid } = holder.child;
    const same = await refusal(openTestStore(scratch.folder, { isMachineWideLock: true }));
    assert.match(
      same,
      new RegExp(`is held by process ${pid}(, started \\S+)?, with the state folder ${scratch.folder}`),
    );
    if (process.platform === "linux") {
      const elsewhere = await refusal(openTestStore(other.folder, { isMachineWideLock: true }));
      assert.match(
        elsewhere,
        new RegExp(
          `is held by process ${pid}, started 20[\\d-]+T[\\d:.]+Z, with the state folder ${scratch.folder}\\.`,
        ),
      );
    }
    await using second = await startHolder(scratch.folder);
    assert.match(second.said, /^OPERATOR_KEY_HELD /);
  });

  test("after kill -9 of the holder the key is free at once", async () => {
    await using scratch = await scratchFolder();
    {
      await using holder = await startHolder(scratch.folder);
      assert.equal(holder.said, "held");
    }
    const lockFile = join(scratch.folder, OPERATOR, "operator.lock");
    assert.match(await readFile(lockFile, "utf8"), /"pid"/);
    await using store = await openTestStore(scratch.folder, { isMachineWideLock: true });
    assert.ok(store);
  });

  test("the number of a process that died, and that another one has by now, holds nothing", async () => {
    await using scratch = await scratchFolder();
    const lockFile = join(scratch.folder, "operator.lock");
    const options = { operatorAddress: chainParty("locked").address, folder: scratch.folder, lockFile };
    const modules = { clock: systemClock };
    const started = (await startOf(process.ppid)) ?? "";
    await writeFile(lockFile, JSON.stringify({ pid: process.ppid, started: `${started}0` }));
    await using lock = await lockOperator({ ...options, isMachineWide: false }, modules);
    assert.ok(lock);
    await writeFile(lockFile, JSON.stringify({ pid: process.ppid, started }));
    assert.match(await refusal(lockOperator({ ...options, isMachineWide: false }, modules)), /is held by process/);
  });

  test("two of one process exclude each other too, and what was released can be acquired again", async () => {
    await using one = await scratchFolder();
    await using two = await scratchFolder();
    const of = ({ folder }: { folder: string }) =>
      lockOperator(
        { operatorAddress: chainParty("twice").address, folder, lockFile: join(folder, "operator.lock") },
        { clock: systemClock },
      );
    for (const folder of [one, two]) {
      await using lock = await of(folder);
      assert.ok(lock);
      assert.match(await refusal(of(one)), new RegExp(`process ${process.pid}`));
      assert.match(await refusal(of(two)), new RegExp(`process ${process.pid}`));
    }
  });
});
