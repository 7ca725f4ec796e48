import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, suite, test } from "node:test";
import { tokenBalance } from "@turnpike/client";
import {
  type Anvil,
  deployTestToken,
  MULTICALL3_ADDRESS,
  setTokenBalance,
  startAnvil,
  testUsd,
  USDC_ADDRESS,
} from "@turnpike/localnet";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { keccak256, stringToHex } from "viem";
import { ledgerSums } from "../../apps/turnpike/src/wiring/ledger.ts";
import { PATIENT } from "../../apps/turnpike/test/patient.ts";
import { type Ground, startGround } from "../support/network.ts";
import { call, decodeHeader, newPayer, type Payer, signPayment, termsOf } from "../support/payer.ts";
import { ethAt, type OpenGateway, openGateway, PRICE, STAND_IN_RESULT, type StandIn, startStandIn } from "./support.ts";

const BODY = { method: "eth_gasPrice", params: [] };
/** A second token of the first chain, at an address that no other test file uses. */
const OTHER_TOKEN: `0x${string}` = `0x${randomBytes(20).toString("hex")}`;
const OTHER_NAME = "EURC";
/** The token that clients of x402 know on the second chain. */
const BASE_USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const BASE = "eip155:8453";

/** The test token under another EIP-712 name of the same length; its code holds the name and the name's hash. */
function renamed(): `0x${string}` {
  let code: string = testUsd.deployedBytecode;
  for (const form of [stringToHex, (name: string) => keccak256(stringToHex(name))]) {
    const changed = code.replaceAll(form("USDC").slice(2), form(OTHER_NAME).slice(2));
    assert.notEqual(changed, code);
    code = changed;
  }
  return code as `0x${string}`;
}

suite("several ways to pay", () => {
  let ground: Ground;
  let base: Anvil;
  let node: StandIn;
  let gateway: OpenGateway;

  before(async () => {
    [ground, base, node] = await Promise.all([startGround(), startAnvil({ chainId: 8453 }), startStandIn()]);
    await deployTestToken(ground.anvil.url, { asset: OTHER_TOKEN, code: renamed(), holders: [] });
    await deployTestToken(base.url, { asset: BASE_USDC, holders: [] });
    gateway = await openGateway(ground, {
      sections: { suppliers: ethAt(node.url) },
      more: [
        { asset: OTHER_TOKEN, name: OTHER_NAME },
        { network: BASE, rpcUrls: [base.url], asset: BASE_USDC, multicall3: MULTICALL3_ADDRESS },
      ],
    });
  });
  after(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
    await base?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  /** What somebody holds of the three: USDC and EURC of the first chain, USDC of the second. */
  const holds = (address: `0x${string}`): Promise<readonly bigint[]> =>
    Promise.all([
      tokenBalance(ground.anvil.url, USDC_ADDRESS, address),
      tokenBalance(ground.anvil.url, OTHER_TOKEN, address),
      tokenBalance(base.url, BASE_USDC, address),
    ]);

  const payerOf = async (usdc: bigint, eurc: bigint, baseUsdc: bigint): Promise<Payer> => {
    const payer = newPayer();
    const { address } = payer;
    await setTokenBalance(ground.anvil.url, { address, units: usdc });
    await setTokenBalance(ground.anvil.url, { address, units: eurc }, OTHER_TOKEN);
    await setTokenBalance(base.url, { address, units: baseUsdc }, BASE_USDC);
    return payer;
  };

  test("every option is offered, in the configuration's order", async () => {
    const { accepts } = await termsOf(gateway.route("eth"));
    assert.deepEqual(
      accepts.map(({ network, asset, amount, extra }) => [network, asset, amount, extra.name]),
      [
        ["eip155:84532", USDC_ADDRESS, "5000", "USDC"],
        ["eip155:84532", OTHER_TOKEN, "5000", OTHER_NAME],
        [BASE, BASE_USDC, "5000", "USDC"],
      ],
    );
  });

  for (const [option, name] of ["the first token", "another token of the same chain", "another chain"].entries()) {
    test(`a buyer pays with ${name}, and nothing else is touched`, async () => {
      const payer = await payerOf(PRICE * 2n, PRICE * 2n, PRICE * 2n);
      const received = await holds(gateway.payTo);
      const url = gateway.route("eth");
      const answer = await call(url, BODY, await signPayment(payer, await termsOf(url), { option }));
      assert.equal(answer.status, 200, answer.text);
      assert.equal(answer.json.data.result, STAND_IN_RESULT);
      assert.equal(answer.receipt?.success, true);
      const charged = (at: number): bigint => (at === option ? PRICE : 0n);
      assert.deepEqual(
        await holds(payer.address),
        [0, 1, 2].map((at) => PRICE * 2n - charged(at)),
      );
      assert.deepEqual(
        await holds(gateway.payTo),
        received.map((units, at) => units + charged(at)),
      );
    });
  }

  test("an unmodified client that only knows the second chain buys there", async () => {
    const payer = await payerOf(0n, 0n, PRICE);
    const client = new x402Client().register(BASE, new ExactEvmScheme(payer.account));
    const answer = await wrapFetchWithPayment(fetch, client)(gateway.route("eth"), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(BODY),
    });
    assert.equal(answer.status, 200, await answer.text());
    const receipt = decodeHeader<{ network: string }>(answer.headers.get("payment-response") ?? "");
    assert.equal(receipt.network, BASE);
    assert.deepEqual(await holds(payer.address), [0n, 0n, 0n]);
  });

  test("a signature for one option does not pay another, and money of one token does not back another", async () => {
    const url = gateway.route("eth");
    const terms = await termsOf(url);
    const runs = node.runs();
    const rich = await payerOf(PRICE * 9n, PRICE * 9n, PRICE * 9n);
    const [first, second, third] = terms.accepts;
    assert.ok(first !== undefined && second !== undefined && third !== undefined);
    for (const [option, accepted] of [
      [0, second],
      [0, third],
      [2, first],
    ] as const) {
      const crossed = await call(url, BODY, await signPayment(rich, terms, { option, accepted: { ...accepted } }));
      assert.equal(crossed.status, 402, crossed.text);
      assert.match(crossed.json.error, /^PAYMENT_SIGNATURE_INVALID/);
    }
    const poor = await payerOf(PRICE * 9n, 0n, PRICE * 9n);
    const unbacked = await call(url, BODY, await signPayment(poor, terms, { option: 1 }));
    assert.equal(unbacked.status, 402, unbacked.text);
    assert.match(unbacked.json.error, /^PAYMENT_INSUFFICIENT_FUNDS/);
    assert.equal(node.runs(), runs);
  });

  test("the ledger sums each token by itself", async () => {
    const sums = await ledgerSums(gateway.config, "gateway", PATIENT);
    const settled = sums.map(({ network, asset, states }) => [network, asset, states.settled.count].join(" "));
    assert.deepEqual(
      settled.sort(),
      [
        `${BASE} ${BASE_USDC.toLowerCase()} 2`,
        `eip155:84532 ${OTHER_TOKEN} 1`,
        `eip155:84532 ${USDC_ADDRESS.toLowerCase()} 1`,
      ].sort(),
    );
  });
});
