import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { setTokenBalance } from "@turnpike/localnet";
import { eventually, startUpstream, type Upstream } from "@turnpike/testkit";
import { ledgerSums } from "../../apps/turnpike/src/wiring/ledger.ts";
import { PATIENT } from "../../apps/turnpike/test/patient.ts";
import { type Ground, startGround } from "../support/network.ts";
import { type Answer, call, newPayer, signPayment, termsOf } from "../support/payer.ts";
import { ethAt, type OpenGateway, openGateway, PRICE, type StandIn, startStandIn } from "./support.ts";

const BODY = { method: "eth_gasPrice", params: [] };
const ATTACKER = { headers: { "x-forwarded-for": "192.0.2.1" } };
const BUYER = { headers: { "x-forwarded-for": "198.51.100.1" } };
const BURST = 10;

/** Calls are of the client that their X-Forwarded-For names. */
const sections = (node: StandIn) => ({
  suppliers: ethAt(node.url),
  gateway: { port: 0, metrics: { port: 0 }, trustedProxies: ["127.0.0.1"] },
  limits: { unpaid: { perClient: { burst: BURST, perSecond: 0.1 } } },
});

/** A node of the settlement chain that keeps what it was asked. */
const listening = (url: string): Promise<Upstream> =>
  startUpstream(({ text }, response) => {
    const headers = { "content-type": "application/json" };
    void fetch(url, { method: "POST", body: text, headers })
      .then((answer) => answer.text())
      .then((body) => response.end(body));
  });

const statuses = (answers: readonly Answer[], status: number): number =>
  answers.filter((answer) => answer.status === status).length;

