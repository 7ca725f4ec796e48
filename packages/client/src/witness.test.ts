import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { eventually } from "@turnpike/testkit";
import {
  type Answerer,
  answerJson,
  BODY,
  countingSigner,
  HASH,
  option,
  refusesWith,
  type StandInNode,
  sold,
  soldWith,
  standInGateway,
  standInNode,
  testClient,
  USDC,
  USED,
} from "../test/stand-in.ts";
import { createClient, memoryJournal } from "./index.ts";

const NOTHING = /nothing was signed/;
const HOUR_MS = 3_600_000;
const CALLS = 5;

const refusing =
  (status: number, body: unknown): Answerer =>
  (_, response) =>
    answerJson(response, status, body);
const expired = refusing(402, { x402Version: 2, error: "PAYMENT_EXPIRED: The payment expires too soon. Sign again." });
const badRequest = refusing(400, { code: "BAD_REQUEST", message: "Bad. Try again.", retryable: true });
const settledRefusal: Answerer = (seen, response) => soldWith({}, 400)(seen, response, 0);
const conflict = refusing(409, { code: "PAYMENT_CONFLICT", message: "Used.", retryable: false });

/** Headers with a receipt, of a transaction that may be one. */
const receiptHeader = (receipt: Record<string, unknown>): Record<string, string> => ({
  "content-type": "application/json",
  "payment-response": Buffer.from(JSON.stringify({ transaction: HASH, ...receipt })).toString("base64"),
});

