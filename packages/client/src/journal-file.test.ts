import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { noFaults } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import {
  type Answerer,
  answerJson,
  BODY,
  countingSigner,
  refusesWith,
  sold,
  standInGateway,
  testClient,
} from "../test/stand-in.ts";
import {
  newPrivateKey,
  openSpendJournal,
  type PurchaseReceipt,
  removeSpendJournal,
  type SpendJournal,
  type SpendOutcome,
} from "./index.ts";
import { decodeRecord, encodeRecord, type JournalRecord, type RecordedOutcome } from "./journal-records.ts";

const CHILD = join(import.meta.dirname, "../test/journal-child.ts");
const folder = mkdtempSync(join(tmpdir(), "turnpike-journal-"));
let files = 0;
const newFile = (): string => join(folder, `${files++}`, "spend.jsonl");

/** A payment as far as a journal reads it. */
const payment = (id: number, validBefore = "1"): string =>
  Buffer.from(
    JSON.stringify({
      accepted: { network: "eip155:1", asset: "a" },
      payload: { authorization: { from: "f", value: `${id}`, validBefore } },
    }),
  ).toString("base64");

const RECEIPT: PurchaseReceipt = {
  success: true,
  transaction: "",
  network: "eip155:1",
  payer: undefined,
  payTo: undefined,
  amount: undefined,
  asset: undefined,
  errorReason: undefined,
  settlementId: undefined,
};

const hash = (id: number): string => `${id}`.padStart(64, "0");

const reserve = (journal: SpendJournal, id: number, totalMicroUsd?: bigint) =>
  journal.reserve({ service: "eth", requestHash: hash(id), microUsd: 1_000n, totalMicroUsd });

/** Fills a new journal: one charged, one open, one refused, one that was only reserved. */
async function written(): Promise<{ readonly file: string; readonly bytes: Buffer }> {
  const file = newFile();
  {
    await using journal = await openSpendJournal({ file });
    const ends: readonly SpendOutcome[] = ["charged", "open", "uncharged"];
    for (const [id, outcome] of ends.entries()) {
      const reservation = await reserve(journal, id);
      await reservation.signed(payment(id));
      await reservation.end(outcome);
    }
    await reserve(journal, 3);
  }
  return { file, bytes: readFileSync(file) };
}

const child = (...args: readonly string[]) =>
  spawn(process.execPath, [CHILD, ...args], { stdio: ["ignore", "pipe", "inherit"] });

