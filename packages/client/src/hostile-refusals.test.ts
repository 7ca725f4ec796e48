import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import {
  type ChainNode,
  type HostileSeller,
  modesOf,
  type PaymentsChain,
  SELLER_MODES,
  type SellerMode,
  startChainNode,
  startHostileSeller,
} from "@turnpike/testkit/hostile-seller";
import { fc } from "@turnpike/testkit/property";
import { BODY, countingSigner, testClient } from "../test/stand-in.ts";
import type { PurchaseResult } from "./index.ts";

const PRICE = 5_000n;
const CALLS = 5;
const MINUTE_MS = 60_000;

const microOf = (usd: string): bigint => BigInt(usd.replace(".", ""));

/** Sum that a buyer counts as spent, in units of the token. */
const spentUnits = ({ chargedUsd, openUsd }: { readonly chargedUsd: string; readonly openUsd: string }): bigint =>
  microOf(chargedUsd) + microOf(openUsd);

suite("client, against the refusals and terms of a hostile seller", () => {
  for (const [name, mode] of modesOf("refusal")) {
    test(`attack: ${name}: five calls sign once, the sum on the chain is what the buyer counts, and the node tells`, async () => {
      await using seller = await startHostileSeller(mode);
      await using node = await startChainNode(seller.chain);
      const signer = countingSigner();
      const { client, later, nowMs } = testClient(seller.url, signer, { rpcUrls: [node.url], retryForMs: 0 });
      node.nowSeconds = () => nowMs() / 1_000;
      const results: PurchaseResult[] = [];
      for (let times = 0; times < CALLS; times++) {
        results.push(await client.call("eth", BODY));
        if (results.at(-1)?.kind === "bought") break;
      }
      assert.deepEqual([signer.count(), seller.chain.chargedUnits()], [1, PRICE]);
      assert.equal(spentUnits(client.spending()), PRICE);
      if (results.at(-1)?.kind === "bought") return;
      later(3 * MINUTE_MS);
      const last = await client.call("eth", BODY);
      assert.ok(last.kind === "refused" && !last.open, name);
      assert.equal(last.state, "charged");
      assert.match(last.charge, /^0\.005000 USD was charged, once: the chain shows it/);
      assert.deepEqual([signer.count(), client.spending().chargedUsd], [1, "0.005000"]);
    });
  }

  for (const [name, mode] of modesOf("terms")) {
    test(`attack: ${name}: nothing is signed within the price that was shown`, async () => {
      await using seller = await startHostileSeller(mode);
      const signer = countingSigner();
      const { client } = testClient(seller.url, signer);
      const [listed] = (await client.services()) ?? [];
      const cap = listed?.priceUsd === undefined ? {} : { maxPriceUsd: listed.priceUsd };
      await assert.rejects(
        client.call("eth", BODY, cap),
        (error) => isAppError(error, "PAYMENT_OPTION_UNKNOWN") || isAppError(error, "SPEND_CAP"),
      );
      assert.deepEqual([signer.count(), seller.chain.chargedUnits(), client.spending().calls], [0, 0n, 0]);
    });
  }

  test("attack: one node that lies gets no second payment, whatever the seller answers", async () => {
    for (const [name, mode] of modesOf("refusal")) {
      await using seller = await startHostileSeller(mode);
      await using honest = await startChainNode(seller.chain);
      await using lies = await startChainNode(seller.chain);
      lies.truth = "says-unused";
      const signer = countingSigner();
      const rpcUrls = [lies.url, honest.url];
      const { client, later, nowMs } = testClient(seller.url, signer, { rpcUrls, retryForMs: 0 });
      lies.nowSeconds = () => nowMs() / 1_000;
      // It lags: it consents to nothing.
      honest.nowSeconds = () => 0;
      for (let times = 0; times < CALLS; times++) {
        const result = await client.call("eth", BODY);
        if (result.kind === "bought") break;
        later(2 * MINUTE_MS);
      }
      assert.deepEqual([signer.count(), seller.chain.chargedUnits()], [1, PRICE], name);
    }
  });
});