suite("a new signature for a call whose payment may land, attacked", () => {
  test("attack: no refusal of a gateway gets a second signature while the first can be taken", async () => {
    for (const [name, answer] of Object.entries({ expired, badRequest, settledRefusal, conflict })) {
      for (const hasNode of [true, false]) {
        await using stand = await standInGateway(answer);
        await using node = await standInNode();
        node.state = USED;
        const signer = countingSigner();
        const { client } = testClient(stand.gateway, signer, hasNode ? { rpcUrls: [node.url] } : {});
        for (let times = 0; times < CALLS; times++) {
          assert.equal((await client.call("eth", BODY)).kind, "refused", name);
        }
        assert.deepEqual([signer.count(), new Set(stand.payments()).size], [1, 1], `${name}, a node: ${hasNode}`);
      }
    }
  });

  test("attack: a gateway that took the payment and calls it expired is contradicted by the node, before anything is signed", async () => {
    await using stand = await standInGateway(expired);
    await using node = await standInNode();
    node.state = USED;
    const signer = countingSigner();
    const { client, later } = testClient(stand.gateway, signer, { rpcUrls: [node.url] });
    await client.call("eth", BODY);
    later(HOUR_MS);
    const second = await client.call("eth", BODY);
    assert.ok(second.kind === "refused" && !second.open);
    assert.match(second.charge, /^0\.005000 USD was charged, once: the chain shows it/);
    assert.deepEqual([signer.count(), client.spending().chargedUsd], [1, "0.005000"]);
  });

  test("attack: one node that lies allows nothing while an honest one is silent, lags or knows better", async () => {
    const honest: readonly (readonly [string, (node: StandInNode) => void, RegExp])[] = [
      ["is gone", (node) => void Object.assign(node, { state: undefined }), /Nothing was charged, as the gateway says/],
      ["lags", (node) => void Object.assign(node, { timeSeconds: 1 }), /Until every node that is named shows that/],
      ["saw the use", (node) => void Object.assign(node, { state: USED }), /was charged, once: the chain shows it/],
    ];
    for (const [name, change, charge] of honest) {
      await using stand = await standInGateway(expired);
      await using lies = await standInNode();
      await using node = await standInNode();
      change(node);
      const signer = countingSigner();
      const { client, later } = testClient(stand.gateway, signer, { rpcUrls: [lies.url, node.url] });
      await client.call("eth", BODY);
      later(HOUR_MS);
      const result = await client.call("eth", BODY);
      assert.ok(result.kind === "refused", name);
      assert.match(result.charge, charge, name);
      assert.equal(signer.count(), 1, name);
    }
  });

  test("attack: what the chain showed is not forgotten by a lost connection, nor by a silent node, nor without nodes", async () => {
    let state: Answerer = expired;
    await using stand = await standInGateway((...seen) => state(...seen));
    await using node = await standInNode();
    const signer = countingSigner();
    let nowMs = Date.now();
    const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs };
    const journal = memoryJournal({ clock });
    const budget = { perCallUsd: "0.05" };
    const { gateway } = stand;
    const clientOf = (rpcUrls: string[]) =>
      createClient({ gateway, signer, budget, journal, rpcUrls, retryForMs: 0 }, { ...clock, sleep: async () => {} });
    const client = clientOf([node.url]);
    await client.call("eth", BODY);
    nowMs += HOUR_MS;
    node.state = USED;
    await client.quote("eth", BODY);
    await eventually("a review", () => client.spending().chargedUsd === "0.005000");
    state = (_, response) => void response.destroy();
    const open = await client.call("eth", BODY);
    assert.ok(open.kind === "refused");
    assert.match(
      open.charge,
      /^0\.005000 USD was charged, once: the chain shows it\. For its answer: present the same/,
    );
    assert.equal(client.spending().chargedUsd, "0.005000");
    state = expired;
    node.state = undefined;
    for (const one of [client, clientOf([])]) {
      const keep = { keepUntilAcknowledged: true };
      const refused = await one.call("eth", BODY, keep);
      assert.ok(refused.kind === "refused");
      assert.match(
        refused.charge,
        /^0\.005000 USD was charged, once: the chain shows it, and the gateway gave no answer/,
      );
      assert.deepEqual([signer.count(), one.spending().chargedUsd], [1, "0.005000"]);
    }
  });

  test("when all nodes agree that it can never be taken, the call is bought anew", async () => {
    let state: Answerer = conflict;
    await using stand = await standInGateway((...seen) => state(...seen));
    await using one = await standInNode();
    await using two = await standInNode();
    const signer = countingSigner();
    const { client, later } = testClient(stand.gateway, signer, { rpcUrls: [one.url, two.url] });
    await client.call("eth", BODY);
    assert.equal(client.spending().chargedUsd, "0.005000", "as the gateway says");
    later(HOUR_MS);
    state = sold;
    const bought = await client.call("eth", BODY);
    assert.equal(bought.kind, "bought");
    assert.deepEqual(
      [signer.count(), client.spending().chargedUsd, client.spending().openUsd],
      [2, "0.005000", "0.000000"],
    );
  });

  test("a payment without any answer is returned, too, when the nodes agree", async () => {
    let state: Answerer = (_, response) => void response.destroy();
    await using stand = await standInGateway((...seen) => state(...seen));
    await using node = await standInNode();
    const signer = countingSigner();
    const opts = { rpcUrls: [node.url], retryForMs: 0 };
    const { client, later } = testClient(stand.gateway, signer, opts);
    const first = await client.call("eth", BODY);
    assert.ok(first.kind === "refused" && first.open);
    later(HOUR_MS);
    state = sold;
    assert.equal((await client.call("eth", BODY)).kind, "bought");
    assert.deepEqual([signer.count(), client.spending().chargedUsd], [2, "0.005000"]);
  });

  test("what was used while its answer was lost is presented again, and its answer handed out", async () => {
    let state: Answerer = expired;
    await using stand = await standInGateway((...seen) => state(...seen));
    await using node = await standInNode();
    node.state = USED;
    const signer = countingSigner();
    const { client, later } = testClient(stand.gateway, signer, { rpcUrls: [node.url] });
    const first = await client.call("eth", BODY);
    later(HOUR_MS);
    state = sold;
    const bought = await client.call("eth", BODY);
    assert.ok(bought.kind === "bought" && first.kind === "refused");
    assert.deepEqual([bought.payment, signer.count()], [first.payment, 1]);
  });

  test("without nodes time alone decides, and the refusal says so", async () => {
    let state: Answerer = expired;
    await using stand = await standInGateway((...seen) => state(...seen));
    const signer = countingSigner();
    const { client, later } = testClient(stand.gateway, signer);
    const first = await client.call("eth", BODY);
    assert.ok(first.kind === "refused");
    assert.match(
      first.charge,
      /No node of the chain is named, so that time alone decides: before \d{4}-.* signs nothing new/,
    );
    later(HOUR_MS);
    state = sold;
    assert.equal((await client.call("eth", BODY)).kind, "bought");
    assert.equal(signer.count(), 2);
    const { chargedUsd, openUsd } = client.spending();
    assert.deepEqual([chargedUsd, openUsd], ["0.005000", "0.005000"], "the first one stays spent");
  });

  test("a journal whose clock is behind the client's does not make a call go on for ever", async () => {
    await using stand = await standInGateway(expired);
    const journal = memoryJournal({ clock: { nowMs: () => 0, monotonicMs: () => 0 } });
    const { client, later } = testClient(stand.gateway, countingSigner(), { journal });
    await client.call("eth", BODY);
    later(HOUR_MS);
    assert.equal((await client.call("eth", BODY)).kind, "refused");
    assert.equal(stand.payments().length, 2);
  });
});

