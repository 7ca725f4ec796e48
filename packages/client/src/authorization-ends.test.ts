import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Anvil, deployTestToken, devRpc, startAnvil, testUsd, USDC_ADDRESS } from "@turnpike/localnet";
import { sendMined } from "@turnpike/testkit";
import { encodeFunctionData } from "viem";
import { type Answerer, answerJson, BODY, countingSigner, standInGateway, testClient } from "../test/stand-in.ts";
import { readPayment } from "./payment-header.ts";
import type { Signer } from "./types.ts";

let anvil: Anvil;
before(async () => {
  // Its time is moved.
  anvil = await startAnvil({ chainId: 84_532 });
});
after(() => anvil?.[Symbol.asyncDispose]());

const HOUR_MS = 3_600_000;

/** Puts a payment through as anybody who saw it may. */
async function takeOnChain(header: string): Promise<void> {
  const { payload } = JSON.parse(Buffer.from(header, "base64").toString("utf8")) as {
    payload: {
      signature: `0x${string}`;
      authorization: Record<"from" | "to" | "nonce", `0x${string}`> &
        Record<"value" | "validAfter" | "validBefore", string>;
    };
  };
  const { from, to, value, validAfter, validBefore, nonce } = payload.authorization;
  const data = encodeFunctionData({
    abi: testUsd.abi,
    functionName: "transferWithAuthorization",
    args: [from, to, BigInt(value), BigInt(validAfter), BigInt(validBefore), nonce, payload.signature],
  });
  assert.equal((await sendMined(anvil.url, { to: USDC_ADDRESS, data })).status, "0x1");
}

async function buyer() {
  const signer = countingSigner();
  await deployTestToken(anvil.url, { holders: [{ address: signer.address, units: 1_000_000n }] });
  const spent = async ({ address }: Signer): Promise<bigint> => {
    const data = `0x70a08231${address.slice(2).toLowerCase().padStart(64, "0")}`;
    return 1_000_000n - BigInt(String(await devRpc(anvil.url, "eth_call", [{ to: USDC_ADDRESS, data }, "latest"])));
  };
  return { signer, spent: () => spent(signer) };
}

/** Moves the chain to a minute and more after the window of a payment. */
async function pastWindow(header: string): Promise<void> {
  const { validBefore = 0n } = readPayment(header) ?? {};
  await devRpc(anvil.url, "evm_setNextBlockTimestamp", [Number(validBefore) + 61]);
  await devRpc(anvil.url, "evm_mine", []);
}

const notNow: Answerer = (_, response) =>
  answerJson(response, 503, { code: "SERVICE_UNAVAILABLE", message: "Not now.", retryable: true });

test("attack: of a gateway that says unserved and settles, what the chain shows counts, and the total holds", async () => {
  await using stand = await standInGateway(notNow);
  const { signer, spent } = await buyer();
  const opts = { totalUsd: "0.005", rpcUrls: [anvil.url] };
  const { client, later } = testClient(stand.gateway, signer, opts);
  const first = await client.call("eth", BODY);
  assert.ok(first.kind === "refused" && first.payment !== undefined);
  await takeOnChain(first.payment);
  assert.equal(await spent(), 5_000n);
  await pastWindow(first.payment);
  later(HOUR_MS);
  await assert.rejects(client.call("eth", BODY), { code: "BUDGET_SPENT" });
  assert.deepEqual([client.spending().chargedUsd, signer.count(), await spent()], ["0.005000", 1, 5_000n]);
});

test("what the chain shows unused after its window is given back, and can be spent again", async () => {
  await using stand = await standInGateway(notNow);
  const { signer, spent } = await buyer();
  const opts = { totalUsd: "0.005", rpcUrls: [anvil.url] };
  const { client, later } = testClient(stand.gateway, signer, opts);
  const first = await client.call("eth", BODY);
  assert.ok(first.kind === "refused" && first.payment !== undefined);
  later(HOUR_MS);
  await pastWindow(first.payment);
  const second = await client.call("eth", BODY);
  assert.ok(second.kind === "refused" && second.payment !== first.payment);
  assert.deepEqual([client.spending().openUsd, signer.count(), await spent()], ["0.005000", 2, 0n]);
});
