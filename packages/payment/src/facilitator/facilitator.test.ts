import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { noMetrics, silentLog, systemClock } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { MULTICALL3_ADDRESS, USDC_ADDRESS } from "@turnpike/localnet";
import { reboundStatus } from "@turnpike/testkit";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { type Bed, NETWORK, openBed, PAY_TO, type Payer, PRICE, signPayment } from "../../test/engine-fixtures.ts";
import { startTestServer, type TestServer } from "../../test/ledger-fixtures.ts";
import { createEngine } from "../engine/engine.ts";
import type { Ledger } from "../ledger-types.ts";
import { EvmVerifier } from "../verify/verifier.ts";
import { Facilitator } from "./facilitator.ts";
import { createFacilitatorServer, type FacilitatorServer } from "./server.ts";

let databases: TestServer;
let bed: Bed;
/** How often the ledger was asked for a payment. */
let finds = 0;
/** Looks that come before the claim of another request, as a race would have it: they find nothing. */
let early = 0;
let server: FacilitatorServer;
let client: HTTPFacilitatorClient;
/** Client of a facilitator that settles for any receiver. */
let toAny: HTTPFacilitatorClient;
const owned = new AsyncDisposableStack();

before(async () => {
  databases = owned.use(await startTestServer());
  bed = owned.use(await openBed(databases));
  const opened = owned.use(await bed.openLedger());
  const ledger: Ledger = {
    ...opened,
    find(key) {
      finds++;
      if (early > 0) {
        early--;
        return Promise.resolve(undefined);
      }
      return opened.find(key);
    },
  };
  const key = await bed.relayerKey();
  const modules = { ...bed.modules(ledger), clock: systemClock, log: silentLog, metrics: noMetrics };
  const asset = {
    network: NETWORK,
    asset: USDC_ADDRESS,
    name: "USDC",
    version: "2",
    decimals: 6,
    multicall3: MULTICALL3_ADDRESS,
    allowedFactories: [],
    walletGas: 400_000,
    deploymentGas: 2_000_000,
    priorityFeeWei: 0n,
    relayers: [],
  };
  const verifier = owned.use(new EvmVerifier({ networks: [asset], workers: 0 }, modules));
  const settler = owned.use(await createEngine(bed.options([key]), modules));
  const opts = {
    assets: [{ network: NETWORK, address: USDC_ADDRESS, name: "USDC", version: "2" }],
    minAmountUnits: 1_000n,
    settleWaitMs: 60_000,
    signers: [privateKeyToAddress(key)],
    unpaidPerClient: () => ({ burst: 1_000, perSecond: 1 }),
    unpaidPerPayer: () => ({ burst: 1_000, perSecond: 1 }),
  };
  const serve = async (facilitator: Facilitator): Promise<FacilitatorServer> =>
    owned.use(
      await createFacilitatorServer(
        { host: "127.0.0.1", port: 0, trustedProxies: [], maxBodyBytes: 65_536, maxConcurrentRequests: 256 },
        { facilitator, log: silentLog },
      ),
    );
  server = await serve(new Facilitator({ ...opts, payToAllowed: [PAY_TO] }, { ...modules, verifier, settler }));
  client = new HTTPFacilitatorClient({ url: server.url });
  toAny = new HTTPFacilitatorClient({
    url: (await serve(new Facilitator(opts, { ...modules, verifier, settler }))).url,
  });
});
after(() => owned?.disposeAsync());

type Payload = Parameters<HTTPFacilitatorClient["verify"]>[0];
type Requirements = Parameters<HTTPFacilitatorClient["verify"]>[1];

const requirements: Requirements = {
  scheme: "exact",
  network: "eip155:84532",
  amount: String(PRICE),
  asset: USDC_ADDRESS,
  payTo: PAY_TO,
  maxTimeoutSeconds: 600,
  extra: { name: "USDC", version: "2" },
};

