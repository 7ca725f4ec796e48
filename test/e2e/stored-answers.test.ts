import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { inspect } from "node:util";
import { createClient, memoryJournal, signerFromKey } from "@turnpike/client";
import { devRpc } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { decodeFunctionData, parseAbi } from "viem";
import { type Ground, newBuyer, startGround } from "../support/network.ts";
import { type Answer, call, decodeHeader, termsOf } from "../support/payer.ts";
import { ethAt, type OpenGateway, openGateway, PRICE, showsStandIn, startStandIn } from "./support.ts";

const ABI = parseAbi([
  "struct Transfer { address token; address from; address to; uint256 value; uint256 validAfter; uint256 validBefore; bytes32 nonce; uint8 v; bytes32 r; bytes32 s; }",
  "struct Result { bool success; bytes returnData; }",
  "function settle(uint256 gasEach, Transfer[] transfers) returns (Result[])",
]);
const BODY = { method: "eth_gasPrice", params: [] };
const OTHER_BODY = { method: "eth_maxPriorityFeePerGas", params: [] };

/** Presenting a payment again in vain counts for its client. */
const UNLIMITED = { perClient: { burst: 100_000, perSecond: 10_000 } };

suite("stored answers and what is public of a payment", { concurrency: 4 }, () => {
  let ground: Ground;

  before(async () => {
    ground = await startGround();
  });
  after(() => ground?.[Symbol.asyncDispose]());

  /** The payment header that the reference client sent, by the settlement transaction and the public terms alone. */
  const rebuild = async (url: string, transaction: string): Promise<string> => {
    const { input } = (await devRpc(ground.anvil.url, "eth_getTransactionByHash", [transaction])) as {
      readonly input: `0x${string}`;
    };
    const { args } = decodeFunctionData({ abi: ABI, data: input });
    const [, [transfer]] = args;
    const { from, to, value, validAfter, validBefore, nonce, v, r, s } = transfer ?? assert.fail();
    const terms = await termsOf(url);
    const payload = {
      x402Version: 2,
      payload: {
        authorization: {
          from,
          to,
          value: String(value),
          validAfter: String(validAfter),
          validBefore: String(validBefore),
          nonce,
        },
        signature: `${r}${s.slice(2)}${v.toString(16)}`,
      },
      extensions: terms.extensions,
      resource: terms.resource,
      accepted: terms.accepts[0],
    };
    return Buffer.from(JSON.stringify(payload)).toString("base64");
  };

  /** Neither the answer, nor more of the payment than its transaction shows. */
  const assertNothing = (answer: Answer, transaction: string): void => {
    assert.ok([402, 409].includes(answer.status), `${answer.status}: ${answer.text}`);
    assert.ok(!showsStandIn(answer.text), "the stored answer");
    assert.equal(answer.receipt?.transaction ?? transaction, transaction);
  };

  const open = (url: string, ledger: Readonly<Record<string, unknown>> = {}): Promise<OpenGateway> =>
    openGateway(ground, { sections: { suppliers: ethAt(url), limits: { unpaid: UNLIMITED } }, ledger });

  test("attack: a payment of our client, rebuilt from its settlement transaction, gets no stored answer", async () => {
    await using node = await startStandIn();
    await using gateway = await open(node.url);
    const { key } = await newBuyer(ground);
    await using client = createClient({
      gateway: gateway.url,
      signer: signerFromKey(key),
      budget: { perCallUsd: "0.01" },
      journal: memoryJournal(),
    });
    const bought = await client.call("eth", BODY);
    assert.ok(bought.kind === "bought", inspect(bought));
    const url = gateway.route("eth");
    const header = await rebuild(url, bought.receipt.transaction);
    const sent = decodeHeader<{ payload: unknown }>(bought.payment);
    assert.deepEqual(decodeHeader<{ payload: unknown }>(header).payload, sent.payload);
    const right = await call(url, BODY, header);
    const wrong = await call(url, OTHER_BODY, header);
    assertNothing(right, bought.receipt.transaction);
    assertNothing(wrong, bought.receipt.transaction);
    assert.deepEqual([right.status, right.json.error], [wrong.status, wrong.json.error]);
    // Its buyer has what the chain does not show.
    const again = await client.call("eth", BODY, { payment: bought.payment });
    assert.equal(again.kind, "bought");
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(1);
  });

  test("attack: a payment without an answer key gets its stored answer for a short time, then any request the same refusal", async () => {
    await using node = await startStandIn();
    await using gateway = await open(node.url, { keylessAnswerSeconds: 1 });
    const payer = await ground.fundedPayer(PRICE * 2n);
    const scheme = new ExactEvmScheme(payer.account);
    let sent: string | null = null;
    const url = gateway.route("eth");
    const pay = wrapFetchWithPayment(
      async (input, init) => {
        const request = new Request(input, init);
        sent = request.headers.get("payment-signature");
        return fetch(request);
      },
      new x402Client().register("eip155:*", scheme),
    );
    const init = {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(BODY),
    };
    const bought = await pay(url, init);
    assert.equal(bought.status, 200, await bought.text());
    const { transaction } = decodeHeader<{ transaction: string }>(bought.headers.get("payment-response") ?? "");
    const header = await rebuild(url, transaction);
    assert.equal(header, sent, "the attack has the very bytes");
    let right: Answer | undefined;
    await eventually("the answer is not handed out any more", async () => {
      right = await call(url, BODY, header);
      return right.status !== 200;
    });
    const wrong = await call(url, OTHER_BODY, header);
    assert.ok(right !== undefined);
    assertNothing(right, transaction);
    assertNothing(wrong, transaction);
    assert.deepEqual([right.status, right.json.code], [wrong.status, wrong.json.code]);
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(1);
  });
});
