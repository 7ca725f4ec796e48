import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { AppError } from "@turnpike/base";
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
import { openSpendJournal } from "./index.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike-siblings-"));
let count = 0;
const filesOf = () => {
  const at = count++;
  return [1, 2].map((n) => join(folder, `${at}-${n}.jsonl`)) as [string, string];
};

const lost: Answerer = (_, response) => void response.destroy();
const refuse: Answerer = (_, response) => answerJson(response, 400, { code: "BAD_REQUEST", message: "No." });
const KEEP = { keepUntilAcknowledged: true };

suite("payments of a buyer's other journals", { timeout: 300_000 }, () => {
  after(() => rmSync(folder, { recursive: true, force: true }));

  test("attack: what another process left open, refused or unacknowledged is presented, and nothing new is signed", async () => {
    for (const first of [lost, refuse, sold]) {
      let answer = first;
      await using stand = await standInGateway((...seen) => answer(...seen));
      const signer = countingSigner();
      const [one, two] = filesOf();
      const use = async (file: string, siblings: readonly string[]) => {
        await using journal = await openSpendJournal({ file, siblings });
        const { client } = testClient(stand.gateway, signer, { journal, retryForMs: 0 });
        const result = await client.call("eth", BODY, KEEP);
        return { result, sums: journal.sums(), pending: journal.pendingCount() };
      };
      await use(two, [one]);
      answer = sold;
      const { result, sums, pending } = await use(one, [two]);
      assert.ok(result.kind === "bought" && result.isResumed);
      assert.deepEqual([signer.count(), new Set(stand.payments()).size], [1, 1]);
      assert.deepEqual([sums, pending], [{ chargedMicroUsd: 5_000n, openMicroUsd: 0n, calls: 1 }, 1]);
      await using left = await openSpendJournal({ file: two });
      assert.deepEqual(
        [left.sums(), left.pendingCount()],
        [{ chargedMicroUsd: 0n, openMicroUsd: 0n, calls: 0 }, 0],
        "it counts once",
      );
    }
  });

  test("attack: what another process leaves while this one runs is found before the next signature", async () => {
    let answer: Answerer = lost;
    await using stand = await standInGateway((...seen) => answer(...seen));
    const signer = countingSigner();
    const [one, two] = filesOf();
    await using journal = await openSpendJournal({ file: one, siblings: [two] });
    const { client } = testClient(stand.gateway, signer, { journal });
    {
      await using other = await openSpendJournal({ file: two, siblings: [one] });
      await testClient(stand.gateway, signer, { journal: other, retryForMs: 0 }).client.call("eth", BODY);
    }
    answer = sold;
    assert.equal((await client.call("eth", BODY)).kind, "bought");
    assert.deepEqual([signer.count(), new Set(stand.payments()).size], [1, 1]);
    assert.equal((await client.call("eth", BODY)).kind, "bought");
    assert.equal(signer.count(), 2);
  });

  test("a journal that another process has is left alone, and one that is damaged is named before anything is signed", async () => {
    await using stand = await standInGateway(sold);
    const signer = countingSigner();
    const [one, two] = filesOf();
    await using journal = await openSpendJournal({ file: one, siblings: [two] });
    const { client } = testClient(stand.gateway, signer, { journal });
    {
      await using other = await openSpendJournal({ file: two });
      const reservation = await other.reserve({
        service: "eth",
        requestHash: "a",
        microUsd: 1n,
        totalMicroUsd: undefined,
      });
      await reservation.signed("payment");
      assert.equal((await client.call("eth", BODY)).kind, "bought");
    }
    writeFileSync(two, `garbage\n${readFileSync(two, "utf8")}`);
    await assert.rejects(client.call("eth", BODY), refusesWith("SPEND_JOURNAL", /-2\.jsonl.*nothing was signed/));
    assert.equal(signer.count(), 1);
  });

  for (const point of ["journal.write", "journal.written", "journal.sync"]) {
    test(`a fault at ${point} while a payment is taken over: it is in one of the two, and counts at least once`, async () => {
      const [one, two] = filesOf();
      {
        await using other = await openSpendJournal({ file: two });
        const call = { service: "eth", requestHash: "a", microUsd: 5n, totalMicroUsd: undefined };
        await (await other.reserve(call)).signed("payment");
      }
      for (let times = 1; times <= 3; times++) {
        let reached = 0;
        const reach = async (name: string): Promise<void> => {
          if (name === point && ++reached === times) throw new AppError("INTERNAL", { message: "cut" });
        };
        await openSpendJournal({ file: one, siblings: [two] }, { faults: { reach } }).then(
          (journal) => journal[Symbol.asyncDispose](),
          () => undefined,
        );
      }
      await using journal = await openSpendJournal({ file: one, siblings: [two] });
      assert.deepEqual(journal.sums(), { chargedMicroUsd: 0n, openMicroUsd: 5n, calls: 1 });
      assert.equal(journal.resume("a")?.open.payment, "payment");
      assert.equal(journal.resume("a"), undefined, "it is there once");
    });
  }
});
