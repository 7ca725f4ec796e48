import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { eventually } from "@turnpike/testkit";
import { type Ground, startGround } from "../support/network.ts";
import { type Answer, call, decodeHeader, signPayment, termsOf } from "../support/payer.ts";
import {
  ethAt,
  inFlight,
  type OpenGateway,
  openGateway,
  PRICE,
  STAND_IN_RESULT,
  type StandIn,
  showsStandIn,
  startStandIn,
} from "./support.ts";

const BODY = { method: "eth_gasPrice", params: [] };
const OTHER_BODY = { method: "eth_maxPriorityFeePerGas", params: [] };
/** Order of the curve secp256k1: the second form of a signature has `n - s`. */
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

interface Payload {
  readonly payload: { signature: string; readonly authorization: Readonly<Record<string, string>> };
}

// Each test has a gateway, a ledger and payers of its own.
suite("payments that race, repeat or are forged", { concurrency: 4 }, () => {
  let ground: Ground;

  before(async () => {
    ground = await startGround();
  });
  after(() => ground?.[Symbol.asyncDispose]());

  const gatewayAt = (node: StandIn): Promise<OpenGateway> =>
    openGateway(ground, { sections: { suppliers: ethAt(node.url) } });

  const assertBought = (answer: Answer): void => {
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.data.result, STAND_IN_RESULT);
    assert.equal(answer.receipt?.success, true);
  };

  /** The same header with another signature. */
  const resign = (header: string, change: (signature: string) => string): string => {
    const payload = decodeHeader<Payload>(header);
    payload.payload.signature = change(payload.payload.signature);
    return Buffer.from(JSON.stringify(payload)).toString("base64");
  };

  test("10 copies of one payment at once: one upstream run, one settlement, ten equal answers", async () => {
    await using node = await startStandIn(true);
    await using gateway = await gatewayAt(node);
    const payer = await ground.fundedPayer(PRICE * 20n);
    const url = gateway.route("eth");
    const header = await signPayment(payer, await termsOf(url));
    const copies = Array.from({ length: 10 }, () => call(url, BODY, header));
    // All of them are in the gateway before the first one gets its answer.
    await eventually("ten requests in flight", async () => (await inFlight(gateway)) === 10);
    node.release();
    const answers = await Promise.all(copies);
    for (const answer of answers) assertBought(answer);
    assert.deepEqual(new Set(answers.map(({ text }) => text)).size, 1);
    assert.deepEqual(new Set(answers.map(({ headers }) => headers.get("payment-response"))).size, 1);
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(1);
    assert.equal(await ground.balance(payer.address), PRICE * 19n);
  });

  test("10 copies in front of a node that answers at once: the same", async () => {
    await using node = await startStandIn();
    await using gateway = await gatewayAt(node);
    const payer = await ground.fundedPayer(PRICE * 20n);
    const url = gateway.route("eth");
    const header = await signPayment(payer, await termsOf(url));
    const answers = await Promise.all(Array.from({ length: 10 }, () => call(url, BODY, header)));
    for (const answer of answers) assertBought(answer);
    assert.deepEqual(new Set(answers.map(({ text }) => text)).size, 1);
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(1);
  });

  test("20 different payments at once: 20 settle", async () => {
    await using node = await startStandIn();
    await using gateway = await gatewayAt(node);
    // Half of them of one payer, who holds exactly what they cost.
    const rich = await ground.fundedPayer(PRICE * 10n);
    const others = await Promise.all(Array.from({ length: 10 }, () => ground.fundedPayer(PRICE)));
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    const payers = [...others, ...Array.from({ length: 10 }, () => rich)];
    const headers = await Promise.all(payers.map((payer) => signPayment(payer, terms)));
    const answers = await Promise.all(headers.map((header) => call(url, BODY, header)));
    for (const answer of answers) assertBought(answer);
    assert.equal(node.runs(), 20);
    await gateway.assertSettled(20);
    assert.equal(await ground.balance(rich.address), 0n);
  });

  test("a balance for 1 and 10 fresh nonces: 1 upstream run, 1 settlement, nine refusals", async () => {
    await using node = await startStandIn(true);
    await using gateway = await gatewayAt(node);
    const payer = await ground.fundedPayer(PRICE * 2n - 1n);
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    const headers = await Promise.all(Array.from({ length: 10 }, () => signPayment(payer, terms)));
    const sent = headers.map((header) => call(url, BODY, header));
    await eventually("nine refusals", async () => (await inFlight(gateway)) === 1 && node.runs() === 1);
    node.release();
    const answers = await Promise.all(sent);
    assert.deepEqual(
      answers.map(({ status }) => status).sort((a, b) => a - b),
      [200, ...Array.from({ length: 9 }, () => 402)],
    );
    for (const refused of answers.filter(({ status }) => status === 402)) {
      assert.match(refused.json.error, /^PAYMENT_INSUFFICIENT_FUNDS/);
      assert.equal(refused.json.data, undefined);
    }
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(1);
  });

  test("a settlement that is mined and not seen yet is not counted twice: the payer's last units still buy", async () => {
    await using node = await startStandIn();
    const { promise: mined, resolve: sayMined } = Promise.withResolvers<void>();
    const { promise: seen, resolve: see } = Promise.withResolvers<void>();
    let claims = 0;
    await using gateway = await openGateway(ground, {
      sections: { suppliers: ethAt(node.url) },
      faults: {
        reach(at) {
          if (at === "ledger.claim.after") claims++;
          if (at !== "engine.receipt.seen") return undefined;
          sayMined();
          return seen;
        },
      },
    });
    const payer = await ground.fundedPayer(PRICE * 2n);
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    const first = call(url, BODY, await signPayment(payer, terms));
    await mined;
    assert.equal(await ground.balance(payer.address), PRICE);
    assert.equal(claims, 1);
    let isAnswered = false;
    const second = call(url, BODY, await signPayment(payer, terms)).finally(() => {
      isAnswered = true;
    });
    // The ledger reserves the first one still, and the chain has taken it: the second one must not be refused for that.
    await eventually("the second one is claimed in vain, and claimed again", () => isAnswered || claims >= 4);
    assert.ok(!isAnswered, "answered before the first settlement was seen");
    see();
    for (const answer of await Promise.all([first, second])) assertBought(answer);
    await gateway.assertSettled(2);
    assert.equal(await ground.balance(payer.address), 0n);
  });

  test("a payment that was made for another request is 409, before, while and after it is worked on", async () => {
    await using node = await startStandIn(true);
    await using gateway = await gatewayAt(node);
    const payer = await ground.fundedPayer(PRICE * 20n);
    const url = gateway.route("eth");
    const header = await signPayment(payer, await termsOf(url));
    const first = call(url, BODY, header);
    await node.held;
    const conflict = (answer: Answer, isSettled = true): void => {
      assert.equal(answer.status, 409, answer.text);
      assert.equal(answer.json.code, "PAYMENT_CONFLICT");
      assert.equal(answer.json.retryable, false);
      // The receipt is the payment's, whichever request it comes with.
      assert.equal(answer.receipt?.success, isSettled);
      assert.equal(answer.receipt?.transaction !== "", isSettled);
    };
    conflict(await call(url, OTHER_BODY, header), false);
    node.release();
    assertBought(await first);
    conflict(await call(url, OTHER_BODY, header));
    // Bound to the bytes of the request, and to the route.
    conflict(await call(url, `${JSON.stringify(BODY)} `, header));
    conflict(await call(gateway.route("base"), BODY, header));
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(1);
  });

  test("the same signature again gets the stored answer, from this gateway and from the next", async () => {
    await using node = await startStandIn();
    await using first = await gatewayAt(node);
    const payer = await ground.fundedPayer(PRICE * 20n);
    const header = await signPayment(payer, await termsOf(first.route("eth")));
    const bought = await call(first.route("eth"), BODY, header);
    assertBought(bought);
    const again = await call(first.route("eth"), BODY, header);
    await using next = await first.restart();
    const later = await call(next.route("eth"), BODY, header);
    for (const replayed of [again, later]) {
      assertBought(replayed);
      assert.equal(replayed.text, bought.text);
      assert.equal(replayed.receipt?.transaction, bought.receipt?.transaction);
    }
    assert.equal(node.runs(), 1);
    await next.assertSettled(1);
  });

  test("a forged copy, with the right payer and nonce and another signature, gets nothing", async () => {
    await using node = await startStandIn(true);
    await using gateway = await gatewayAt(node);
    const payer = await ground.fundedPayer(PRICE * 20n);
    const thief = await ground.fundedPayer(PRICE * 20n);
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    const header = await signPayment(payer, terms);
    const { authorization } = decodeHeader<Payload>(header).payload;
    const forgeries: Readonly<Record<string, string>> = {
      "the thief's signature": await signPayment({ ...thief, address: payer.address }, terms, { authorization }),
      "the other form of the signature": resign(header, (signature) => {
        const s = ORDER - BigInt(`0x${signature.slice(66, 130)}`);
        const v = signature.endsWith("1b") ? "1c" : "1b";
        return `${signature.slice(0, 66)}${s.toString(16).padStart(64, "0")}${v}`;
      }),
      "no signature": resign(header, () => `0x${"00".repeat(65)}`),
      "an empty one": resign(header, () => "0x"),
      "a bit is turned": resign(header, (signature) => signature.replace(/.(?=....$)/, (c) => (c === "0" ? "1" : "0"))),
    };
    const tryAll = async (): Promise<void> => {
      for (const [name, forged] of Object.entries(forgeries)) {
        assert.notEqual(forged, header, name);
        const answer = await call(url, BODY, forged);
        assert.ok([400, 402, 409].includes(answer.status), `${name}: ${answer.status}`);
        assert.equal(answer.json.data, undefined, name);
        assert.ok(!showsStandIn(answer.text), name);
        assert.notEqual(answer.receipt?.success, true, name);
      }
    };
    const first = call(url, BODY, header);
    await node.held;
    await tryAll();
    node.release();
    assertBought(await first);
    await tryAll();
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(1);
    assert.equal(await ground.balance(thief.address), PRICE * 20n);
  });

  test("a copy of another spelling, with the right signature, is no second purchase", async () => {
    await using node = await startStandIn();
    await using gateway = await gatewayAt(node);
    const payer = await ground.fundedPayer(PRICE * 20n);
    const url = gateway.route("eth");
    const header = await signPayment(payer, await termsOf(url));
    assertBought(await call(url, BODY, header));
    const spelled = Buffer.from(JSON.stringify(decodeHeader(header), null, 1)).toString("base64");
    const answer = await call(url, BODY, spelled);
    assert.ok([402, 409].includes(answer.status), answer.text);
    assert.ok(!showsStandIn(answer.text));
    assert.equal(node.runs(), 1);
    await gateway.assertSettled(1);
  });

  test("an upstream that fails is 503 and charges nothing; the same signature works later", async () => {
    await using node = await startStandIn();
    await using gateway = await gatewayAt(node);
    const payer = await ground.fundedPayer(PRICE);
    const url = gateway.route("eth");
    const header = await signPayment(payer, await termsOf(url));
    node.fail(true);
    for (let round = 0; round < 2; round++) {
      const failed = await call(url, BODY, header);
      assert.equal(failed.status, 503, failed.text);
      assert.equal(failed.json.code, "SERVICE_UNAVAILABLE");
      assert.equal(failed.json.retryable, true);
      assert.equal(failed.receipt, undefined);
    }
    await gateway.assertSettled(0);
    assert.equal(await ground.balance(payer.address), PRICE);
    node.fail(false);
    assertBought(await call(url, BODY, header));
    await gateway.assertSettled(1);
  });
});
