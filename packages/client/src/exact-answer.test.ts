import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { startHostileSeller } from "@turnpike/testkit/hostile-seller";
import { BODY, countingSigner, testClient } from "../test/stand-in.ts";

/** Amounts of u64 chains, a number beyond all doubles, a key twice, and white space. */
const DATA = '{ "slot":12345678901234567890, "lamports":9007199254740993,"x":1e999 ,"a":1,"a":2 }';

suite("an answer as it was sent", () => {
  test("attack: numbers beyond doubles and repeated keys of a bought answer are in its text, as they were sent", async () => {
    await using seller = await startHostileSeller({ kind: "answer", paid: ({ sell }) => sell(DATA) });
    const { client } = testClient(seller.url, countingSigner());
    const result = await client.call("eth", BODY);
    assert.equal(result.kind, "bought");
    assert.ok(result.answerText?.endsWith(`"data":${DATA}}`));
    assert.deepEqual((result.envelope as { data: unknown }).data, JSON.parse(DATA));
  });

  test("the stored answer of a payment that is presented again, and an answer that costs nothing, are as they were sent", async () => {
    await using seller = await startHostileSeller({
      kind: "answer",
      paid: ({ presentations, response, sell }) => {
        if (presentations > 1) sell(DATA);
        else response.destroy();
      },
    });
    const { client } = testClient(seller.url, countingSigner(), { retryForMs: 0 });
    assert.equal((await client.call("eth", BODY)).kind, "refused");
    const stored = await client.call("eth", BODY);
    assert.equal(stored.kind, "bought");
    assert.equal(stored.isResumed, true);
    assert.ok(stored.answerText?.endsWith(`"data":${DATA}}`));
    seller.mode = { kind: "answer", unpaid: ({ response }) => void response.writeHead(200).end(DATA) };
    const free = await client.call("eth", `${BODY} `);
    assert.equal(free.kind, "free");
    assert.equal(free.answerText, DATA);
  });

  test("an answer of more values than are parsed is bought, with its text alone", async () => {
    await using seller = await startHostileSeller({ kind: "answer", paid: ({ sell }) => sell("[1,2,3,4,5]") });
    const signer = countingSigner();
    const bought = async (maxParsedValues: number) => {
      const { client } = testClient(seller.url, signer, { maxParsedValues });
      const result = await client.call("eth", BODY);
      assert.equal(result.kind, "bought");
      assert.match(result.answerText ?? "", /"data":\[1,2,3,4,5\]\}$/);
      return result.envelope;
    };
    // The envelope, its portal with three members, its data with five.
    assert.notEqual(await bought(11), undefined);
    assert.equal(await bought(10), undefined);
  });
});