suite("spend journal in a file", { timeout: 300_000 }, () => {
  after(() => rmSync(folder, { recursive: true, force: true }));

  test("counts what an earlier process spent and signed; what it only reserved is free", async () => {
    const { file } = await written();
    await using journal = await openSpendJournal({ file });
    assert.deepEqual(journal.sums(), { chargedMicroUsd: 1_000n, openMicroUsd: 2_000n, calls: 3 });
    assert.deepEqual(
      journal.open().map((open) => [open.requestHash, open.usd, open.payment]),
      [[hash(1), "0.001000", payment(1)]],
    );
    const resumed = journal.resume(hash(1));
    assert.equal(resumed?.open.payment, payment(1));
    assert.equal(journal.resume(hash(1)), undefined, "it is being presented");
    await resumed?.reservation.end("charged");
    assert.deepEqual(journal.sums(), { chargedMicroUsd: 2_000n, openMicroUsd: 1_000n, calls: 3 });
    assert.equal(statSync(file).mode & 0o777, 0o600);
  });

  test("attack: a restart gives back nothing that the chain has not shown unused; what it has stays given back", async () => {
    const { file } = await written();
    const clock = { nowMs: () => 99_999_999_999_000, monotonicMs: () => 0 };
    {
      await using journal = await openSpendJournal({ file }, { clock });
      assert.equal(journal.sums().openMicroUsd, 2_000n, "long after every window");
      assert.deepEqual(
        journal.expired().map(({ requestHash }) => requestHash),
        [hash(1), hash(2)],
      );
      await journal.expired()[1]?.end("void");
    }
    for (const compactBytes of [1_048_576, 0]) {
      await using journal = await openSpendJournal({ file, compactBytes }, { clock });
      assert.deepEqual(journal.sums(), { chargedMicroUsd: 1_000n, openMicroUsd: 1_000n, calls: 3 });
      assert.deepEqual(
        journal.expired().map(({ requestHash }) => requestHash),
        [hash(1)],
      );
    }
  });

  test("a payment that the chain showed used counts as charged, and is held until its caller is informed", async () => {
    const { file } = await written();
    const clock = { nowMs: () => 99_999_999_999_000, monotonicMs: () => 0 };
    {
      await using journal = await openSpendJournal({ file }, { clock });
      await journal.expired()[1]?.end("charged");
    }
    for (const compactBytes of [1_048_576, 0]) {
      await using journal = await openSpendJournal({ file, compactBytes }, { clock });
      assert.deepEqual(journal.sums(), { chargedMicroUsd: 2_000n, openMicroUsd: 1_000n, calls: 3 });
      assert.deepEqual(
        journal.expired().map(({ requestHash }) => requestHash),
        [hash(1)],
      );
    }
    await using journal = await openSpendJournal({ file }, { clock });
    const resumed = journal.resume(hash(2));
    assert.deepEqual([resumed?.isUsed, resumed?.open.payment], [true, payment(2)]);
    await resumed?.reservation.end("charged");
    assert.equal(journal.resume(hash(2)), undefined);
    assert.equal(journal.sums().chargedMicroUsd, 2_000n);
  });

  test("each line is JSON", async () => {
    const { bytes } = await written();
    for (const line of bytes.toString().trimEnd().split("\n")) assert.doesNotThrow(() => JSON.parse(line));
  });

  test("cut off at any byte it opens, and forgets nothing that stood on a whole line", async () => {
    const { bytes } = await written();
    const ends = [...bytes.entries()].flatMap(([at, byte]) => (byte === 10 ? [at + 1] : []));
    const steps = new Set<number>();
    for (let length = 0; length <= bytes.length; length += 1 + (length % 7)) steps.add(length);
    // All cuts beside an end of a line, and many inside of each.
    const lengths = Array.from({ length: bytes.length + 1 }, (_, length) => length).filter(
      (length) => steps.has(length) || length === bytes.length || ends.some((end) => Math.abs(end - length) <= 3),
    );
    const cutOff = async (length: number): Promise<void> => {
      const cut = bytes.subarray(0, length);
      const whole = cut
        .toString()
        .split("\n")
        .slice(0, -1)
        .flatMap((line, n) => decodeRecord(line, n) ?? []);
      const signed = whole.filter(({ t }) => t === "signed").length;
      const file = newFile();
      mkdirSync(join(file, ".."));
      writeFileSync(file, cut);
      await using journal = await openSpendJournal({ file });
      const { calls } = journal.sums();
      assert.ok(calls === signed || calls === signed + 1, `${length}: ${calls} of ${signed}`);
      const reservation = await reserve(journal, 9);
      await reservation.signed(payment(9, "9999999999"));
      await journal[Symbol.asyncDispose]();
      await using again = await openSpendJournal({ file });
      assert.equal(again.sums().calls, calls + 1);
    };
    // The disk takes nearly all of the time, so that many share it.
    for (let at = 0; at < lengths.length; at += 32) await Promise.all(lengths.slice(at, at + 32).map(cutOff));
  });

  test("other damage is refused, with the file and what to do", async () => {
    const { file, bytes } = await written();
    const lines = bytes.toString().trimEnd().split("\n");
    const cases: Record<string, string> = {
      "a digit changed": bytes.toString().replace('"microUsd":"1000"', '"microUsd":"0100"'),
      "a line gone": [...lines.slice(0, 2), ...lines.slice(3), ""].join("\n"),
      "a line twice": [...lines.slice(0, 3), ...lines.slice(2), ""].join("\n"),
      "the head gone": [...lines.slice(1), ""].join("\n"),
      "zeros inside": `${lines[0]}\n${"\0".repeat(50)}\n${lines.slice(1).join("\n")}\n`,
      "a line without end": `${lines[0]}\n${"x".repeat(600_000)}`,
    };
    for (const [name, text] of Object.entries(cases)) {
      writeFileSync(file, text);
      const said = new RegExp(`${file}.* line \\d+ is damaged.*nothing was signed`);
      await assert.rejects(openSpendJournal({ file }), refusesWith("SPEND_JOURNAL", said), name);
      assert.equal(readFileSync(file, "utf8"), text, "left as it was");
    }
    writeFileSync(file, Buffer.concat([bytes, Buffer.alloc(4_096)]));
    await (await openSpendJournal({ file }))[Symbol.asyncDispose]();
  });

  test("any byte that is changed before the last line is found", async () => {
    const { file, bytes } = await written();
    const end = bytes.subarray(0, -1).lastIndexOf(10);
    await fc.assert(
      fc.asyncProperty(fc.nat(end), fc.integer({ min: 1, max: 255 }), async (at, change) => {
        const bad = Buffer.from(bytes);
        bad[at] = (bad[at] ?? 0) ^ change;
        writeFileSync(file, bad);
        await assert.rejects(openSpendJournal({ file }), refusesWith("SPEND_JOURNAL"));
      }),
      { numRuns: 60 },
    );
  });

  test("a file that is something else is not touched", async () => {
    const file = newFile();
    mkdirSync(join(file, ".."));
    for (const text of ["export PATH=/bin", "export PATH=/bin\n", "{}"]) {
      writeFileSync(file, text);
      await assert.rejects(openSpendJournal({ file }), refusesWith("SPEND_JOURNAL", /nothing was signed/));
      assert.equal(readFileSync(file, "utf8"), text);
    }
    const inFile = join(file, "spend.jsonl");
    await assert.rejects(openSpendJournal({ file: inFile }), refusesWith("SPEND_JOURNAL", /spend\.jsonl.*nothing/));
    await assert.rejects(openSpendJournal({ file: folder }), refusesWith("SPEND_JOURNAL", /it is no file/));
  });

  test("a second one is refused, by whatever name, in this process and in another", async () => {
    const file = newFile();
    const journal = await openSpendJournal({ file });
    symlinkSync(file, join(folder, "link"));
    const inUse = refusesWith("SPEND_JOURNAL", /spend\.jsonl is in use by another process.*nothing was signed/);
    await assert.rejects(openSpendJournal({ file }), inUse);
    await assert.rejects(openSpendJournal({ file: join(folder, "link") }), inUse);
    await journal[Symbol.asyncDispose]();
    const other = child("", file);
    await once(other.stdout, "data");
    await assert.rejects(openSpendJournal({ file }), inUse);
    other.kill("SIGKILL");
    await once(other, "exit");
    await using next = await openSpendJournal({ file });
    assert.equal(next.sums().calls, 0, "the lock of a dead process is nobody's");
  });

  test("attack: who asks in vain in this process gives the lock to no other process", async () => {
    const file = newFile();
    await using journal = await openSpendJournal({ file });
    await assert.rejects(openSpendJournal({ file }), refusesWith("SPEND_JOURNAL", /in use/));
    const other = spawn(process.execPath, [CHILD, "", file], { stdio: ["ignore", "pipe", "ignore"] });
    const [first] = await Promise.race([once(other.stdout, "data"), once(other, "exit")]);
    other.kill("SIGKILL");
    assert.ok(!Buffer.isBuffer(first), "the other process has the journal too");
    assert.equal(journal.sums().calls, 0);
  });

  test("attack: a lock file that is taken away: who had it signs nothing more, and leaves the file alone", async () => {
    await using stand = await standInGateway(sold);
    const file = newFile();
    const journal = await openSpendJournal({ file });
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { journal });
    const reservation = await reserve(journal, 1);
    rmSync(`${file}.lock`);
    {
      await using next = await openSpendJournal({ file });
      const before = readFileSync(file);
      const said = refusesWith("SPEND_JOURNAL", /spend\.jsonl\.lock was taken away.*nothing was signed, or/);
      await assert.rejects(client.call("eth", BODY), said);
      await assert.rejects(reservation.signed(payment(1)), said);
      await journal[Symbol.asyncDispose]();
      assert.deepEqual(readFileSync(file), before);
      await reserve(next, 2);
    }
    assert.deepEqual([signer.count(), stand.payments()], [0, []]);
  });

  test("attack: a lock file that its last user removes: two processes never both have the journal behind it", async () => {
    const file = newFile();
    const first = await openSpendJournal({ file, isRemovedWhenDone: true });
    const other = spawn(process.execPath, [CHILD, "hold journal.lock", file], { stdio: ["pipe", "pipe", "ignore"] });
    const said: string[] = [];
    other.stdout.on("data", (data) => said.push(String(data)));
    await once(other.stdout, "data");
    await first[Symbol.asyncDispose]();
    assert.deepEqual([existsSync(file), existsSync(`${file}.lock`)], [false, false]);
    await using next = await openSpendJournal({ file });
    other.stdin.end("go on\n");
    assert.deepEqual(await Promise.race([once(other, "exit"), once(other.stdout, "data")]), [1, null]);
    assert.deepEqual(said, ["held\n"]);
    const reservation = await reserve(next, 1);
    await reservation.signed(payment(1));
  });

  test("a journal is removed by its age alone, and only when no process has it", async () => {
    const file = newFile();
    {
      await using journal = await openSpendJournal({ file });
      await reserve(journal, 1);
      await removeSpendJournal(file, Date.now() - 60_000);
      assert.ok(existsSync(file), "it is new");
      await assert.rejects(removeSpendJournal(file, Date.now() + 60_000), refusesWith("SPEND_JOURNAL", /in use/));
    }
    await removeSpendJournal(file, Date.now() + 60_000);
    assert.deepEqual([existsSync(file), existsSync(`${file}.lock`)], [false, false]);
    await removeSpendJournal(file, Date.now() + 60_000);
    assert.equal(existsSync(`${file}.lock`), false, "none is made for it");
  });

  test("two ends at once wait for what is being written, and only then is the lock free", async () => {
    const file = newFile();
    const { promise: held, resolve: go } = Promise.withResolvers<void>();
    const { promise: writing, resolve: arrived } = Promise.withResolvers<void>();
    const reach = async (name: string): Promise<void> => {
      if (name !== "journal.sync") return;
      arrived();
      await held;
    };
    const journal = await openSpendJournal({ file }, { faults: { reach } });
    const reservation = await reserve(journal, 1);
    const signed = reservation.signed(payment(1, "9999999999"));
    await writing;
    const ends = [journal, journal].map(async (one) => one[Symbol.asyncDispose]());
    let free = false;
    void ends[1]?.then(() => {
      free = true;
    });
    await assert.rejects(openSpendJournal({ file }), refusesWith("SPEND_JOURNAL", /in use/));
    assert.equal(free, false);
    go();
    await Promise.all([signed, ...ends]);
    await using again = await openSpendJournal({ file });
    assert.equal(again.sums().calls, 1);
  });

  test("is written anew when it is large: with the same sums, what is open, and nothing else", async () => {
    const { file } = await written();
    {
      await using journal = await openSpendJournal({ file });
      await journal.expired()[1]?.end("void");
    }
    const bytes = readFileSync(file);
    const open = async (compactBytes: number) => {
      await using journal = await openSpendJournal({ file, compactBytes });
      return [journal.sums(), journal.open()];
    };
    const before = await open(1_000_000);
    assert.deepEqual(readFileSync(file).subarray(0, bytes.length), bytes);
    assert.deepEqual(await open(1), before);
    assert.ok(readFileSync(file).length < bytes.length / 2);
    assert.equal(existsSync(`${file}.new`), false);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    for (let times = 0; times < 3; times++) assert.deepEqual(await open(1), before);
  });

  test("an end while it is written anew leaves the old one", async () => {
    const { file, bytes } = await written();
    const reach = (name: string): void => {
      if (name === "journal.rewritten") throw new TypeError("the power went");
    };
    await assert.rejects(openSpendJournal({ file, compactBytes: 1 }, { faults: { reach } }), /the power went/);
    assert.deepEqual(readFileSync(file), bytes);
    await using journal = await openSpendJournal({ file, compactBytes: 1 });
    assert.equal(journal.sums().calls, 3);
  });

  test("a hundred at once never take more than the budget, and all of them are found again", async () => {
    const file = newFile();
    {
      await using journal = await openSpendJournal({ file });
      const ends = await Promise.allSettled(
        Array.from({ length: 100 }, async (_, id) => {
          const reservation = await reserve(journal, id, 30_500n);
          await reservation.signed(payment(id));
          if (id % 2 === 0) await reservation.end("charged");
        }),
      );
      assert.equal(ends.filter(({ status }) => status === "fulfilled").length, 30);
    }
    await using journal = await openSpendJournal({ file });
    assert.deepEqual(journal.sums(), { chargedMicroUsd: 15_000n, openMicroUsd: 15_000n, calls: 30 });
  });

  test("whatever happens, a reopened journal holds what the first one did", async () => {
    const outcome = fc.constantFrom<SpendOutcome | "none" | "unsigned">(
      "charged",
      "claimed",
      "uncharged",
      "unserved",
      "open",
      "none",
      "unsigned",
    );
    await fc.assert(
      fc.asyncProperty(fc.array(outcome, { maxLength: 12 }), fc.boolean(), async (outcomes, compact) => {
        const file = newFile();
        const first = await openSpendJournal({ file });
        for (const [id, end] of outcomes.entries()) {
          const reservation = await reserve(first, id);
          if (end === "unsigned") continue;
          await reservation.signed(payment(id, "9999999999"));
          if (end !== "none") await reservation.end(end);
        }
        const unsigned = BigInt(outcomes.filter((end) => end === "unsigned").length) * 1_000n;
        const sums = first.sums();
        const open = first.open();
        await first[Symbol.asyncDispose]();
        await using again = await openSpendJournal({ file, ...(compact ? { compactBytes: 1 } : {}) });
        assert.deepEqual(again.sums(), { ...sums, openMicroUsd: sums.openMicroUsd - unsigned });
        assert.deepEqual(again.open(), open);
      }),
      { numRuns: 25 },
    );
  });

  test("a full disk: nothing is signed, and when there is room again it goes on", async () => {
    await using stand = await standInGateway(sold);
    const file = newFile();
    let full = true;
    const reach = (name: string): void => {
      if (full && name === "journal.write")
        throw Object.assign(new TypeError("ENOSPC: no space left"), { code: "ENOSPC" });
    };
    const journal = await openSpendJournal({ file }, { faults: { reach } });
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { totalUsd: "0.005", journal });
    const said = new RegExp(`${file} cannot be written \\(ENOSPC.*nothing was signed`);
    await assert.rejects(client.call("eth", BODY), refusesWith("SPEND_JOURNAL", said));
    assert.equal(signer.count(), 0);
    full = false;
    assert.equal((await client.call("eth", BODY)).kind, "bought");
    await journal[Symbol.asyncDispose]();
    await using again = await openSpendJournal({ file });
    assert.equal(again.sums().chargedMicroUsd, 5_000n);
  });

  test("a write that fails half-way leaves no half line behind", async () => {
    const file = newFile();
    let fails = false;
    const reach = (name: string): void => {
      if (fails && name === "journal.written") throw new TypeError("EIO");
    };
    {
      await using journal = await openSpendJournal({ file }, { faults: { reach } });
      const lost = await reserve(journal, 1);
      fails = true;
      await assert.rejects(lost.signed(payment(1)), refusesWith("SPEND_JOURNAL", /EIO.*was not sent/));
      fails = false;
      await reserve(journal, 2);
    }
    await using again = await openSpendJournal({ file });
    assert.deepEqual(again.sums(), { chargedMicroUsd: 0n, openMicroUsd: 0n, calls: 0 });
  });

  test("a disk that loses what was written: what was signed is not sent, and nothing more is signed", async () => {
    await using stand = await standInGateway(sold);
    const reach = (name: string): void => {
      if (name === "journal.sync") throw new TypeError("EIO");
    };
    await using journal = await openSpendJournal({ file: newFile() }, { faults: { reach } });
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { journal });
    for (let times = 0; times < 2; times++) {
      await assert.rejects(client.call("eth", BODY), refusesWith("SPEND_JOURNAL", /was not sent/));
    }
    assert.equal(signer.count(), 1);
    assert.deepEqual(stand.payments(), []);
  });

  test("a closed one signs nothing", async () => {
    await using stand = await standInGateway(sold);
    const journal = await openSpendJournal({ file: newFile() }, { faults: noFaults });
    await journal[Symbol.asyncDispose]();
    await journal[Symbol.asyncDispose]();
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { journal });
    await assert.rejects(client.call("eth", BODY), refusesWith("SPEND_JOURNAL", /it is closed/));
    assert.equal(signer.count(), 0);
  });

  test("killed at any step, the next process pays for the answer once, and counts it once", async () => {
    const killed = async (point: string, sent: number): Promise<void> => {
      const file = newFile();
      const { promise: reached, resolve: arrived } = Promise.withResolvers<void>();
      let holds = true;
      await using stand = await standInGateway((seen, response, count) => {
        if (!holds) sold(seen, response, count);
        else arrived();
      });
      const buyer = child(point, file, stand.gateway, newPrivateKey(), BODY);
      const exit = once(buyer, "exit") as Promise<[number | null, string | null]>;
      // Between the signature and the answer: the gateway has the payment, and says nothing.
      if (point === "answered") void reached.then(() => buyer.kill("SIGKILL"));
      assert.deepEqual(await exit, [null, "SIGKILL"], point);
      assert.equal(stand.payments().length, sent, point);
      holds = false;
      await using journal = await openSpendJournal({ file });
      const [open] = journal.open();
      // A signature that was not on the disk was not sent either: it is nobody's.
      assert.equal(open !== undefined, point !== "journal.reserved" && point !== "journal.sign", point);
      const signer = countingSigner();
      const { client } = testClient(stand.gateway, signer, { totalUsd: "0.005", journal });
      const result = await client.call("eth", BODY);
      assert.ok(result.kind === "bought", point);
      assert.equal(signer.count(), open === undefined ? 1 : 0, point);
      assert.equal(new Set(stand.payments()).size, 1, point);
      if (open !== undefined) assert.equal(result.payment, open.payment);
      assert.deepEqual([client.spending().chargedUsd, client.spending().openUsd], ["0.005000", "0.000000"], point);
      await assert.rejects(client.call("eth", BODY), refusesWith("BUDGET_SPENT"));
    };
    await Promise.all([
      killed("journal.reserved", 0),
      killed("journal.sign", 0),
      killed("journal.sync", 0),
      killed("journal.signed", 0),
      killed("answered", 1),
    ]);
  });

  test("attack: killed between the end of a payment and its answer, the next process gets that answer, and pays once", async () => {
    const killed = async (compactBytes: number): Promise<void> => {
      const file = newFile();
      await using stand = await standInGateway(sold);
      const buyer = child("journal.ended", file, stand.gateway, newPrivateKey(), BODY);
      assert.deepEqual(await once(buyer, "exit"), [null, "SIGKILL"]);
      const [payment] = stand.payments();
      await using journal = await openSpendJournal({ file, compactBytes });
      assert.deepEqual(journal.sums(), { chargedMicroUsd: 5_000n, openMicroUsd: 0n, calls: 1 });
      const signer = countingSigner();
      const { client } = testClient(stand.gateway, signer, { totalUsd: "0.005", journal });
      const result = await client.call("eth", BODY);
      assert.ok(result.kind === "bought");
      assert.deepEqual([result.payment, result.isResumed, result.usd], [payment, true, "0.005000"]);
      assert.equal(signer.count(), 0);
      assert.deepEqual([client.spending().chargedUsd, client.spending().openUsd], ["0.005000", "0.000000"]);
      await assert.rejects(client.call("eth", BODY), refusesWith("BUDGET_SPENT"));
      assert.equal(journal.pendingCount(), 0);
    };
    await Promise.all([killed(1_048_576), killed(0)]);
  });

  test("what a caller keeps is presented again until it is acknowledged, also after a restart, and counts once", async () => {
    await using stand = await standInGateway(sold);
    const signer = countingSigner();
    const file = newFile();
    const keep = { keepUntilAcknowledged: true };
    let resultId = "";
    for (const isResumed of [false, true, true]) {
      await using journal = await openSpendJournal({ file });
      const { client } = testClient(stand.gateway, signer, { totalUsd: "0.005", journal });
      for (const isAgain of [isResumed, true]) {
        const result = await client.call("eth", BODY, keep);
        assert.ok(result.kind === "bought");
        assert.equal(result.isResumed, isAgain);
        resultId = result.resultId ?? "";
      }
      assert.deepEqual([signer.count(), client.spending().chargedUsd, client.openPayments()], [1, "0.005000", []]);
    }
    {
      await using journal = await openSpendJournal({ file });
      const { client } = testClient(stand.gateway, signer, { journal });
      await client.acknowledge(resultId);
      await client.acknowledge(resultId);
      assert.equal(journal.pendingCount(), 0);
    }
    await using journal = await openSpendJournal({ file });
    const { client } = testClient(stand.gateway, signer, { totalUsd: "0.01", journal });
    const anew = await client.call("eth", BODY);
    assert.ok(anew.kind === "bought");
    assert.deepEqual([anew.isResumed, signer.count(), client.spending().chargedUsd], [false, 2, "0.010000"]);
    assert.equal(journal.pendingCount(), 0, "acknowledged as it was returned");
  });

  test("attack: an acknowledged result that is open ends nothing: the same payment is presented, also after a restart", async () => {
    let state: Answerer = sold;
    await using stand = await standInGateway((...seen) => state(...seen));
    const signer = countingSigner();
    const file = newFile();
    const keep = { keepUntilAcknowledged: true };
    // The last ones are written anew when they are opened.
    for (const compactBytes of [1_048_576, 1_048_576, 0, 0]) {
      await using journal = await openSpendJournal({ file, compactBytes });
      const { client } = testClient(stand.gateway, signer, { journal });
      if (state === sold) await client.call("eth", BODY, keep);
      state = (_, response) => answerJson(response, 400, { code: "BAD_REQUEST", message: "Sign again." });
      const result = await client.call("eth", BODY, keep);
      assert.ok(result.kind === "refused" && result.open && result.payment !== undefined);
      assert.equal(result.resultId, undefined);
      await client.acknowledge(result.payment);
      assert.deepEqual([signer.count(), journal.pendingCount(), client.spending().chargedUsd], [1, 1, "0.005000"]);
    }
    await using journal = await openSpendJournal({ file });
    const { client } = testClient(stand.gateway, signer, { journal });
    state = sold;
    const bought = await client.call("eth", BODY, keep);
    assert.ok(bought.kind === "bought" && bought.isResumed);
    await client.acknowledge(bought.resultId ?? "");
    assert.deepEqual([signer.count(), journal.pendingCount()], [1, 0]);
  });

  test("killed while a payment that was not served is presented again, it is not given back by time", async () => {
    const file = newFile();
    {
      await using journal = await openSpendJournal({ file });
      const reservation = await reserve(journal, 1);
      await reservation.signed(payment(1, "9999999999"));
      await reservation.end("unserved");
      await journal.resume(hash(1))?.reservation.signed(payment(1, "9999999999"));
    }
    const clock = { nowMs: () => 99_999_999_999_000, monotonicMs: () => 0 };
    await using journal = await openSpendJournal({ file }, { clock });
    assert.deepEqual(journal.sums(), { chargedMicroUsd: 0n, openMicroUsd: 1_000n, calls: 1 });
    assert.equal(journal.open().length, 1);
  });

  test("attack: facts of a payment only grow: no later outcome, no second try, and no restart takes one back", async () => {
    const outcomes = ["open", "uncharged", "unserved", "claimed"] as const;
    const receipt = { ...RECEIPT, transaction: `0x${"ab".repeat(32)}` };
    const clock = { nowMs: () => 99_999_999_999_000, monotonicMs: () => 0 };
    for (const fact of ["used", "unacknowledged"] as const) {
      for (const later of outcomes.flatMap((one) => outcomes.map((two) => [one, two] as const))) {
        const file = newFile();
        {
          await using journal = await openSpendJournal({ file }, { clock });
          const reservation = await reserve(journal, 1);
          await reservation.signed(payment(1));
          await reservation.shown(receipt);
          await reservation.end(fact === "used" ? "uncharged" : fact);
          if (fact === "used") await journal.expired()[0]?.end("charged");
        }
        for (const compactBytes of [1_048_576, 0, 1_048_576]) {
          await using journal = await openSpendJournal({ file, compactBytes }, { clock });
          const assertFacts = (): void => {
            assert.deepEqual(
              journal.sums(),
              { chargedMicroUsd: 1_000n, openMicroUsd: 0n, calls: 1 },
              `${fact} ${later.join()}`,
            );
            assert.deepEqual([journal.open(), journal.expired(), journal.pendingCount()], [[], [], 1]);
          };
          assertFacts();
          for (const outcome of later) {
            const resumed = journal.resume(hash(1));
            assert.deepEqual(
              [resumed?.isUsed, resumed?.isCharged, resumed?.receipt?.transaction],
              [fact === "used", fact === "unacknowledged", receipt.transaction],
            );
            await resumed?.reservation.signed(payment(1));
            await resumed?.reservation.shown({ ...receipt, transaction: `0x${"cd".repeat(32)}` });
            assertFacts();
            await resumed?.reservation.end(outcome, RECEIPT);
            assertFacts();
          }
          // Cut off while it is presented.
          await journal.resume(hash(1))?.reservation.signed(payment(1));
        }
      }
    }
  });

  test("both facts of a payment stand beside each other: the chain showed it, and a caller was told", async () => {
    const clock = { nowMs: () => 99_999_999_999_000, monotonicMs: () => 0 };
    const file = newFile();
    {
      await using journal = await openSpendJournal({ file }, { clock });
      const reservation = await reserve(journal, 1);
      await reservation.signed(payment(1));
      await reservation.end("uncharged");
      const [first, second] = [journal.expired()[0], journal.expired()[0]];
      await first?.end("charged");
      await second?.end("void");
      await journal.resume(hash(1))?.reservation.end("unacknowledged");
    }
    for (const compactBytes of [1_048_576, 0, 1_048_576]) {
      await using journal = await openSpendJournal({ file, compactBytes }, { clock });
      const resumed = journal.resume(hash(1));
      assert.deepEqual([resumed?.isUsed, resumed?.isCharged], [true, true]);
      assert.equal(journal.sums().chargedMicroUsd, 1_000n);
    }
  });

  test("attack: a journal whose facts an older version wrote over is read with the facts", async () => {
    const end = (outcome: RecordedOutcome): JournalRecord => ({ t: "end", id: 0, outcome });
    const signed = { t: "signed", id: 0, payment: payment(1), signedAt: "" } as const;
    for (const records of [
      [end("uncharged"), end("used"), signed, end("open"), signed, end("uncharged")],
      [end("used"), signed],
      [end("used"), end("unserved"), signed, end("claimed")],
    ]) {
      const file = newFile();
      const all: readonly JournalRecord[] = [
        { t: "journal", version: 1, chargedMicroUsd: 0n, calls: 0, nextId: 0 },
        { t: "reserve", id: 0, service: "eth", requestHash: hash(1), microUsd: 1_000n },
        signed,
        ...records,
      ];
      mkdirSync(join(file, ".."));
      writeFileSync(file, all.map((record, n) => `${encodeRecord(record, n)}\n`).join(""));
      await using journal = await openSpendJournal({ file });
      assert.deepEqual(journal.sums(), { chargedMicroUsd: 1_000n, openMicroUsd: 0n, calls: 1 });
      assert.equal(journal.resume(hash(1))?.isUsed, true);
    }
  });
});
