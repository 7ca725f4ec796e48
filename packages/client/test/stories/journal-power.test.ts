import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { chanceOf } from "@turnpike/testkit/chance";
import { MemoryDisk, mountDisk } from "./memory-disk.ts";
import { redirectJournalToMemory } from "./memory-redirect.ts";
import { processScopes, SimulatedProcess } from "./simulated-process.ts";
import { SimulatedTime } from "./simulated-time.ts";

redirectJournalToMemory();
const { openSpendJournal } = await import("../../src/index.ts");

const FILE = "/state/journal.jsonl";
const CALL = { service: "eth", requestHash: "ab".repeat(32), microUsd: 5_000n, totalMicroUsd: undefined };
const PAYMENT = Buffer.from("{}").toString("base64");
/** More steps than an opening of the journal has. */
const MAX_STEPS = 200;

/** Neither waits nor keeps anything that was not flushed. */
const NO_CHANCE = { ...chanceOf("journal"), often: () => false, below: (bound: number) => bound - 1 };

suite("the spend journal, when the power is lost", () => {
  test("attack: a journal that was made by a process killed at any step keeps what a later one signed", async () => {
    let steps = 1;
    for (let isKilled = true; isKilled && steps < MAX_STEPS; steps++) {
      const disk = new MemoryDisk({ chance: NO_CHANCE, time: new SimulatedTime() });
      disk.create("/state", true, 0o700);
      mountDisk(disk);
      const maker: SimulatedProcess = new SimulatedProcess("maker", steps, () => disk.unlockAll(maker));
      const made = processScopes.run({ process: maker }, () => openSpendJournal({ file: FILE }));
      isKilled = typeof (await Promise.race([made.then(() => undefined), maker.ended])) === "string";
      maker.kill("end");

      const journal = await openSpendJournal({ file: FILE });
      await (await journal.reserve(CALL)).signed(PAYMENT);
      await journal[Symbol.asyncDispose]();
      disk.losePower();
      const again = await openSpendJournal({ file: FILE });
      assert.deepEqual(
        again.open().map(({ payment }) => payment),
        [PAYMENT],
        `killed at step ${steps}`,
      );
      await again[Symbol.asyncDispose]();
    }
    assert.ok(steps > 20 && steps < MAX_STEPS, `${steps}`);
  });

  test("attack: a payment whose process was killed before it was flushed is on the disk before another presents it", async () => {
    let steps = 1;
    for (let isKilled = true; isKilled && steps < MAX_STEPS; steps++) {
      const disk = new MemoryDisk({ chance: NO_CHANCE, time: new SimulatedTime() });
      disk.create("/state", true, 0o700);
      mountDisk(disk);
      const signer: SimulatedProcess = new SimulatedProcess("signer", steps, () => disk.unlockAll(signer));
      const signed = processScopes.run({ process: signer }, async () => {
        const journal = await openSpendJournal({ file: FILE });
        await (await journal.reserve(CALL)).signed(PAYMENT);
      });
      isKilled = typeof (await Promise.race([signed, signer.ended])) === "string";
      signer.kill("end");

      const journal = await openSpendJournal({ file: FILE });
      const resumed = journal.resume(CALL.requestHash);
      await resumed?.reservation.signed(PAYMENT);
      await journal[Symbol.asyncDispose]();
      disk.losePower();
      const again = await openSpendJournal({ file: FILE });
      assert.equal(again.open().length, resumed === undefined ? 0 : 1, `killed at step ${steps}`);
      await again[Symbol.asyncDispose]();
    }
    assert.ok(steps > 20 && steps < MAX_STEPS, `${steps}`);
  });
});
