import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { suite, test } from "node:test";
import { ERRORS, isAppError, QuotedError } from "@turnpike/base";
import { type Answerer, answerJson, BODY, countingSigner, standInGateway, testClient } from "../test/stand-in.ts";

const CODES = Object.keys(ERRORS);
/** Codes by which the buyer's programs report faults of their own, and states of their own budget. */
const BUYER_CODES = [
  "BUDGET_SPENT",
  "SPEND_CAP",
  "SPEND_JOURNAL",
  "CONFIG_INVALID",
  "USAGE",
  "GATEWAY_UNREACHABLE",
  "ANSWER_UNREADABLE",
];

/** A gateway that refuses each request, before any terms. */
async function refusingGateway() {
  let body: unknown;
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(503, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    gateway: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    say: (next: unknown) => {
      body = next;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

suite("codes of the registry, said by a gateway", () => {
  test("attack: no code of the buyer's own, or of a payment, is that of a refusal or a quote before a payment", async () => {
    await using stand = await refusingGateway();
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer);
    for (const code of CODES) {
      stand.say({ code, message: "words", retryable: true });
      const result = await client.call("eth", BODY);
      assert.equal(result.kind, "refused", code);
      const quoted: unknown = await client.quote("eth", BODY).catch((error: unknown) => error);
      assert.ok(quoted instanceof QuotedError && isAppError(quoted), code);
      const isBuyers = BUYER_CODES.includes(code) || /^(?:PAYMENT|CHAIN|LEDGER|SEARCH)_/.test(code);
      if (isBuyers) assert.notEqual(result.code, code);
      if (result.code === code) {
        assert.equal(quoted.code, code);
        continue;
      }
      assert.deepEqual([result.code, quoted.code], ["HTTP_503", "INTERNAL"], code);
      assert.equal(result.message, `${code}: words`);
      assert.equal(quoted.thirdParty, `${code}: words`);
    }
    assert.equal(signer.count(), 0);
  });

  test("attack: no code of the buyer's own is that of a refused payment", async () => {
    let body: unknown;
    let status = 503;
    const refuse: Answerer = (_, response) => answerJson(response, status, body);
    for (const code of BUYER_CODES) {
      for (const refusal of [503, 402]) {
        status = refusal;
        body =
          status === 402 ? { x402Version: 2, error: `${code}: words` } : { code, message: "words", retryable: false };
        await using stand = await standInGateway(refuse);
        const result = await testClient(stand.gateway, countingSigner()).client.call("eth", BODY);
        assert.equal(result.kind, "refused", code);
        assert.deepEqual(
          [result.code, result.message],
          [status === 402 ? "PAYMENT_REQUIRED" : "HTTP_503", `${code}: words`],
        );
      }
    }
  });

  test("a code of a payment is that of a refused payment", async () => {
    const body = { x402Version: 2, error: "PAYMENT_INSUFFICIENT_FUNDS: Too little." };
    await using stand = await standInGateway((_, response) => answerJson(response, 402, body));
    const result = await testClient(stand.gateway, countingSigner()).client.call("eth", BODY);
    assert.equal(result.kind, "refused");
    assert.deepEqual([result.code, result.message], ["PAYMENT_INSUFFICIENT_FUNDS", "Too little."]);
  });
});