async function pay(
  payer: Payer,
  changes: { readonly value?: bigint; readonly to?: `0x${string}` } = {},
): Promise<Payload> {
  const validBefore = BigInt(Math.floor(Date.now() / 1_000) + 600);
  const signed = await signPayment(payer, { validBefore, ...changes });
  const { key, payTo, value, validAfter, signature } = signed;
  return {
    x402Version: 2,
    accepted: requirements,
    payload: {
      signature: `0x${Buffer.from(signature).toString("hex")}`,
      authorization: {
        from: payer.address,
        to: payTo,
        value: String(value),
        validAfter: String(validAfter),
        validBefore: String(validBefore),
        nonce: key.nonce,
      },
    },
  };
}

const post = (path: string, body: string | Uint8Array, headers: Record<string, string> = {}) =>
  fetch(`${server.url}${path}`, {
    method: "POST",
    body: typeof body === "string" ? body : Buffer.from(body),
    headers: { "content-type": "application/json", ...headers },
  });

test("the reference client gets the supported kinds, verifies and settles", async () => {
  const supported = await client.getSupported();
  assert.deepEqual(supported.kinds, [{ x402Version: 2, scheme: "exact", network: NETWORK }]);
  assert.equal(supported.signers["eip155:*"]?.length, 1);
  const payer = await bed.payer(PRICE);
  const paid = await bed.balance(PAY_TO);
  const payload = await pay(payer);
  const verified = await client.verify(payload, requirements);
  assert.equal(verified.isValid, true);
  assert.equal(verified.payer?.toLowerCase(), payer.address);
  const settled = await client.settle(payload, requirements);
  assert.equal(settled.success, true, String(settled.errorReason));
  assert.match(settled.transaction, /^0x[0-9a-f]{64}$/);
  assert.equal(settled.network, NETWORK);
  assert.equal((await bed.balance(PAY_TO)) - paid, PRICE);
});

/** The reference client of a seller that sends a key. */
const clientWith = (key: string): HTTPFacilitatorClient =>
  new HTTPFacilitatorClient({
    url: server.url,
    createAuthHeaders: async () => ({ verify: {}, settle: { "Idempotency-Key": key }, supported: {} }),
  });

test("attack: ten copies of one settle request have one settlement and one success", async () => {
  const payer = await bed.payer(10n * PRICE);
  const payload = await pay(payer);
  const paid = await bed.balance(PAY_TO);
  const answers = await Promise.all(Array.from({ length: 10 }, () => client.settle(payload, requirements)));
  const [settled, ...more] = answers.filter(({ success }) => success);
  assert.ok(settled !== undefined && more.length === 0);
  const copies = answers.filter(({ success }) => !success);
  assert.ok(copies.every(({ errorReason }) => errorReason === "duplicate_settlement"));
  const later = await client.settle(payload, requirements);
  assert.deepEqual(
    [later.success, later.errorReason, later.transaction],
    [false, "duplicate_settlement", settled.transaction],
  );
  assert.equal((await bed.balance(PAY_TO)) - paid, PRICE);
});

test("ten copies with the key of one seller have ten equal answers", async () => {
  const payload = await pay(await bed.payer(10n * PRICE));
  const seller = clientWith("a-sale-of-one-seller");
  const paid = await bed.balance(PAY_TO);
  const answers = await Promise.all(Array.from({ length: 10 }, () => seller.settle(payload, requirements)));
  assert.deepEqual(new Set(answers.map((answer) => JSON.stringify(answer))).size, 1);
  assert.equal(answers[0]?.success, true);
  assert.deepEqual(await seller.settle(payload, requirements), answers[0]);
  assert.equal((await bed.balance(PAY_TO)) - paid, PRICE);
});

test("a request that looked before the claim of its first copy gets that one's settlement, not a refusal", async () => {
  const payload = await pay(await bed.payer(PRICE));
  const seller = clientWith("another-sale");
  const settled = await seller.settle(payload, requirements);
  assert.equal(settled.success, true);
  early = 1;
  assert.deepEqual(await seller.settle(payload, requirements), settled);
  assert.equal(early, 0);
});