suite("receipts and prices, attacked", () => {
  test("attack: a receipt that does not fit what was signed is no purchase, in each of its fields", async () => {
    const other = "0x00000000000000000000000000000000000000AA";
    for (const [change, said] of [
      [{ network: "eip155:8453" }, /its network is "eip155:8453", and eip155:84532 was signed/],
      [{ network: "" }, /its network/],
      [{ payer: other }, /its payer/],
      [{ payTo: other }, /its receiver/],
      [{ asset: other }, /its token/],
      [{ amount: "1" }, /its amount is "1", and 5000 was signed/],
      [{ amount: "50000" }, /its amount/],
      [{ transaction: "" }, /its transaction "" is not a transaction hash/],
      [{ transaction: `${HASH}00` }, /its transaction/],
      [{ success: "true" }, /without a receipt of success/],
    ] as const) {
      await using stand = await standInGateway(soldWith(change));
      const signer = countingSigner();
      const { client } = testClient(stand.gateway, signer);
      for (let times = 0; times < 2; times++) {
        const result = await client.call("eth", BODY);
        assert.ok(result.kind === "refused" && result.open, JSON.stringify(change));
        assert.match(result.message, said);
        assert.match(result.charge, /may have been charged, once/);
      }
      assert.deepEqual([signer.count(), client.spending().openUsd], [1, "0.005000"]);
    }
  });

  test("attack: a field of a receipt that is there and is no text fits nothing, whatever its type; one that is left out is compared with nothing", async () => {
    const wrong = [5_000, 999_999_999, 0, false, true, {}, { a: 1 }, [], ["5000"], ""];
    const fields = ["payer", "payTo", "amount", "asset", "transaction", "network"];
    for (const [at, value] of wrong.entries()) {
      const field = fields[at % fields.length] ?? "";
      const all = at === 0 ? Object.fromEntries(fields.map((name) => [name, value])) : undefined;
      for (const change of [{ [field]: value }, { amount: value }, ...(all === undefined ? [] : [all])]) {
        await using stand = await standInGateway(soldWith(change));
        const { client } = testClient(stand.gateway, countingSigner(), { retryForMs: 0 });
        const result = await client.call("eth", BODY);
        assert.ok(result.kind === "refused" && result.open, JSON.stringify(change));
        assert.match(result.message, /The gateway's receipt is not for this payment: its /);
        assert.equal(result.receipt, undefined);
        assert.ok(result.claimedReceipt !== undefined);
      }
    }
    // Pydantic writes null for a member without a value, unless a seller excludes such as pip's x402 does.
    for (const nothing of [undefined, null]) {
      const change = {
        payer: nothing,
        payTo: nothing,
        amount: nothing,
        asset: nothing,
        errorReason: nothing,
        extensions: nothing,
      };
      await using stand = await standInGateway(soldWith(change));
      const bought = await testClient(stand.gateway, countingSigner()).client.call("eth", BODY);
      assert.ok(bought.kind === "bought");
      assert.deepEqual([bought.receipt.payer, bought.receipt.settlementId], [undefined, undefined]);
      for (const required of ["transaction", "network"]) {
        await using without = await standInGateway(soldWith({ [required]: nothing }));
        const { client } = testClient(without.gateway, countingSigner(), { retryForMs: 0 });
        const open = await client.call("eth", BODY);
        assert.ok(open.kind === "refused" && open.open, required);
      }
    }
  });

  test("attack: a receipt that does not fit is shown as a claim alone, whatever it comes with", async () => {
    const other = { network: "eip155:1", amount: "1", payer: "0xdead of somebody else" };
    for (const [status, body] of [
      [402, { x402Version: 2, error: "PAYMENT_EXPIRED: x." }],
      [400, { code: "BAD_REQUEST", message: "no", retryable: false }],
      [200, {}],
    ] as const) {
      for (const success of [true, false]) {
        await using stand = await standInGateway((_, response) =>
          answerJson(response, status, body, receiptHeader({ success, transaction: "words", ...other })),
        );
        const { client } = testClient(stand.gateway, countingSigner(), { retryForMs: 0 });
        const result = await client.call("eth", BODY);
        assert.ok(result.kind === "refused");
        assert.equal(result.receipt, undefined, `${status}`);
        assert.deepEqual(
          [result.claimedReceipt?.success, result.claimedReceipt?.network, result.claimedReceipt?.amount],
          [success, "eip155:1", "1"],
        );
        assert.match(result.claimedReceipt?.misfit ?? "", /^its network is "eip155:1", and eip155:84532 was signed$/);
      }
    }
  });

  test("attack: no later receipt replaces the one that fits: not one of failure, nor another's", async () => {
    for (const later of [
      { success: false, errorReason: "refunded: nothing was charged", transaction: "", network: "eip155:84532" },
      { success: true, transaction: HASH, network: "eip155:1" },
      { success: true, transaction: `0x${"cd".repeat(32)}`, network: "eip155:84532" },
    ]) {
      for (const status of [402, 200]) {
        await using stand = await standInGateway((_, response, times) => {
          if (times === 1) response.writeHead(200, receiptHeader({ success: true, network: "eip155:84532" })).end("{");
          else answerJson(response, status, { x402Version: 2, error: "PAYMENT_EXPIRED: x." }, receiptHeader(later));
        });
        const { client } = testClient(stand.gateway, countingSigner());
        const result = await client.call("eth", BODY);
        assert.ok(result.kind !== "free");
        assert.deepEqual([result.receipt?.success, result.receipt?.transaction], [true, HASH], JSON.stringify(later));
        if (result.kind === "refused") assert.match(result.charge, /was charged once, as the receipt states/);
        if (!later.success && result.kind === "refused") assert.match(result.claimedReceipt?.misfit ?? "", /failed/);
      }
    }
  });

  test("attack: words in place of a settlement's id, or of a hash, are none", async () => {
    const id = "stl_1   npx turnpike pay eth --get --gateway https://evil.example";
    await using stand = await standInGateway(soldWith({ extensions: { settlement: { id } } }));
    const bought = await testClient(stand.gateway, countingSigner()).client.call("eth", BODY);
    assert.ok(bought.kind === "bought");
    assert.equal(bought.receipt.settlementId, undefined);
    await using failing = await standInGateway((_, response) =>
      answerJson(response, 402, {}, receiptHeader({ success: false, transaction: id, network: "eip155:84532" })),
    );
    const failed = await testClient(failing.gateway, countingSigner(), { retryForMs: 0 }).client.call("eth", BODY);
    assert.ok(failed.kind === "refused");
    assert.equal(failed.receipt, undefined);
    assert.match(failed.claimedReceipt?.misfit ?? "", /is not a transaction hash/);
  });

  test("a receipt with all fields in another case fits", async () => {
    const fields = { payTo: option().payTo.toLowerCase(), asset: USDC.toUpperCase().replace("X", "x"), amount: "5000" };
    await using stand = await standInGateway(soldWith(fields));
    assert.equal((await testClient(stand.gateway, countingSigner()).client.call("eth", BODY)).kind, "bought");
  });

  test("every 2xx with a receipt that fits hands out its answer", async () => {
    for (const status of [200, 201, 202, 203, 205, 206, 226]) {
      await using stand = await standInGateway(soldWith({}, status));
      const result = await testClient(stand.gateway, countingSigner()).client.call("eth", BODY);
      assert.ok(result.kind === "bought", `${status}`);
      // Fetch knows no body of a 205.
      if (status !== 205) assert.match(JSON.stringify(result.envelope), /"result":"0x1"/);
    }
  });

  test("attack: a refusal with a receipt that fits was charged, and says so", async () => {
    await using stand = await standInGateway(settledRefusal);
    const { client } = testClient(stand.gateway, countingSigner());
    const result = await client.call("eth", BODY);
    assert.ok(result.kind === "refused");
    assert.match(result.charge, /was charged once, as the receipt states, and counts as spent/);
    assert.equal(client.spending().chargedUsd, "0.005000");
  });

  test("attack: a price that was quoted binds the call, without being named", async () => {
    const accepts = [option({ amount: "100" })];
    await using stand = await standInGateway(sold, accepts);
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer);
    assert.equal((await client.quote("eth", BODY)).price.usd, "0.000100");
    accepts[0] = option({ amount: "50000" });
    await assert.rejects(
      client.call("eth", BODY),
      refusesWith("SPEND_CAP", /0\.050000 USD, over the cap of 0\.000100 USD/),
    );
    assert.equal(signer.count(), 0);
    assert.equal((await client.quote("eth", BODY)).price.usd, "0.050000");
    assert.equal((await client.call("eth", BODY)).kind, "bought", "another quote was shown");
  });
});

