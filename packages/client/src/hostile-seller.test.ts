import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { inspect } from "node:util";
import { honestOption, modesOf, nestedJson, SELLER_MODES, startHostileSeller } from "@turnpike/testkit/hostile-seller";
import { BODY, countingSigner, refusesWith, testClient } from "../test/stand-in.ts";
import { memoryJournal, openSpendJournal } from "./index.ts";

const PRICE = 5_000n;
/** Longer than a payment can be taken. */
const PAYMENT_MS = 3_600_000;
/** Answers and receipts that a buyer can use: the call is bought. */
const USABLE = new Set([
  "honest",
  "answer-2000-levels",
  "answer-proto-keys",
  "answer-lone-surrogates",
  "answer-null",
  "answer-cut-once",
  "receipt-4000-levels",
]);

suite("client, against the answers and receipts of a hostile seller", () => {
  for (const [name, mode] of modesOf("answer", "receipt")) {
    test(`attack: ${name}: one signature, one transfer, and the result names it`, async () => {
      await using seller = await startHostileSeller(mode);
      const signer = countingSigner();
      const journal = memoryJournal();
      const { client } = testClient(seller.url, signer, { journal });
      const result = await client.call("eth", BODY);
      assert.equal(signer.count(), 1);
      assert.equal(seller.chain.chargedUnits(), PRICE);
      assert.ok(result.kind !== "free");
      assert.equal(result.usd, "0.005000");
      assert.equal(result.payment, seller.presentations[0]?.header);
      if (USABLE.has(name)) {
        assert.equal(result.kind, "bought", inspect(result, { depth: 1 }));
        assert.equal(result.state, "charged");
        return;
      }
      assert.ok(result.kind === "refused", inspect(result, { depth: 1 }));
      assert.deepEqual([result.state, result.open], ["open", true]);
      assert.ok(JSON.stringify({ ...result, price: undefined }).length < 20_000, "its facts are bounded");

      seller.mode = SELLER_MODES.honest ?? mode;
      const again = await client.call("eth", BODY);
      assert.ok(again.kind === "bought", "the same payment gets the stored answer");
      assert.equal(again.payment, result.payment);
      assert.deepEqual([signer.count(), seller.chain.chargedUnits()], [1, PRICE]);
      assert.deepEqual(journal.open(), []);
    });
  }

  test("attack: an answer that cannot be read is requested a bounded number of times in one call", async () => {
    await using seller = await startHostileSeller(SELLER_MODES["answer-page-of-a-proxy"]);
    const { client, waits } = testClient(seller.url, countingSigner());
    const result = await client.call("eth", BODY);
    assert.ok(result.kind === "refused");
    assert.equal(result.code, "ANSWER_UNREADABLE");
    assert.match(
      result.message,
      /^The gateway answered 200 with a receipt, and the answer cannot be read: it is not JSON\.$/,
    );
    assert.match(
      result.charge,
      /^0\.005000 USD was charged once, as the receipt states\. .*present the same payment again/,
    );
    assert.equal(seller.presentations.length, 4);
    assert.deepEqual(waits, [500, 1_000, 2_000]);
  });

  test("after the time of its payment an unreadable answer is charged, in words, and only the next call buys anew", async () => {
    await using seller = await startHostileSeller(SELLER_MODES["answer-cut-gzip"]);
    const signer = countingSigner();
    const { client, later } = testClient(seller.url, signer);
    assert.equal((await client.call("eth", BODY)).state, "open");
    later(125_000);
    const late = await client.call("eth", BODY);
    assert.ok(late.kind === "refused");
    assert.deepEqual([late.state, late.open, late.retryable], ["charged", false, false]);
    assert.match(late.charge, /was charged once, as the receipt states, and counts as spent/);
    assert.equal(signer.count(), 1);
    seller.mode = SELLER_MODES.honest ?? seller.mode;
    assert.equal((await client.call("eth", BODY)).kind, "bought");
    assert.equal(signer.count(), 2);
  });

  test("attack: a refusal after a receipt gives nothing back", async () => {
    await using seller = await startHostileSeller({
      kind: "answer",
      paid: (call) => {
        if (call.presentations === 1) call.response.writeHead(200, { ...call.receipt() }).end("{");
        else {
          const error = "PAYMENT_EXPIRED: The payment has expired.";
          call.response.writeHead(402, { "content-type": "application/json" }).end(JSON.stringify({ error }));
        }
      },
    });
    const signer = countingSigner();
    const { client, later } = testClient(seller.url, signer);
    const result = await client.call("eth", BODY);
    assert.ok(result.kind === "refused");
    assert.equal(result.state, "open");
    assert.equal(result.receipt?.success, true);
    assert.match(result.charge, /was charged once, as the receipt states/);
    later(1_000);
    const second = await client.call("eth", BODY);
    assert.ok(second.kind === "refused");
    assert.deepEqual([second.state, second.receipt?.success], ["open", true]);
    assert.match(second.charge, /was charged once, as the receipt states/);
    assert.equal(signer.count(), 1);

    later(PAYMENT_MS);
    const third = await client.call("eth", BODY);
    assert.ok(third.kind === "refused");
    assert.equal(third.state, "charged");
    assert.match(third.charge, /was charged once, as the receipt states, and counts as spent/);
    assert.deepEqual([signer.count(), client.spending().chargedUsd], [1, "0.005000"]);
  });

  for (const status of [200, 402]) {
    test(`attack: a refusal in a new process after a ${status} with a receipt gives nothing back`, async () => {
      await using seller = await startHostileSeller({
        kind: "answer",
        paid: (call) => {
          if (call.presentations === 1) call.response.writeHead(status, { ...call.receipt() }).end("{");
          else {
            const error = "PAYMENT_EXPIRED: The payment has expired.";
            call.response.writeHead(402, { "content-type": "application/json" }).end(JSON.stringify({ error }));
          }
        },
      });
      const folder = await mkdtemp(join(tmpdir(), "receipt-"));
      try {
        const signer = countingSigner();
        // The last one is written anew when it is opened: a receipt outlives that too.
        for (const compactBytes of [1_048_576, 1_048_576, 0, 0]) {
          await using journal = await openSpendJournal({ file: join(folder, "journal"), compactBytes });
          const result = await testClient(seller.url, signer, { journal }).client.call("eth", BODY);
          assert.ok(result.kind === "refused");
          assert.ok(["open", "charged"].includes(result.state), result.state);
          assert.equal(result.receipt?.success, true);
          assert.match(result.charge, /was charged once, as the receipt states/);
        }
        assert.equal(signer.count(), 1);
      } finally {
        await rm(folder, { recursive: true });
      }
    });
  }

  test("attack: terms of 3,000 levels are not signed", async () => {
    const deep: unknown = JSON.parse(nestedJson(3_000));
    await using seller = await startHostileSeller({
      kind: "terms",
      unpaid: ({ terms }) => terms([honestOption({ extra: { name: "USDC", version: "2", deep } })]),
    });
    const signer = countingSigner();
    await assert.rejects(
      testClient(seller.url, signer).client.call("eth", BODY),
      refusesWith("PAYMENT_OPTION_UNKNOWN"),
    );
    assert.equal(signer.count(), 0);
  });

  test("attack: the head of an answer counts although its connection hangs and is given up", async () => {
    await using seller = await startHostileSeller(SELLER_MODES["timing-head-without-body"]);
    const { client } = testClient(seller.url, countingSigner());
    const abort = new AbortController();
    const calling = client.call("eth", BODY, { signal: abort.signal });
    await seller.whenAnswered();
    abort.abort();
    const result = await calling;
    assert.ok(result.kind === "refused");
    assert.deepEqual([result.state, result.open, result.usd], ["open", true, "0.005000"]);
  });
});
