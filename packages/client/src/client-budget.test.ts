import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { suite, test } from "node:test";
import { QuotedError } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import {
  type Answerer,
  answerJson,
  BODY,
  countingSigner,
  option,
  pending,
  refusesWith,
  type StandInNode,
  sold,
  standInGateway,
  standInNode,
  testClient,
  USED,
} from "../test/stand-in.ts";
import { createClient, memoryJournal, type PurchaseResult } from "./index.ts";
import { readPayment } from "./payment-header.ts";

const NOTHING = /nothing was signed/;
/** Another request than {@link BODY}. */
const OTHER = '{"method":"eth_gasPrice"}';
const HOUR_MS = 3_600_000;

/** Answers a payment with a refusal of the gateway. */
const refusing =
  (status: number, body: unknown): Answerer =>
  (_, response) =>
    answerJson(response, status, body);

const settlementFailed = refusing(402, {
  x402Version: 2,
  error: "PAYMENT_SETTLEMENT_FAILED: It could not be settled.",
});
const notNow = refusing(503, { code: "SERVICE_UNAVAILABLE", message: "Not now.", retryable: true });
const lost: Answerer = (_, response) => {
  response.writeHead(200, { "content-length": "1000" }).write("{", () => response.destroy());
};

/** A server that is no gateway. */
async function serve(listener: RequestListener) {
  const server = createServer(listener);
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

/** A payment as far as a journal reads it. */
const headerOf = (validBefore: number): string => {
  const authorization = { from: "f", value: "1000", validBefore: `${validBefore}` };
  const payment = { accepted: { network: "eip155:1", asset: "a" }, payload: { authorization } };
  return Buffer.from(JSON.stringify(payment)).toString("base64");
};

const paymentOf = (result: PurchaseResult): string =>
  (result.kind === "free" ? undefined : result.payment) ?? assert.fail("nothing was signed");

/** The same authorization in another text. */
const reencoded = (payment: string): string =>
  Buffer.from(JSON.stringify(JSON.parse(Buffer.from(payment, "base64").toString()), undefined, 1)).toString("base64");

suite("budget, attacked", () => {
  test("a hundred calls at once never sign for more than the budget", async () => {
    await using stand = await standInGateway(sold);
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { totalUsd: "0.052" });
    const calls = Array.from({ length: 100 }, () => client.call("eth", BODY));
    const ends = await Promise.allSettled(calls);
    assert.equal(ends.filter((end) => end.status === "fulfilled" && end.value.kind === "bought").length, 10);
    const refused = ends.flatMap((end) => (end.status === "rejected" ? [end.reason as unknown] : []));
    assert.equal(refused.length, 90);
    for (const reason of refused) assert.ok(refusesWith("BUDGET_SPENT", NOTHING)(reason), String(reason));
    assert.equal(signer.count(), 10);
    assert.equal(new Set(stand.payments()).size, 10);
    assert.deepEqual(client.spending(), {
      chargedUsd: "0.050000",
      openUsd: "0.000000",
      remainingUsd: "0.002000",
      calls: 10,
    });
  });

  test("attack: identical calls at once on one journal never have two payments in flight", async () => {
    const waiting: (() => void)[] = [];
    const { promise: arrived, resolve } = Promise.withResolvers<void>();
    await using stand = await standInGateway((...call) => {
      waiting.push(() => sold(...call));
      resolve();
    });
    const journal = memoryJournal();
    const signers = [countingSigner(), countingSigner()];
    const clients = signers.map((signer) => testClient(stand.gateway, signer, { journal }).client);
    const count = (): number => signers.reduce((sum, signer) => sum + signer.count(), 0);
    const calls = clients.map((client) => client.call("eth", BODY));
    await arrived;
    // Another request is not held up, and by its end an identical one would have been signed.
    const cancel = new AbortController();
    const cancelled = clients[0]?.call("eth", BODY, { signal: cancel.signal });
    cancel.abort(new Error("given up"));
    await assert.rejects(Promise.resolve(cancelled), /given up/);
    await clients[1]?.quote("eth", BODY);
    assert.equal(count(), 1);
    const release = setInterval(() => waiting.shift()?.(), 1);
    const results = await Promise.all(calls);
    clearInterval(release);
    assert.deepEqual(
      results.map(({ kind }) => kind),
      ["bought", "bought"],
    );
    assert.equal(count(), 2);
  });

  test("two clients on one journal spend one budget", async () => {
    await using stand = await standInGateway(sold);
    const journal = memoryJournal();
    const signers = [countingSigner(), countingSigner()];
    const clients = signers.map((signer) => testClient(stand.gateway, signer, { totalUsd: "0.02", journal }).client);
    const ends = await Promise.allSettled(
      clients.flatMap((client) => [1, 2, 3, 4].map(() => client.call("eth", BODY))),
    );
    assert.equal(ends.filter(({ status }) => status === "fulfilled").length, 4);
    assert.equal(
      signers.reduce((sum, signer) => sum + signer.count(), 0),
      4,
    );
  });

  for (const [state, seller, acknowledges] of [
    ["bought and not acknowledged", sold, false],
    ["bought and acknowledged", sold, true],
    ["refused", settlementFailed, true],
    ["open", pending, true],
  ] as const) {
    test(`attack: a payment that is ${state}, named for another request, is refused and counts once`, async () => {
      await using stand = await standInGateway(seller);
      const signer = countingSigner();
      const { client } = testClient(stand.gateway, signer, { totalUsd: "0.1", retryForMs: 1 });
      const payment = paymentOf(await client.call("eth", BODY, { keepUntilAcknowledged: !acknowledges }));
      const [spending, presentations] = [client.spending(), stand.payments().length];
      const call = client.call("eth", OTHER, { payment });
      await assert.rejects(call, refusesWith("USAGE", /for another request.*nothing was signed/));
      assert.deepEqual(client.spending(), spending);
      assert.equal(stand.payments().length, presentations);
      assert.equal(signer.count(), 1);
    });
  }

  test("a bought payment that is presented again for its answer counts once", async () => {
    await using stand = await standInGateway(sold);
    const { client } = testClient(stand.gateway, countingSigner(), { totalUsd: "0.005" });
    const payment = paymentOf(await client.call("eth", BODY));
    const spending = client.spending();
    for (const presented of [payment, payment, reencoded(payment)]) {
      const again = await client.call("eth", BODY, { payment: presented });
      assert.ok(again.kind === "bought" && again.isResumed);
      assert.equal(again.usd, "0.005000");
    }
    assert.deepEqual(client.spending(), spending);
  });

  test("a bought payment that is presented again and refused is reported as charged, and counts once", async () => {
    for (const seller of [settlementFailed, pending, lost, notNow]) {
      let answer: Answerer = sold;
      await using stand = await standInGateway((...request) => answer(...request));
      const { client } = testClient(stand.gateway, countingSigner(), { totalUsd: "0.005" });
      const payment = paymentOf(await client.call("eth", BODY));
      answer = seller;
      const again = await client.call("eth", BODY, { payment });
      assert.ok(again.kind === "refused" && !again.open);
      assert.equal(again.state, "charged");
      assert.match(again.charge, /^0\.005000 USD was charged once/);
      assert.deepEqual([client.spending().chargedUsd, client.spending().openUsd], ["0.005000", "0.000000"]);
    }
  });

  for (const [requests, isRefused] of [
    [[BODY, BODY, BODY], false],
    [[BODY, OTHER, OTHER], true],
  ] as const) {
    const name = isRefused ? "different requests" : "one request";
    test(`attack: a payment of another journal, presented at once for ${name}, counts once`, async () => {
      await using stand = await standInGateway(sold);
      const signer = countingSigner();
      const payment = paymentOf(await testClient(stand.gateway, signer).client.call("eth", BODY));
      const { client } = testClient(stand.gateway, signer, { totalUsd: "0.1" });
      const ends = await Promise.allSettled(requests.map((request) => client.call("eth", request, { payment })));
      assert.equal(ends.filter(({ status }) => status === "rejected").length, isRefused ? 2 : 0);
      assert.equal(client.spending().chargedUsd, "0.005000");
      assert.equal(signer.count(), 1);
    });
  }

  test("a price that rises between quote and call is refused before signing", async () => {
    const accepts = [option({ amount: "1000" })];
    await using stand = await standInGateway(sold, accepts);
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { maxPriceUsd: "0.02" });
    const quote = await client.quote("eth", BODY);
    assert.equal(quote.price.usd, "0.001000");
    accepts[0] = option({ amount: "10000" });
    await assert.rejects(
      client.call("eth", BODY, { maxPriceUsd: quote.price.usd }),
      refusesWith("SPEND_CAP", NOTHING),
      "over the quote, though within the budget",
    );
    accepts[0] = option({ amount: "50000" });
    await assert.rejects(client.call("eth", BODY), refusesWith("SPEND_CAP", NOTHING));
    assert.equal(signer.count(), 0);
    assert.equal(client.spending().openUsd, "0.000000");
  });

  test("a cap of a call never widens the budget", async () => {
    await using stand = await standInGateway(sold, [option({ amount: "60000" })]);
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer);
    await assert.rejects(client.call("eth", BODY, { maxPriceUsd: "1" }), refusesWith("SPEND_CAP", NOTHING));
    assert.equal((await client.quote("eth", BODY, { maxPriceUsd: "1" })).withinCap, false);
    assert.equal(signer.count(), 0);
  });

  test("terms that change after the signature are never signed too", async () => {
    const terms = { x402Version: 2, error: "PAYMENT_VALUE_MISMATCH: The price has changed.", accepts: [option()] };
    let refuses = true;
    await using stand = await standInGateway((seen, response, count) => {
      if (refuses) answerJson(response, 402, { ...terms, accepts: [option({ amount: "6000" })] });
      else sold(seen, response, count);
    });
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { totalUsd: "0.012" });
    const result = await client.call("eth", BODY);
    assert.ok(result.kind === "refused");
    assert.deepEqual([result.code, result.open], ["PAYMENT_VALUE_MISMATCH", false]);
    assert.match(result.charge, /Nothing was charged.*counts the payment as spent until .* after \d{4}-/);
    assert.equal(signer.count(), 1);
    assert.equal(client.spending().openUsd, "0.005000", "whoever holds the signature can still use it");
    refuses = false;
    const second = await client.call("eth", BODY);
    assert.ok(second.kind === "bought");
    assert.deepEqual([second.payment, signer.count()], [result.payment, 1], "it could still be taken");
  });

  test("decimals are those that this client knows, whatever the gateway claims", async () => {
    const extra = { name: "USDC", version: "2", decimals: 18 };
    await using stand = await standInGateway(sold, [option({ amount: "5000000000", decimals: 18, extra })]);
    const signer = countingSigner();
    await assert.rejects(testClient(stand.gateway, signer).client.call("eth", BODY), refusesWith("SPEND_CAP", NOTHING));
    assert.equal(signer.count(), 0);
  });

  test("a token that calls itself USDC is no dollar", async () => {
    await using stand = await standInGateway(sold, [
      option({ asset: "0x00000000000000000000000000000000000000AA" }),
      option({ network: "eip155:1" }),
    ]);
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer);
    await assert.rejects(client.call("eth", BODY), refusesWith("PAYMENT_OPTION_UNKNOWN", NOTHING));
    assert.equal(signer.count(), 0);
  });

  test("amounts and windows that are not plain are refused", async () => {
    const odd = ["1e3", "-5000", "5000.5", "0x1388", "", " 5000", "05000", "5_000", 5000, null, "9".repeat(79)];
    const windows = ["60", 60.5, 0, -1, 3601, 1e300, null];
    const accepts = [
      ...odd.map((amount) => option({ amount })),
      ...windows.map((maxTimeoutSeconds) => option({ maxTimeoutSeconds })),
      7,
      null,
    ];
    for (const one of accepts) {
      await using stand = await standInGateway(sold, [one]);
      const signer = countingSigner();
      const call = testClient(stand.gateway, signer).client.call("eth", BODY);
      await assert.rejects(call, refusesWith("PAYMENT_OPTION_UNKNOWN", NOTHING), JSON.stringify(one));
      assert.equal(signer.count(), 0);
    }
    await using huge = await standInGateway(sold, [option({ amount: "9".repeat(77) })]);
    const { client } = testClient(huge.gateway, countingSigner(), { maxPriceUsd: "999999999999.999999999999999999" });
    await assert.rejects(client.call("eth", BODY), refusesWith("SPEND_CAP", NOTHING));
  });

  test("a budget that is no plain amount is refused", () => {
    for (const text of [
      "1e3",
      "-1",
      "",
      "0x1",
      "1,5",
      "Infinity",
      ".5",
      "1.",
      "01",
      "1.0000000000000000001",
      " 1",
      1,
    ]) {
      const opts = { gateway: "http://g", signer: countingSigner() };
      const usd = text as string;
      assert.throws(
        () => createClient({ ...opts, budget: { perCallUsd: usd } }),
        refusesWith("CONFIG_INVALID", NOTHING),
      );
      const budget = { perCallUsd: "1", totalUsd: usd };
      assert.throws(() => createClient({ ...opts, budget }), refusesWith("CONFIG_INVALID", NOTHING));
    }
  });

  test("a cap or a body that is none is refused, and a refusal without terms says that nothing was signed", async () => {
    await using stand = await standInGateway(sold);
    const { client } = testClient(stand.gateway, countingSigner());
    await assert.rejects(client.call("eth", BODY, { maxPriceUsd: "1e3" }), refusesWith("USAGE", NOTHING));
    await assert.rejects(client.call("eth", { n: 1n }), refusesWith("USAGE", NOTHING));
    await assert.rejects(
      client.call("eth", () => {}),
      refusesWith("USAGE", NOTHING),
    );
    assert.deepEqual(stand.seen, []);
    const fetch = async () => Response.json({ code: "UNKNOWN_SERVICE", message: "No such." }, { status: 404 });
    const alone = createClient(
      { gateway: "http://g", signer: countingSigner(), budget: { perCallUsd: "1" }, journal: memoryJournal() },
      { fetch },
    );
    const result = await alone.call("no", BODY);
    assert.ok(result.kind === "refused");
    assert.deepEqual([result.message, result.charge], ["No such.", "Nothing was signed."]);
  });

  test("a redirect is not followed, with or without a payment", async () => {
    let elsewhere = 0;
    await using trap = await serve((_, response) => {
      elsewhere++;
      response.end("{}");
    });
    const location = `${trap.url}/`;
    await using stand = await standInGateway((_, response) => {
      response.writeHead(307, { location }).end();
    });
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { retryForMs: 1_000 });
    const result = await client.call("eth", BODY);
    assert.ok(result.kind === "refused");
    assert.deepEqual([result.open, signer.count(), elsewhere], [true, 1, 0]);
    assert.match(result.charge, /0\.005000 USD may have been charged, once/);
    await using before = await serve((_, response) => response.writeHead(302, { location }).end());
    const unsigned = testClient(before.url, signer).client;
    await assert.rejects(unsigned.call("eth", BODY), refusesWith("GATEWAY_UNREACHABLE", NOTHING));
    assert.equal(elsewhere, 0);
  });

  test("what has no receipt, or no whole answer, stays spent, and the next call presents the same payment", async () => {
    const bare: Answerer = (_, response) => answerJson(response, 200, { portal: {}, data: {} });
    for (const bad of [bare, lost, pending]) {
      let good = false;
      await using stand = await standInGateway((...seen) => (good ? sold : bad)(...seen));
      const signer = countingSigner();
      const { client, later } = testClient(stand.gateway, signer, { totalUsd: "0.005", retryForMs: 1_000 });
      const first = await client.call("eth", BODY);
      assert.ok(first.kind === "refused" && first.open);
      later(HOUR_MS);
      assert.deepEqual(client.spending(), {
        chargedUsd: "0.000000",
        openUsd: "0.005000",
        remainingUsd: "0.000000",
        calls: 1,
      });
      assert.deepEqual(
        client.openPayments().map(({ service, usd, payment }) => [service, usd, payment]),
        [["eth", "0.005000", first.payment]],
      );
      await assert.rejects(client.call("eth", "{}"), refusesWith("BUDGET_SPENT", NOTHING), "another request");
      good = true;
      const second = await client.call("eth", BODY);
      assert.ok(second.kind === "bought");
      assert.equal(second.payment, first.payment);
      assert.equal(signer.count(), 1);
      assert.equal(new Set(stand.payments()).size, 1);
      assert.deepEqual([client.spending().chargedUsd, client.openPayments()], ["0.005000", []]);
    }
  });

  test("attack: what gets no answer ends: it may have been charged, in words, and only the next call buys anew", async () => {
    const bare: Answerer = (_, response) => answerJson(response, 200, { portal: {}, data: {} });
    const broken = refusing(500, { code: "BROKEN", message: "Oops.", retryable: true });
    const noLedger = refusing(404, { code: "UNKNOWN_SERVICE", message: "No service has this id." });
    for (const [name, bad] of Object.entries({ bare, lost, pending, broken, noLedger })) {
      let count = 0;
      let good = false;
      await using stand = await standInGateway((seen, response, paid) => {
        count += 1;
        // The first answer is lost: what follows proves nothing.
        (good ? sold : count === 1 && bad === noLedger ? lost : bad)(seen, response, paid);
      });
      const signer = countingSigner();
      const { client, later } = testClient(stand.gateway, signer, { retryForMs: 1_000 });
      for (const ms of [0, HOUR_MS]) {
        later(ms);
        const result = await client.call("eth", BODY);
        assert.ok(result.kind === "refused" && result.open, name);
      }
      later(HOUR_MS);
      const last = await client.call("eth", BODY);
      assert.ok(last.kind === "refused", name);
      assert.deepEqual([last.state, last.open, last.retryable], ["charged", false, false], name);
      assert.match(last.charge, /^0\.005000 USD was charged, or may have been, and counts as spent\.$/, name);
      assert.deepEqual([signer.count(), client.spending().chargedUsd], [1, "0.005000"], name);
      good = true;
      assert.equal((await client.call("eth", BODY)).kind, "bought", name);
      assert.deepEqual([signer.count(), client.spending().chargedUsd], [2, "0.010000"], name);
    }
  });

  test("attack: what gets no answer ends as the named node shows; while it is silent nothing new is signed", async () => {
    await using stand = await standInGateway(pending);
    await using node = await standInNode();
    node.state = undefined;
    const signer = countingSigner();
    const opts = { rpcUrls: [node.url], retryForMs: 1_000 };
    const { client, later } = testClient(stand.gateway, signer, opts);
    await client.call("eth", BODY);
    later(3 * HOUR_MS);
    for (let times = 0; times < 3; times++) {
      const result = await client.call("eth", BODY);
      assert.ok(result.kind === "refused" && !result.open);
      assert.match(result.charge, /was charged, or may have been, and counts as spent/);
      assert.equal(signer.count(), 1);
    }
    node.state = USED;
    const shown = await client.call("eth", BODY);
    assert.ok(shown.kind === "refused" && !shown.open);
    assert.match(
      shown.charge,
      /^0\.005000 USD was charged, once: the chain shows it, and the gateway gave no answer for it/,
    );
    assert.deepEqual(
      [signer.count(), client.spending().chargedUsd, client.spending().openUsd],
      [1, "0.005000", "0.000000"],
    );
    await client.call("eth", BODY);
    assert.equal(signer.count(), 2);
  });

  test("attack: a bought answer that its caller does not have is not retracted: it is there, or charged in words", async () => {
    let state: Answerer = sold;
    await using stand = await standInGateway((...seen) => state(...seen));
    const signer = countingSigner();
    await using node = await standInNode();
    for (const rpcUrls of [[], [node.url]]) {
      const { client, later } = testClient(stand.gateway, signer, { rpcUrls, retryForMs: 1_000 });
      const keep = { keepUntilAcknowledged: true };
      const signed = signer.count() + 1;
      state = sold;
      assert.equal((await client.call("eth", BODY, keep)).kind, "bought");
      for (const bad of [
        settlementFailed,
        lost,
        pending,
        refusing(409, { code: "PAYMENT_CONFLICT", message: "Used." }),
      ]) {
        state = bad;
        const result = await client.call("eth", BODY, keep);
        assert.ok(result.kind === "refused" && result.open);
        assert.match(result.charge, /^0\.005000 USD was charged once, as the receipt states\. For its answer: present/);
        assert.deepEqual([client.spending().chargedUsd, client.spending().openUsd], ["0.005000", "0.000000"]);
      }
      later(HOUR_MS);
      state = settlementFailed;
      for (let times = 0; times < 2; times++) {
        const last = await client.call("eth", BODY, keep);
        assert.ok(last.kind === "refused" && !last.open && last.payment !== undefined);
        assert.match(last.charge, /^0\.005000 USD was charged once, as the receipt states, and counts as spent\.$/);
        assert.equal(signer.count(), signed);
        if (times === 1) await client.acknowledge(last.resultId ?? "");
      }
      state = sold;
      assert.equal((await client.call("eth", BODY)).kind, "bought");
      assert.deepEqual([signer.count(), client.spending().chargedUsd], [signed + 1, "0.010000"]);
    }
  });

  test("attack: an acknowledgement ends only the result that it belongs to: not a newer one that did not arrive", async () => {
    let state: Answerer = lost;
    await using stand = await standInGateway((...seen) => state(...seen));
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { retryForMs: 0 });
    const call = async () => {
      const result = await client.call("eth", BODY, { keepUntilAcknowledged: true });
      assert.ok(result.kind !== "free");
      return result;
    };
    const open = await call();
    assert.deepEqual([open.kind, open.resultId], ["refused", undefined]);
    state = sold;
    const first = await call();
    const second = await call();
    assert.notEqual(first.resultId, second.resultId);
    for (const id of [open.payment, first.payment, first.resultId, "", "x-1"]) await client.acknowledge(id ?? "");
    const third = await call();
    assert.ok(third.kind === "bought" && third.isResumed);
    state = lost;
    assert.equal((await call()).resultId, undefined);
    await client.acknowledge(third.resultId ?? "");
    state = sold;
    const anew = await call();
    assert.ok(anew.kind === "bought" && !anew.isResumed);
    assert.equal(signer.count(), 2);
    const plain = await client.call("other", BODY);
    assert.deepEqual(plain.kind === "bought" && plain.resultId, undefined, "acknowledged as it was returned");
  });

  test("a payment is reported as signed once: each later try of it is resumed, whatever the first was answered", async () => {
    for (const answer of [settlementFailed, lost, sold]) {
      let state = answer;
      await using stand = await standInGateway((...seen) => state(...seen));
      const signed: boolean[] = [];
      const client = createClient(
        {
          gateway: stand.gateway,
          signer: countingSigner(),
          budget: { perCallUsd: "0.05" },
          journal: memoryJournal(),
          retryForMs: 0,
        },
        { onSigned: ({ isResumed }) => void signed.push(isResumed) },
      );
      for (let times = 0; times < 3; times++) {
        await client.call("eth", BODY, { keepUntilAcknowledged: true });
        if (times === 1) state = sold;
      }
      assert.deepEqual(signed, [false, true, true]);
    }
  });

  test("what the gateway refused is given back when the chain shows that it can no longer be taken, and not before", async () => {
    await using stand = await standInGateway(settlementFailed);
    await using node = await standInNode();
    const rpcUrls = [node.url];
    const { client, later, nowMs } = testClient(stand.gateway, countingSigner(), { totalUsd: "0.005", rpcUrls });
    assert.equal((await client.call("eth", BODY)).kind, "refused");
    const { validBefore = 0n } = readPayment(stand.payments()[0] ?? "") ?? {};
    later(Number(validBefore) * 1_000 - nowMs());
    await assert.rejects(client.call("eth", OTHER), refusesWith("BUDGET_SPENT"));
    later(120_000);
    node.timeSeconds = Number(validBefore) + 59;
    await assert.rejects(client.call("eth", OTHER), refusesWith("BUDGET_SPENT"), "a re-organisation may bring it back");
    later(120_000);
    node.timeSeconds++;
    assert.equal((await client.quote("eth", BODY)).withinCap, true);
    await eventually("a quote looks as well", () => client.spending().openUsd === "0.000000");
    assert.equal((await client.call("eth", BODY)).kind, "refused");
    assert.equal(new Set(stand.payments()).size, 2);
  });

  test("attack: a node that never answers keeps neither the terms nor a call that the budget allows", async () => {
    await using stand = await standInGateway(notNow);
    let [asked, ended] = [0, 0];
    await using node = await serve((request, response) => {
      void text(request).then((body) => {
        if (!body.includes("eth_getBlockByNumber")) return;
        asked++;
        response.on("close", () => ended++);
      });
    });
    {
      const opts = { totalUsd: "0.015", rpcUrls: [node.url] };
      const tested = testClient(stand.gateway, countingSigner(), opts);
      await using client = tested.client;
      assert.equal((await client.call("eth", BODY)).kind, "refused");
      tested.later(HOUR_MS);
      assert.equal((await client.quote("eth", BODY)).withinCap, true);
      assert.equal((await client.call("eth", '{"method":"eth_gasPrice"}')).kind, "refused");
      await eventually("the node is asked for its block", () => asked === 1);
      assert.equal(ended, 0, "what it was asked for is still open");
    }
    await eventually("the client's end ends it", () => ended === 1);
  });

  test("attack: a gateway that says it served nothing and settles all the same takes the total, and no more", async () => {
    await using stand = await standInGateway(notNow);
    await using node = await standInNode();
    const signer = countingSigner();
    const rpcUrls = [node.url];
    const { client, later } = testClient(stand.gateway, signer, { totalUsd: "0.01", rpcUrls });
    node.state = USED;
    for (let times = 0; times < 2; times++) {
      assert.equal((await client.call("eth", BODY)).kind, "refused");
      later(HOUR_MS);
      const second = await client.call("eth", BODY);
      assert.ok(second.kind === "refused" && !second.open);
      assert.match(second.charge, /0\.005000 USD was charged, once: the chain shows it/);
      assert.equal(signer.count(), times + 1, "nothing is signed before the caller is informed");
    }
    for (let times = 0; times < 3; times++) {
      await assert.rejects(client.call("eth", BODY), refusesWith("BUDGET_SPENT", NOTHING));
      later(HOUR_MS);
    }
    assert.equal(signer.count(), 2);
    assert.deepEqual([client.spending().chargedUsd, client.spending().openUsd], ["0.010000", "0.000000"]);
  });

  test("attack: what no node of the payment's own chain shows unused is not given back", async () => {
    await using good = await standInNode();
    const cases: readonly (readonly [string, (node: StandInNode) => readonly string[]])[] = [
      ["there is no node", () => []],
      ["the node is gone", () => ["http://127.0.0.1:9"]],
      ["a node that lags", (node) => [Object.assign(node, { timeSeconds: 1 }).url]],
      ["a node that fails", (node) => [Object.assign(node, { state: undefined }).url]],
      ["a token that is not there", (node) => [Object.assign(node, { state: "0x" }).url]],
      ["no bool", (node) => [Object.assign(node, { state: `0x${"11".repeat(32)}` }).url]],
      ["another node saw it used", (node) => [Object.assign(node, { state: USED }).url, good.url]],
    ];
    for (const [name, rpcUrlsOf] of cases) {
      await using stand = await standInGateway(notNow);
      await using node = await standInNode();
      const signer = countingSigner();
      const rpcUrls = rpcUrlsOf(node);
      const { client, later } = testClient(stand.gateway, signer, { totalUsd: "0.005", rpcUrls });
      await client.call("eth", BODY);
      later(24 * HOUR_MS);
      await assert.rejects(client.call("eth", OTHER), refusesWith("BUDGET_SPENT", NOTHING), name);
      assert.equal(signer.count(), 1, name);
    }
  });

  test("attack: nodes of other chains alone, which could never end a refused payment: nothing is signed", async () => {
    await using stand = await standInGateway(notNow);
    await using node = await standInNode();
    await using other = await standInNode();
    node.chainId = 1;
    other.chainId = 8_453;
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { rpcUrls: [node.url, other.url] });
    for (let times = 0; times < 2; times++) {
      await assert.rejects(
        client.call("eth", BODY),
        refusesWith("CONFIG_INVALID", /None of the nodes is of eip155:84532, .*; nothing was signed/),
      );
    }
    assert.equal(signer.count(), 0);
    assert.deepEqual([client.spending().openUsd, stand.payments().length], ["0.000000", 0]);
    other.chainId = 84_532;
    assert.equal((await client.call("eth", BODY)).kind, "refused", "an answer of another chain is not kept");
    assert.equal(signer.count(), 1, "one node of the chain is enough");
    const silent = testClient(stand.gateway, signer, { rpcUrls: [node.url, "http://127.0.0.1:9"] });
    await silent.client.call("eth", BODY);
    assert.equal(signer.count(), 2, "a node that is gone may be of the chain");
  });

  test("each refused payment may be given back at its own time, and once", async () => {
    let nowMs = 0;
    const journal = memoryJournal({ clock: { nowMs: () => nowMs, monotonicMs: () => 0 } });
    for (const validBefore of [100, 1_000, 500]) {
      const call = { service: "eth", requestHash: `${validBefore}`, microUsd: 1_000n, totalMicroUsd: undefined };
      const reservation = await journal.reserve(call);
      await reservation.signed(headerOf(validBefore));
      await reservation.end("uncharged");
    }
    for (const [at, held] of [
      [159_999, 3_000n],
      [160_000, 2_000n],
      [559_999, 2_000n],
      [560_000, 1_000n],
      [1_060_000, 0n],
    ] as const) {
      nowMs = at;
      // Twice, as two calls at once would.
      const refused = [...journal.expired(), ...journal.expired()];
      for (const one of refused) await one.end("void");
      assert.equal(journal.sums().openMicroUsd, held, `at ${at}`);
    }
  });

  test("after a lost answer, what proves nothing leaves it open", async () => {
    for (const [status, body] of [
      [402, { x402Version: 2, error: "Payment required" }],
      [404, { code: "UNKNOWN_SERVICE", message: "No service has this id." }],
      [403, "a proxy"],
    ] as const) {
      await using stand = await standInGateway((seen, response, count) =>
        (count === 1 ? lost : refusing(status, body))(seen, response, count),
      );
      const { client, later } = testClient(stand.gateway, countingSigner());
      const result = await client.call("eth", BODY);
      assert.ok(result.kind === "refused" && result.open, `${status}`);
      later(HOUR_MS);
      assert.equal(client.spending().openUsd, "0.005000");
      assert.equal(client.openPayments().length, 1);
    }
  });

  test("a payment that was not served is presented again while it is good, and then given back", async () => {
    await using stand = await standInGateway(notNow);
    await using node = await standInNode();
    const signer = countingSigner();
    const { client, later } = testClient(stand.gateway, signer, { totalUsd: "0.005", rpcUrls: [node.url] });
    for (let times = 0; times < 3; times++) {
      const result = await client.call("eth", BODY);
      assert.ok(result.kind === "refused");
      assert.deepEqual([result.code, result.open], ["SERVICE_UNAVAILABLE", false]);
    }
    assert.deepEqual([signer.count(), stand.payments().length], [1, 3]);
    assert.equal(client.spending().openUsd, "0.005000");
    later(HOUR_MS);
    assert.equal(client.spending().openUsd, "0.005000", "time alone gives nothing back");
    await client.call("eth", BODY);
    assert.deepEqual([signer.count(), client.spending().openUsd], [2, "0.005000"]);
  });

  test("an open payment that has expired is found uncharged, and only then a new one is signed", async () => {
    let state: Answerer = lost;
    await using stand = await standInGateway((...seen) => state(...seen));
    const signer = countingSigner();
    await using node = await standInNode();
    const opts = { totalUsd: "0.005", retryForMs: 1_000, rpcUrls: [node.url] };
    const { client, later } = testClient(stand.gateway, signer, opts);
    const first = await client.call("eth", BODY);
    assert.ok(first.kind === "refused" && first.open);
    const expired = refusing(402, { x402Version: 2, error: "PAYMENT_EXPIRED: The payment expires too soon." });
    state = expired;
    const early = await client.call("eth", BODY);
    assert.ok(early.kind === "refused" && early.code === "PAYMENT_EXPIRED");
    assert.equal(signer.count(), 1, "it can still be taken: nothing new is signed");
    later(HOUR_MS);
    state = (seen, response, count) => (seen.payment === first.payment ? expired : sold)(seen, response, count);
    assert.equal((await client.call("eth", BODY)).kind, "bought");
    assert.equal(signer.count(), 2);
    assert.deepEqual([client.spending().chargedUsd, client.spending().openUsd], ["0.005000", "0.000000"]);
  });

  test("a gateway that keeps no books is not believed that a lost payment was free", async () => {
    let state: Answerer = lost;
    await using stand = await standInGateway((...seen) => state(...seen));
    const signer = countingSigner();
    const { client, later } = testClient(stand.gateway, signer, { totalUsd: "0.01", retryForMs: 1_000 });
    const first = await client.call("eth", BODY);
    assert.ok(first.kind === "refused");
    state = refusing(402, { x402Version: 2, error: "invalid_payload", accepts: [option()] });
    const early = await client.call("eth", BODY);
    assert.ok(early.kind === "refused" && early.open);
    later(HOUR_MS);
    state = (seen, response, count) =>
      seen.payment === first.payment ? answerJson(response, 402, { error: "nonce" }) : sold(seen, response, count);
    const told = await client.call("eth", BODY);
    assert.ok(told.kind === "refused" && !told.open);
    assert.match(told.charge, /may have been, and counts as spent/);
    assert.equal((await client.call("eth", BODY)).kind, "bought");
    assert.deepEqual([client.spending().chargedUsd, signer.count()], ["0.010000", 2]);
  });

  test("attack: a refusal that cannot be written out is an open or a refused payment, and never one that is stuck", async () => {
    const deep = `{"detail":${"[".repeat(60_000)}${"]".repeat(60_000)}}`;
    let state: Answerer = (_, response) => {
      response.writeHead(422, { "content-type": "application/json" }).end(deep);
    };
    await using stand = await standInGateway((...seen) => state(...seen));
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { totalUsd: "0.005" });
    const result = await client.call("eth", BODY);
    assert.ok(result.kind === "refused");
    assert.deepEqual([result.code, result.message.length < 5_000], ["VALIDATION_FAILED", true]);
    assert.equal(client.spending().openUsd, "0.005000");
    for (const [body, said] of [
      [{ code: "X", message: "y".repeat(100_000) }, /^X: y+…$/],
      [{ code: "X", message: "no\u001b[2K\rbought\u202e\n0 USD" }, /^X: no\\u001b\[2K bought\\u202e 0 USD$/],
      [{ code: "\u001b[2J", message: "no" }, /^no$/],
    ] as const) {
      state = refusing(400, body);
      const told = await testClient(stand.gateway, signer).client.call("eth", BODY);
      assert.ok(told.kind === "refused" && told.message.length < 5_000);
      assert.match(told.message, said);
      assert.doesNotMatch(told.code, /\p{Cc}/u);
    }
  });

  test("a fault while a payment is presented leaves it open, and the next call presents the same one", async () => {
    let bad = true;
    await using stand = await standInGateway((...seen) => (bad ? pending : sold)(...seen));
    const signer = countingSigner();
    let retries = 0;
    const onRetry = (): never => {
      retries++;
      throw new TypeError("the caller's own fault");
    };
    let now = 0;
    const sleep = async (ms: number): Promise<void> => {
      now += ms;
    };
    const opts = { gateway: stand.gateway, signer, budget: { perCallUsd: "0.05" }, journal: memoryJournal() };
    const first = await createClient({ ...opts, retryForMs: 3_000 }, { onRetry, sleep, monotonicMs: () => now }).call(
      "eth",
      BODY,
    );
    assert.ok(first.kind === "refused" && first.open && retries > 0);
    bad = false;
    const second = await createClient(opts).call("eth", BODY);
    assert.ok(second.kind === "bought");
    assert.deepEqual([signer.count(), second.payment], [1, first.payment]);
  });

  test("a gateway that fails with a payment of ours, in a way that is not known, may have taken it", async () => {
    await using stand = await standInGateway(refusing(500, { code: "BROKEN", message: "Oops.", retryable: false }));
    const { client, later } = testClient(stand.gateway, countingSigner());
    const result = await client.call("eth", BODY);
    assert.ok(result.kind === "refused" && result.open);
    assert.match(result.charge, /may have been charged/);
    later(HOUR_MS);
    assert.equal(client.spending().openUsd, "0.005000");
  });

  test("an earlier payment that was taken is told, before another one is signed", async () => {
    let state: Answerer = lost;
    await using stand = await standInGateway((...seen) => state(...seen));
    const signer = countingSigner();
    const { client, later } = testClient(stand.gateway, signer, { retryForMs: 1_000 });
    await client.call("eth", BODY);
    later(HOUR_MS);
    state = refusing(402, { x402Version: 2, error: "PAYMENT_NONCE_USED: It was used." });
    const told = await client.call("eth", BODY);
    assert.ok(told.kind === "refused" && !told.open);
    assert.match(told.charge, /was charged, or may have been/);
    assert.deepEqual([signer.count(), client.spending().chargedUsd], [1, "0.005000"]);
    state = sold;
    assert.equal((await client.call("eth", BODY)).kind, "bought");
    assert.equal(signer.count(), 2);
  });

  test("what a payment was used for elsewhere, or is owed, counts as spent", async () => {
    for (const [status, code] of [
      [409, "PAYMENT_CONFLICT"],
      [410, "PAYMENT_OWED"],
      [410, "ANSWER_EXPIRED"],
    ] as const) {
      await using stand = await standInGateway(refusing(status, { code, message: "no", retryable: false }));
      const { client, later } = testClient(stand.gateway, countingSigner());
      const result = await client.call("eth", BODY);
      assert.ok(result.kind === "refused" && !result.open);
      assert.match(result.charge, /counts as spent/);
      later(HOUR_MS);
      assert.equal(client.spending().chargedUsd, "0.005000");
    }
  });

  test("a payment that is handed in counts as well, and is sent with its own request alone", async () => {
    await using stand = await standInGateway(lost);
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer, { retryForMs: 1_000 });
    const first = await client.call("eth", BODY);
    assert.ok(first.kind === "refused" && first.payment !== undefined);
    const { payment } = first;
    await assert.rejects(client.call("eth", "{}", { payment }), refusesWith("USAGE", NOTHING));
    const sent = stand.payments().length;
    const broke = testClient(stand.gateway, signer, { totalUsd: "0.004" }).client;
    await assert.rejects(broke.call("eth", BODY, { payment }), refusesWith("BUDGET_SPENT"));
    assert.equal(stand.payments().length, sent);
    const able = testClient(stand.gateway, signer, { totalUsd: "0.005", retryForMs: 1_000 }).client;
    for (let times = 0; times < 2; times++) assert.equal((await able.call("eth", BODY, { payment })).kind, "refused");
    assert.equal(able.spending().openUsd, "0.005000");
    assert.equal(signer.count(), 1);
  });

  test("a signer that refuses leaves the budget as it was", async () => {
    await using stand = await standInGateway(sold);
    const { address } = countingSigner();
    const signTypedData = (): Promise<never> => Promise.reject(new TypeError("the user said no"));
    const { client } = testClient(stand.gateway, { address, signTypedData }, { totalUsd: "0.005" });
    await assert.rejects(client.call("eth", BODY), (error) => {
      assert.ok(error instanceof QuotedError && error.code === "INTERNAL");
      assert.match(error.message, /nothing was sent/);
      assert.equal(error.thirdParty, "the user said no");
      return true;
    });
    assert.deepEqual([client.spending().remainingUsd, client.spending().calls], ["0.005000", 0]);
    assert.deepEqual(stand.payments(), []);
  });

  test("a journal that cannot write: nothing is signed, or what was signed is not sent", async () => {
    await using stand = await standInGateway(sold);
    for (const [point, signatures] of [
      ["journal.reserved", 0],
      ["journal.sign", 1],
    ] as const) {
      const reach = (name: string): void => {
        if (name === point) throw new TypeError("no space left");
      };
      const journal = memoryJournal({ faults: { reach } });
      const signer = countingSigner();
      const { client } = testClient(stand.gateway, signer, { totalUsd: "0.005", journal });
      await assert.rejects(client.call("eth", BODY), /no space left/);
      assert.deepEqual([signer.count(), client.spending().openUsd], [signatures, "0.000000"]);
    }
    assert.deepEqual(stand.payments(), []);
  });

  test("an abort before the signature rejects; after it the result names the open payment", async () => {
    const abort = new AbortController();
    await using stand = await standInGateway((_, response) => {
      response.on("close", () => {});
      abort.abort();
    });
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer);
    const result = await client.call("eth", BODY, { signal: abort.signal });
    assert.ok(result.kind === "refused" && result.open);
    assert.deepEqual(client.openPayments()[0]?.payment, result.payment);
    await assert.rejects(
      client.call("eth", "{}", { signal: abort.signal }),
      refusesWith("GATEWAY_UNREACHABLE", NOTHING),
    );
    assert.equal(signer.count(), 1);
  });
});