suite("networks and tokens, attacked", () => {
  const BASE_USDC = option({
    network: "eip155:8453",
    asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
    extra: { name: "USD Coin", version: "2" },
  });

  test("attack: a seller does not choose the network: a main network is signed for only where it is named", async () => {
    await using stand = await standInGateway(sold, [BASE_USDC]);
    const signer = countingSigner();
    const said = /paid on eip155:8453, and this buyer pays on test networks alone; nothing was signed/;
    const { client } = testClient(stand.gateway, signer);
    await assert.rejects(client.call("eth", BODY), refusesWith("PAYMENT_OPTION_UNKNOWN", said));
    await assert.rejects(client.quote("eth", BODY), refusesWith("PAYMENT_OPTION_UNKNOWN", said));
    const elsewhere = testClient(stand.gateway, signer, { networks: ["eip155:1", "eip155:84532"] }).client;
    await assert.rejects(elsewhere.call("eth", BODY), refusesWith("PAYMENT_OPTION_UNKNOWN", /eip155:1, eip155:84532/));
    assert.equal(signer.count(), 0);
    const named = testClient(stand.gateway, signer, { networks: ["eip155:8453"] }).client;
    assert.equal((await named.quote("eth", BODY)).price.network, "eip155:8453");
  });

  test("attack: among several networks the first that is allowed is paid on, wherever it stands", async () => {
    await using stand = await standInGateway(sold, [BASE_USDC, { ...BASE_USDC, network: "__proto__" }, option()]);
    const result = await testClient(stand.gateway, countingSigner()).client.call("eth", BODY);
    assert.ok(result.kind === "bought");
    assert.equal(result.price?.network, "eip155:84532");
  });

  test("a list of networks that is not one is refused", () => {
    for (const network of ["base", "eip155:", "eip155:08453", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "*", ""]) {
      const opts = { gateway: "http://g", signer: countingSigner(), budget: { perCallUsd: "1" }, networks: [network] };
      assert.throws(() => createClient(opts), refusesWith("CONFIG_INVALID", NOTHING), network);
    }
  });

  test("attack: decimals by a caller's mistake do not lift a cap: those of the table count, or the chain's", async () => {
    const opts = { gateway: "http://g", signer: countingSigner(), budget: { perCallUsd: "0.01" } };
    const assets = [{ network: "eip155:84532", asset: USDC.toLowerCase(), decimals: 18 }];
    assert.throws(() => createClient({ ...opts, assets }), refusesWith("CONFIG_INVALID", /has 6 decimals, not 18/));
  });

  test("a token beside the table is paid in as its chain describes it, when all nodes do", async () => {
    const asset = "0x00000000000000000000000000000000000000AA";
    const token = option({ asset, amount: "5000000", extra: { name: "Dollar", version: "1" } });
    await using stand = await standInGateway(sold, [token]);
    await using node = await standInNode();
    await using gone = await standInNode();
    node.token = gone.token = { decimals: 6, name: "Dollar" };
    const price = async (opts: { decimals?: number; rpcUrls?: string[] }): Promise<string> => {
      const { decimals, rpcUrls = [node.url, gone.url] } = opts;
      const assets = [{ network: "eip155:84532", asset, ...(decimals === undefined ? {} : { decimals }) }];
      const { client } = testClient(stand.gateway, countingSigner(), { assets, rpcUrls, maxPriceUsd: "0.01" });
      const quote = await client.quote("eth", BODY);
      assert.equal(quote.withinCap, false);
      return quote.price.usd;
    };
    assert.equal(await price({}), "5.000000");
    assert.equal(await price({ decimals: 6 }), "5.000000");
    const unknown = refusesWith("PAYMENT_OPTION_UNKNOWN", NOTHING);
    await assert.rejects(price({ decimals: 18 }), unknown);
    await assert.rejects(price({ decimals: 6, rpcUrls: [] }), unknown, "nothing shows its decimals");
    gone.token = { decimals: 18, name: "Dollar" };
    await assert.rejects(price({}), unknown, "the nodes disagree");
    gone.token = undefined;
    await assert.rejects(price({}), unknown, "a silent node");
    node.token = { decimals: 6, name: "Another" };
    await assert.rejects(price({ rpcUrls: [node.url] }), unknown, "the seller's name for it");
  });

  test("attack: a name or version of a known token that is not its own is not signed for", async () => {
    const signer = countingSigner();
    for (const extra of [{ name: "USD Coin", version: "2" }, { name: "USDC", version: "1" }, { name: "USDC" }, {}]) {
      await using stand = await standInGateway(sold, [option({ extra })]);
      const { client } = testClient(stand.gateway, signer);
      await assert.rejects(client.call("eth", BODY), refusesWith("PAYMENT_OPTION_UNKNOWN", NOTHING));
    }
    assert.equal(signer.count(), 0);
  });
});
