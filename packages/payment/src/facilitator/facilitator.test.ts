import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { noMetrics, silentLog, systemClock } from "@turnpike/base";
import { privateKeyToAddress } from "@turnpike/crypto";
import { type LocalPostgres, USDC_ADDRESS } from "@turnpike/localnet";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { createEngine } from "../engine/engine.ts";
import {
  type Bed,
  NETWORK,
  openBed,
  PAY_TO,
  type Payer,
  PRICE,
  signPayment,
  startServer,
} from "../engine/test-support.ts";
import { createVerifier } from "../verify/verifier.ts";
import { createFacilitator } from "./facilitator.ts";
import { createFacilitatorServer, type FacilitatorServer } from "./server.ts";

let postgres: LocalPostgres;
let bed: Bed;
let server: FacilitatorServer;
let client: HTTPFacilitatorClient;
const owned = new AsyncDisposableStack();

before(async () => {
  postgres = owned.use(await startServer());
  bed = owned.use(await openBed(postgres));
  const ledger = owned.use(await bed.openLedger());
  const key = await bed.relayerKey();
  const modules = { ...bed.modules(ledger), clock: systemClock, log: silentLog, metrics: noMetrics };
  const asset = { network: NETWORK, asset: USDC_ADDRESS, name: "USDC", version: "2", decimals: 6 };
  const verifier = owned.use(createVerifier({ networks: [asset], workers: 0 }, modules));
  const settler = owned.use(await createEngine(bed.options([key]), modules));
  const facilitator = createFacilitator(
    {
      assets: [{ network: NETWORK, address: USDC_ADDRESS, name: "USDC", version: "2" }],
      settleWaitMs: 10_000,
      signers: [privateKeyToAddress(key)],
    },
    { ...modules, verifier, settler },
  );
  server = owned.use(await createFacilitatorServer({ host: "127.0.0.1", port: 0 }, { facilitator, log: silentLog }));
  client = new HTTPFacilitatorClient({ url: server.url });
});
after(() => owned.disposeAsync());

type Payload = Parameters<HTTPFacilitatorClient["verify"]>[0];
type Requirements = Parameters<HTTPFacilitatorClient["verify"]>[1];

const requirements: Requirements = {
  scheme: "exact",
  network: "eip155:84532",
  amount: String(PRICE),
  asset: USDC_ADDRESS,
  payTo: PAY_TO,
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
};

async function pay(payer: Payer, changes: { readonly value?: bigint } = {}): Promise<Payload> {
  const signed = await signPayment(payer, changes);
  const { key, payTo, value, validAfter, validBefore, signature } = signed;
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

test("ten copies of one settle request have one settlement and ten equal answers", async () => {
  const payer = await bed.payer(10n * PRICE);
  const payload = await pay(payer);
  const paid = await bed.balance(PAY_TO);
  const answers = await Promise.all(Array.from({ length: 10 }, () => client.settle(payload, requirements)));
  assert.deepEqual(new Set(answers.map((answer) => JSON.stringify(answer))).size, 1);
  assert.equal(answers[0]?.success, true);
  assert.deepEqual(await client.settle(payload, requirements), answers[0]);
  assert.equal((await bed.balance(PAY_TO)) - paid, PRICE);
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
