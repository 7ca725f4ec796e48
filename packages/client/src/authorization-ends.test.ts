import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Anvil, deployTestToken, devRpc, startAnvil, testUsd, USDC_ADDRESS } from "@turnpike/localnet";
import { eventually, rpcAnswer, startUpstream } from "@turnpike/testkit";
import { sendMined } from "@turnpike/testkit/servers";
import { encodeFunctionData } from "viem";
import { type Answerer, answerJson, BODY, countingSigner, standInGateway, testClient } from "../test/stand-in.ts";
import { readAuthorizationEnds } from "./authorization-ends.ts";
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
  const second = await client.call("eth", BODY);
  assert.ok(second.kind === "refused" && !second.open);
  assert.match(second.charge, /was charged, once: the chain shows it/);
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

interface Shown {
  readonly timestamp: bigint;
  readonly isUsed?: boolean;
  /** Runs before its answer about an authorization. */
  readonly first?: Promise<unknown>;
}

/** A stand-in for a node: real ones do not disagree, fail or lag when a test needs it. */
async function startNode({ timestamp, isUsed = false, first }: Shown) {
  const answered = Promise.withResolvers<void>();
  const node = await startUpstream((call, response) => {
    const say = (result: unknown): void => {
      response.setHeader("content-type", "application/json");
      response.end(rpcAnswer(call, `"result":${JSON.stringify(result)}`));
    };
    if (call.method === "eth_chainId") say("0x14a34");
    else if (call.method === "eth_getBlockByNumber") {
      say({ number: "0x10", timestamp: `0x${timestamp.toString(16)}`, transactions: [] });
    } else {
      response.once("finish", answered.resolve);
      void Promise.resolve(first).then(() => say(`0x${(isUsed ? "1" : "0").padStart(64, "0")}`));
    }
  });
  return {
    url: node.url,
    answered: answered.promise,
    uses: () => node.calls.filter(({ method }) => method === "eth_call"),
    [Symbol.asyncDispose]: () => node[Symbol.asyncDispose](),
  };
}

/** Nothing listens there. The port of a node that was closed may be the next one's. */
const GONE = "http://127.0.0.1:9";
const PATIENT = new AbortController().signal;
const authorization = (nonce: number, network = "eip155:84532") => ({
  facts: {
    network,
    asset: USDC_ADDRESS,
    from: `0x${"11".repeat(20)}`,
    to: `0x${"22".repeat(20)}`,
    nonce: `0x${nonce.toString(16).padStart(64, "0")}`,
    value: 5_000n,
    validBefore: 1_000n,
  },
});

test("an authorization is read a minute of its own chain after its window, at the block of that time", async () => {
  const [ours, other] = [authorization(1), authorization(2, "eip155:1")];
  await using early = await startNode({ timestamp: 1_059n });
  assert.equal(
    (await readAuthorizationEnds([ours], [early.url], PATIENT)).size,
    0,
    "a re-organisation may bring it back",
  );
  assert.equal(early.uses().length, 0);
  await using late = await startNode({ timestamp: 1_060n });
  const ends = await readAuthorizationEnds([ours, other], [late.url], PATIENT);
  assert.deepEqual([...ends], [[ours, "unused"]]);
  const [use] = late.uses();
  assert.deepEqual([late.uses().length, (use?.params as readonly unknown[] | undefined)?.[1]], [1, "0x10"]);
});

test("attack: a node that did not see a use does not hide it, and one that fails hides nothing", async () => {
  const payment = authorization(1);
  await using saw = await startNode({ timestamp: 2_000n, isUsed: true });
  await using answersLast = await startNode({ timestamp: 2_000n, first: saw.answered });
  const ends = await readAuthorizationEnds([payment], [GONE, saw.url, answersLast.url], PATIENT);
  assert.equal(ends.get(payment), "used");
  assert.equal((await readAuthorizationEnds([payment], [GONE], PATIENT)).size, 0);
});

test("attack: one node that lies decides nothing, while an honest one is silent, lags or is gone", async () => {
  const payment = authorization(1);
  await using lies = await startNode({ timestamp: 2_000n });
  await using lags = await startNode({ timestamp: 1_000n, isUsed: true });
  const never = Promise.withResolvers<void>();
  await using silent = await startNode({ timestamp: 2_000n, isUsed: true, first: never.promise });
  for (const honest of [GONE, lags.url]) {
    assert.equal((await readAuthorizationEnds([payment], [lies.url, honest], PATIENT)).size, 0);
  }
  const time = new AbortController();
  const reading = readAuthorizationEnds([payment], [silent.url, lies.url], time.signal);
  await eventually("it is asked", () => silent.uses().length === 1);
  time.abort();
  assert.equal((await reading).size, 0);
  never.resolve();
  await using agrees = await startNode({ timestamp: 1_060n });
  const ends = await readAuthorizationEnds([payment], [lies.url, agrees.url], PATIENT);
  assert.equal(ends.get(payment), "unused");
});

test("a node of another chain has no vote, and alone shows nothing", async () => {
  const payment = authorization(1, "eip155:8453");
  await using other = await startNode({ timestamp: 2_000n });
  assert.equal((await readAuthorizationEnds([payment], [other.url], PATIENT)).size, 0);
  assert.equal(other.uses().length, 0);
});

test("a node that has not answered when the time is over shows nothing", async () => {
  const answer = Promise.withResolvers<void>();
  await using silent = await startNode({ timestamp: 2_000n, first: answer.promise });
  const time = new AbortController();
  const reading = readAuthorizationEnds([authorization(1)], [silent.url], time.signal);
  await eventually("it is asked", () => silent.uses().length === 1);
  time.abort();
  answer.resolve();
  assert.equal((await reading).size, 0);
});

test("one node is asked for fifty authorizations at most", async () => {
  await using node = await startNode({ timestamp: 2_000n });
  const many = Array.from({ length: 51 }, (_, at) => authorization(at));
  assert.equal((await readAuthorizationEnds(many, [node.url], PATIENT)).size, 50);
  assert.equal(node.uses().length, 50);
});