test("twenty payments at once all settle", async () => {
  const payloads = await Promise.all(Array.from({ length: 20 }, async () => pay(await bed.payer(PRICE))));
  const answers = await Promise.all(payloads.map((payload) => client.settle(payload, requirements)));
  assert.deepEqual(
    answers.map(({ success }) => success),
    payloads.map(() => true),
  );
});

test("a forged copy of a settled payment gets nothing", async () => {
  const payload = await pay(await bed.payer(PRICE));
  assert.equal((await client.settle(payload, requirements)).success, true);
  const signature = `0x${"11".repeat(64)}1b`;
  const forged = { ...payload, payload: { ...payload.payload, signature } };
  const answer = await client.settle(forged, requirements);
  assert.equal(answer.success, false);
  assert.equal(answer.transaction, "");
});

test("what is wrong is named in the reference's words", async () => {
  const payer = await bed.payer(PRICE - 1n);
  const poor = await client.verify(await pay(payer), requirements);
  assert.deepEqual([poor.isValid, poor.invalidReason], [false, "invalid_exact_evm_insufficient_balance"]);
  const little = await client.verify(await pay(payer, { value: 1n }), requirements);
  assert.equal(little.invalidReason, "invalid_exact_evm_payload_authorization_value_mismatch");
  const good = await pay(payer);
  const other = { ...requirements, payTo: "0x00000000000000000000000000000000000000aa" };
  assert.equal((await client.verify(good, other)).invalidReason, "invalid_payment_requirements");
  const elsewhere = { ...requirements, network: "eip155:1" as const };
  const answer = await client.settle({ ...good, accepted: elsewhere }, elsewhere);
  assert.deepEqual([answer.success, answer.network], [false, "eip155:1"]);
});

test("malformed requests are refused with a code and no internals", async () => {
  const good = JSON.stringify({
    x402Version: 2,
    paymentPayload: await pay(await bed.payer(0n)),
    paymentRequirements: requirements,
  });
  const cases: readonly (readonly [string, string | Uint8Array, number, string])[] = [
    ["no JSON", "{", 400, "MALFORMED_REQUEST"],
    ["empty", "", 400, "MALFORMED_REQUEST"],
    ["an array", "[]", 400, "MALFORMED_REQUEST"],
    ["not UTF-8", Buffer.from([0x7b, 0xff, 0x7d]), 400, "MALFORMED_REQUEST"],
    ["another version", good.replace('"x402Version":2', '"x402Version":1'), 400, "MALFORMED_REQUEST"],
    ["a repeated key", good.replace('"scheme"', '"scheme":"upto","scheme"'), 400, "MALFORMED_REQUEST"],
    [
      "a window of over an hour",
      good.replaceAll('"maxTimeoutSeconds":600', '"maxTimeoutSeconds":3601'),
      400,
      "MALFORMED_REQUEST",
    ],
    ["another scheme", good.replaceAll('"exact"', '"upto"'), 400, "MALFORMED_REQUEST"],
    ["__proto__", '{"__proto__":{"x402Version":2}}', 400, "MALFORMED_REQUEST"],
    ["deep", "[".repeat(30_000), 400, "MALFORMED_REQUEST"],
    ["huge", "x".repeat(65_537), 413, "BODY_TOO_LARGE"],
  ];
  for (const path of ["/verify", "/settle"]) {
    for (const [name, body, status, code] of cases) {
      const response = await post(path, body);
      const answer = (await response.json()) as Record<string, unknown>;
      assert.deepEqual([response.status, answer.code], [status, code], `${path} ${name}`);
      assert.deepEqual(Object.keys(answer).sort(), ["code", "message", "requestId", "retryable"]);
    }
    assert.equal((await post(path, good, { "content-type": "text/plain" })).status, 415);
    assert.equal((await fetch(`${server.url}${path}`)).status, 405);
  }
  assert.equal((await fetch(`${server.url}/nothing`)).status, 404);
});

