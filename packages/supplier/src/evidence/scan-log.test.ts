import assert from "node:assert/strict";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { PREAMBLE_BYTES, preamble, RECORD, recordHeader } from "./records.ts";
import { type LogScan, scanLog } from "./scan-log.ts";

const SALT = 0xdead_beef;

let folder = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "turnpike-scan-"));
});
after(() => rm(folder, { recursive: true, force: true }));

const record = (payload: Uint8Array, salt = SALT): Buffer =>
  Buffer.concat([recordHeader(RECORD.relay, payload, salt), payload]);

async function scan(bytes: Uint8Array): Promise<{ payloads: string[]; scan: LogScan | undefined }> {
  const path = join(folder, "log");
  await writeFile(path, bytes);
  const file = await open(path, "r");
  try {
    const payloads: string[] = [];
    const found = await scanLog(file, ({ payload }) => payloads.push(Buffer.from(payload).toString("hex")));
    return { payloads, scan: found };
  } finally {
    await file.close();
  }
}

const hex = (payloads: readonly Uint8Array[]): string[] =>
  payloads.map((payload) => Buffer.from(payload).toString("hex"));

/** Where the record of one payload ends. */
const endOf = (all: readonly Uint8Array[], at: number): number =>
  all.slice(0, at + 1).reduce((sum, payload) => sum + record(payload).length, PREAMBLE_BYTES);

const payloads = fc.array(fc.uint8Array({ maxLength: 40 }), { minLength: 1, maxLength: 6 });

suite("scanLog", () => {
  test("a log that is cut anywhere has the records that were whole, and says how much was torn", async () => {
    await fc.assert(
      fc.asyncProperty(payloads, fc.nat(), async (all, at) => {
        const bytes = Buffer.concat([preamble(SALT), ...all.map((payload) => record(payload))]);
        const cut = PREAMBLE_BYTES + (at % (bytes.length - PREAMBLE_BYTES + 1));
        const found = await scan(bytes.subarray(0, cut));
        const whole = all.filter((_, i) => endOf(all, i) <= cut);
        assert.deepEqual(found.payloads, hex(whole));
        const wholeBytes = endOf(all, whole.length - 1);
        assert.deepEqual([found.scan?.endBytes, found.scan?.tornBytes], [wholeBytes, cut - wholeBytes]);
        assert.equal(found.scan?.damagedBytes, 0);
      }),
      { numRuns: 150 },
    );
  });

  test("one changed byte loses one record, and the others are found", async () => {
    await fc.assert(
      fc.asyncProperty(payloads, fc.nat(), fc.integer({ min: 1, max: 255 }), async (all, at, change) => {
        const bytes = Buffer.concat([preamble(SALT), ...all.map((payload) => record(payload))]);
        const place = PREAMBLE_BYTES + (at % (bytes.length - PREAMBLE_BYTES));
        bytes[place] = (bytes[place] ?? 0) ^ change;
        const hit = all.findIndex((_, i) => endOf(all, i) > place);
        const found = await scan(bytes);
        assert.deepEqual(found.payloads, hex(all.filter((_, i) => i !== hit)));
        const lost = record(all[hit] ?? new Uint8Array(0)).length;
        const isLast = hit === all.length - 1;
        assert.deepEqual([found.scan?.damagedBytes, found.scan?.tornBytes], isLast ? [0, lost] : [lost, 0]);
      }),
      { numRuns: 150 },
    );
  });

  test("records are longer than one part of the file, and a damaged length reads no more than there is", async () => {
    const all = [Buffer.alloc(3_000_000, 1), Buffer.alloc(10, 2), Buffer.alloc(1_500_000, 3), Buffer.alloc(5, 4)];
    const bytes = Buffer.concat([preamble(SALT), ...all.map((payload) => record(payload))]);
    assert.deepEqual((await scan(bytes)).payloads, hex(all));
    bytes.writeUInt32LE(60_000_000, PREAMBLE_BYTES + 8);
    const found = await scan(bytes);
    assert.deepEqual(found.payloads, hex(all.slice(1)));
    assert.equal(found.scan?.damagedBytes, all[0] === undefined ? 0 : record(all[0]).length);
  });

  test("what a client wrote into its request is no record, also where a torn one ends inside it", async () => {
    // The client knows the format, not the salt.
    const forged = record(Buffer.from("forged"), 0);
    const outer = record(Buffer.concat([Buffer.alloc(9), forged, forged]));
    for (let cut = 1; cut < outer.length; cut++) {
      const found = await scan(Buffer.concat([preamble(SALT), outer.subarray(0, cut)]));
      assert.deepEqual([found.payloads, found.scan?.tornBytes], [[], cut]);
    }
  });

  test("another file, and one whose beginning is damaged, is no log", async () => {
    for (const bytes of [Buffer.alloc(0), Buffer.from("hello"), Buffer.alloc(100)]) {
      assert.equal((await scan(bytes)).scan, undefined);
    }
    const bytes = Buffer.concat([preamble(SALT), record(Buffer.from("x"))]);
    bytes[9] = (bytes[9] ?? 0) ^ 1;
    assert.equal((await scan(bytes)).scan, undefined);
  });
});
