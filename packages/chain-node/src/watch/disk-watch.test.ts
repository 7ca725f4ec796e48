import assert from "node:assert/strict";
import { rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { suite, test } from "node:test";
import { KeptMetrics, keptLog, ManualTime, scratchFolder } from "@turnpike/testkit/fixtures";
import { DiskWatch } from "./disk-watch.ts";

suite("disk", { timeout: 60_000 }, () => {
  test("the store's size and the disk's room are told, and a fault once", async () => {
    await using folder = await scratchFolder();
    const file = join(folder.path, "chain.mdb");
    await writeFile(file, new Uint8Array(5000));
    const [time, metrics, { log, lines }] = [new ManualTime(), new KeptMetrics(), keptLog()];
    await using watch = new DiskWatch({ storeFolder: folder.path }, { metrics, log, wait: time.wait });
    await watch.looked;
    const [size, free = 0] = metrics.read("store_bytes", "disk_free_bytes");
    assert.equal(size, 5000);
    assert.ok(free > 0 && Number.isSafeInteger(free));
    await truncate(file, 7000);
    await time.pass(1);
    assert.deepEqual(metrics.read("store_bytes"), [7000]);
    await rm(file);
    await time.pass(1);
    await time.pass(1);
    assert.deepEqual(
      lines.map(({ level, message }) => [level, message]),
      [["warn", "the size of the chain's store is not known"]],
    );
  });
});