test("discovery is a page, health and readiness answer", async () => {
  const page = await fetch(`${server.url}/discovery/resources?type=http&limit=5&offset=2`);
  assert.deepEqual(await page.json(), { x402Version: 2, items: [], pagination: { limit: 5, offset: 2, total: 0 } });
  assert.equal((await fetch(`${server.url}/discovery/resources?limit=-1`)).status, 400);
  assert.equal((await fetch(`${server.url}/health`)).status, 200);
  assert.deepEqual(await (await fetch(`${server.url}/ready`)).json(), { ready: true, missing: [] });
});

test("attack: DNS rebinding: a page whose name was pointed here is refused", async () => {
  for (const path of ["/supported", "/discovery/resources", "/nothing"]) {
    assert.equal(await reboundStatus(server.port, path), 403, path);
  }
});

test("junk signatures are refused before the ledger is asked", async () => {
  const payload = await pay(await bed.payer(PRICE));
  const before = finds;
  for (const signature of [`0x${"11".repeat(64)}1b`, "0x01", `0x${"22".repeat(200)}`]) {
    const answer = await client.settle({ ...payload, payload: { ...payload.payload, signature } }, requirements);
    assert.deepEqual([answer.success, answer.errorReason], [false, "invalid_exact_evm_signature"]);
  }
  assert.equal(finds, before);
});

test("what is not worth its gas, or for somebody else, is not settled", async () => {
  const payer = await bed.payer(PRICE);
  for (const amount of ["0", "999"]) {
    const little = { ...requirements, amount };
    const payload = { ...(await pay(payer, { value: BigInt(amount) })), accepted: little };
    const settled = await client.settle(payload, little);
    assert.deepEqual([settled.success, settled.errorReason], [false, "invalid_payment_requirements"]);
    assert.equal((await client.verify(payload, little)).isValid, false);
  }
  const elsewhere = { ...requirements, payTo: "0x00000000000000000000000000000000000000aa" };
  const other = { ...(await pay(payer, { to: "0x00000000000000000000000000000000000000aa" })), accepted: elsewhere };
  const answer = await client.settle(other, elsewhere);
  assert.deepEqual([answer.success, answer.errorReason], [false, "invalid_exact_evm_recipient_mismatch"]);
});

test("attack: a payer that is its own receiver is not settled, here or for any receiver", async () => {
  const payer = await bed.payer(PRICE);
  const ownSale = { ...requirements, payTo: payer.address };
  const payload = { ...(await pay(payer, { to: payer.address })), accepted: ownSale };
  for (const to of [client, toAny]) {
    const settled = await to.settle(payload, ownSale);
    assert.deepEqual([settled.success, settled.errorReason], [false, "invalid_exact_evm_recipient_mismatch"]);
    assert.equal((await to.verify(payload, ownSale)).isValid, false);
  }
});

test("more requests at once than it takes are answered 503", async () => {
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
  const { promise: full, resolve: fill } = Promise.withResolvers<void>();
  let atWork = 0;
  const busy: Pick<Facilitator, "verify" | "settle" | "supported" | "missing"> = {
    verify: async () => {
      if (++atWork === 2) fill();
      await held;
      return { kind: "answer", body: { isValid: true } };
    },
    settle: () => assert.fail("not asked"),
    supported: () => assert.fail("not asked"),
    missing: () => Promise.resolve([]),
  };
  await using narrow = await createFacilitatorServer(
    {
      host: "127.0.0.1",
      port: 0,
      trustedProxies: [],
      maxBodyBytes: 65_536,
      maxConcurrentRequests: 2,
      maxConcurrentPerClient: 2,
    },
    { facilitator: busy, log: silentLog },
  );
  const ask = (path: string) =>
    fetch(`${narrow.url}${path}`, { method: "POST", body: "{}", headers: { "content-type": "application/json" } });
  const first = [ask("/verify"), ask("/verify")];
  await full;
  const refused = await ask("/settle");
  assert.equal(refused.status, 503);
  assert.equal(((await refused.json()) as { code: string }).code, "OVERLOADED");
  letGo();
  for (const response of await Promise.all(first)) assert.equal(response.status, 200);
});