/** Step of a simulated story: the seller's next answer, the nodes' state, and the time that passes. */
interface Step {
  readonly mode: string;
  readonly settles: boolean;
  readonly isHonestLate: boolean;
  readonly node: "honest" | "lies" | "lags";
  readonly passMs: number;
}

const STEP: fc.Arbitrary<Step> = fc.record({
  mode: fc.constantFrom(
    "honest",
    "receipt-of-another-network",
    "receipt-none",
    "answer-page-of-a-proxy",
    ...modesOf("refusal").map(([name]) => name),
  ),
  settles: fc.boolean(),
  isHonestLate: fc.boolean(),
  node: fc.constantFrom("honest", "lies", "lags"),
  passMs: fc.constantFrom(0, 1_000, MINUTE_MS, 2 * MINUTE_MS, 5 * MINUTE_MS),
});

/** A seller that settles now, or keeps the payment to settle it later, within its time. */
function scriptedMode({ mode, settles }: Step, chain: PaymentsChain, nowMs: () => number): SellerMode {
  const { paid, kind } = SELLER_MODES[mode] ?? { kind: "answer" as const };
  return {
    kind,
    settles: false,
    paid: async (call) => {
      if (settles && call.payment.validBefore * 1_000 > nowMs()) chain.settle(call.payment);
      const transfer = chain.transfers.find(({ payment }) => payment.nonce === call.payment.nonce);
      const transaction = transfer?.transaction ?? `0x${"0".repeat(64)}`;
      const receipt: typeof call.receipt = (change = {}) => call.receipt({ transaction, ...change });
      if (paid === undefined) call.response.writeHead(200, receipt()).end('{"portal":{},"data":1}');
      else await paid({ ...call, receipt });
    },
  };
}

/** Plays a story with one node that is honest, or lags, and one that may lie. */
async function play(steps: readonly Step[], seller: HostileSeller, nodes: readonly [ChainNode, ChainNode]) {
  const [honest, other] = nodes;
  const signer = countingSigner();
  const rpcUrls = nodes.map(({ url }) => url);
  const { client, later, nowMs } = testClient(seller.url, signer, { rpcUrls, retryForMs: 0, maxPriceUsd: "0.005" });
  const reported = new Set<string>();
  for (const step of steps) {
    seller.mode = scriptedMode(step, seller.chain, nowMs);
    honest.nowSeconds = step.isHonestLate ? () => 0 : () => nowMs() / 1_000;
    other.truth = step.node === "lies" ? "says-unused" : "honest";
    other.nowSeconds = step.node === "lags" ? () => 0 : () => nowMs() / 1_000;
    const signatures = signer.count();
    const before = seller.signatures();
    const result = await client.call("eth", BODY);
    // A new signature: each earlier payment of the call was reported as charged, or is past its time and not on the chain.
    if (signer.count() > signatures) {
      for (const { header, validBefore, nonce } of before) {
        const isDead = validBefore * 1_000 <= nowMs() && !seller.chain.isUsed(nonce);
        assert.ok(reported.has(header) || isDead, "a payment that may land was signed over");
      }
    }
    if (result.kind !== "free" && result.payment !== undefined && result.state === "charged")
      reported.add(result.payment);
    assert.ok(seller.chain.chargedUnits() <= spentUnits(client.spending()), "a charge that the buyer does not count");
    later(step.passMs);
  }
}

test("simulation: no call is paid twice without a word, and no charge is missing from the buyer's sum", async () => {
  await using seller = await startHostileSeller();
  await using one = await startChainNode(seller.chain);
  await using two = await startChainNode(seller.chain);
  await fc.assert(
    fc.asyncProperty(fc.array(STEP, { minLength: 2, maxLength: 8 }), async (steps) => {
      seller.chain.transfers.length = 0;
      seller.presentations.length = 0;
      await play(steps, seller, [one, two]);
    }),
    { numRuns: 60 },
  );
});