suite("payments that cost their payer nothing", { concurrency: 4 }, () => {
  let ground: Ground;

  before(async () => {
    ground = await startGround();
  });
  after(() => ground?.[Symbol.asyncDispose]());

  const rows = async (gateway: OpenGateway): Promise<number> => {
    const sums = await ledgerSums(gateway.config, "gateway", PATIENT);
    return sums.flatMap(({ states }) => Object.values(states)).reduce((sum, { count }) => sum + count, 0);
  };

  test("calls of a service without suppliers write nothing", async () => {
    await using node = await startStandIn();
    await using gateway = await openGateway(ground, { sections: { suppliers: ethAt(node.url) } });
    const payer = await ground.fundedPayer(PRICE * 10n);
    const url = gateway.route("base");
    const terms = await termsOf(url);
    for (let at = 0; at < 3; at++) {
      const answer = await call(url, BODY, await signPayment(payer, terms));
      assert.deepEqual([answer.status, answer.json.code], [503, "SERVICE_UNAVAILABLE"]);
    }
    assert.equal(await rows(gateway), 0);
    // The same payer buys where there is a supplier.
    const eth = gateway.route("eth");
    assert.equal((await call(eth, BODY, await signPayment(payer, await termsOf(eth)))).status, 200);
    await gateway.assertSettled(1);
  });

  test("random payers: after its burst a client has the chain asked no more, and others buy", async () => {
    await using node = await startStandIn();
    await using chain = await listening(ground.anvil.url);
    await using gateway = await openGateway(ground, { sections: sections(node), network: { rpcUrls: [chain.url] } });
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    const payers = Array.from({ length: 40 }, () => newPayer());
    const answers: Answer[] = [];
    for (const payer of payers) {
      const signature = `0x${randomBytes(64).toString("hex")}1b`;
      answers.push(await call(url, BODY, await signPayment(payer, terms, { signature }), ATTACKER));
    }
    const looked = statuses(answers, 402);
    // A call costs a part of a token more for its time.
    assert.ok(looked >= 1 && looked <= BURST, `${looked} payments were looked at`);
    for (const answer of answers.filter(({ status }) => status !== 402)) {
      assert.equal(answer.status, 429);
      assert.equal(answer.json.code, "PAYMENT_RATE_LIMITED");
      assert.ok(Number(answer.headers.get("retry-after")) >= 1);
    }
    const asked = payers.filter(({ address }) =>
      chain.calls.some(({ text }) => text.includes("eth_getCode") && text.includes(address)),
    );
    assert.ok(asked.length <= BURST, `${asked.length} accounts were looked up`);
    const buyer = await ground.fundedPayer(PRICE);
    assert.equal((await call(url, BODY, await signPayment(buyer, terms), BUYER)).status, 200);
    await gateway.assertSettled(1);
  });

  test("calls made to fail: the supplier is asked as often as the burst, and the same payment is good later", async () => {
    await using node = await startStandIn();
    await using gateway = await openGateway(ground, { sections: sections(node) });
    const payer = await ground.fundedPayer(PRICE);
    const url = gateway.route("eth");
    const header = await signPayment(payer, await termsOf(url));
    node.fail(true);
    const answers: Answer[] = [];
    for (let at = 0; at < 2 * BURST; at++) answers.push(await call(url, BODY, header, ATTACKER));
    assert.equal(statuses(answers, 503) + statuses(answers, 429), 2 * BURST);
    assert.ok(statuses(answers, 503) <= BURST, `${statuses(answers, 503)} calls were made`);
    node.fail(false);
    assert.equal((await call(url, BODY, header, BUYER)).status, 200);
    await gateway.assertSettled(1);
  });

  test("payments whose funds are gone, with many copies, leave places for others", async () => {
    await using node = await startStandIn(true);
    const gatewayKeys = { ...sections(node).gateway, maxConcurrentRequests: 40, shutdownTimeoutMs: 0 };
    await using gateway = await openGateway(ground, {
      sections: { suppliers: ethAt(node.url), gateway: gatewayKeys },
      // Nothing that waits for a settlement ends while the test runs.
      payment: { settleWaitMs: 300_000 },
    });
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    // An account that never paid has eight payments in flight.
    const thieves = [await ground.fundedPayer(PRICE * 5n), await ground.fundedPayer(PRICE * 5n)];
    const signers = thieves.flatMap((thief) => Array.from({ length: 5 }, () => thief));
    const headers = await Promise.all(signers.map((thief) => signPayment(thief, terms)));
    const left = new AbortController();
    using _ = { [Symbol.dispose]: () => left.abort() };
    // Each with a client of its own: a client has a quarter of all calls under way.
    const send = (header: string, client: string): Promise<Answer | undefined> =>
      call(url, BODY, header, { signal: left.signal, headers: { "x-forwarded-for": client } }).catch(() => undefined);
    for (const header of headers) void send(header, "192.0.2.1");
    await eventually("all are claimed", () => node.runs() === 10);
    for (const { address } of thieves) await setTokenBalance(ground.anvil.url, { address, units: 0n });
    const codes: unknown[] = [];
    const copies = headers.flatMap((header) =>
      Array.from({ length: 8 }, (_, at) => [header, `192.0.2.${at + 2}`] as const),
    );
    for (const [header, client] of copies) void send(header, client).then((answer) => codes.push(answer?.json.code));
    await eventually("a quarter of the places is all that copies have", () => codes.length === 70);
    assert.deepEqual(new Set(codes), new Set(["PAYMENT_IN_PROGRESS"]));
    node.release();
    const buyer = await ground.fundedPayer(PRICE);
    assert.equal((await call(url, BODY, await signPayment(buyer, terms), BUYER)).status, 200);
    await gateway.assertSettled(1);
  });

  test("a buyer of many calls at once is not refused, with the limits that are the default", async () => {
    await using node = await startStandIn();
    // One address may have 250 connections. All calls and the gateway share a process: on a busy machine they take longer than
    // the default deadlines.
    await using gateway = await openGateway(ground, {
      sections: {
        suppliers: { eth: { endpoints: [{ operator: "one", urls: { json_rpc: node.url } }], timeoutMs: 120_000 } },
        gateway: { port: 0, metrics: { port: 0 }, upstreamTimeoutMs: 120_000 },
      },
      payment: { settleWaitMs: 300_000 },
    });
    // Twice what they cost: what a balance has paid already counts as in flight, too, until the ledger knows that it is settled,
    // and only so many calls wait for that.
    const payer = await ground.fundedPayer(PRICE * 400n);
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    const headers = await Promise.all(Array.from({ length: 200 }, () => signPayment(payer, terms)));
    const answers = await Promise.all(headers.map((header) => call(url, BODY, header)));
    const refused = answers.filter(({ status }) => status !== 200);
    const byCode = Map.groupBy(refused, ({ status, json }) => `${status} ${json?.code}`);
    assert.deepEqual(
      [...byCode].map(([code, some]) => `${some.length} times ${code}, such as ${some[0]?.text}`),
      [],
    );
    await gateway.assertSettled(200);
  });
});
