import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { silentLog } from "@turnpike/base";
import { MULTICALL3_ADDRESS, USDC_ADDRESS } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { type Bed, NETWORK, openOwnBed, PAY_TO, PRICE, signPayment } from "../../test/engine-fixtures.ts";
import { startTestServer } from "../../test/ledger-fixtures.ts";
import { expressSeller, fastApiSeller, honoSeller, PYTHON, type Seller } from "../../test/sellers.ts";
import { createEngine } from "../engine/engine.ts";
import { EvmVerifier } from "../verify/verifier.ts";
import { Facilitator } from "./facilitator.ts";
import { createFacilitatorServer } from "./server.ts";

const owned = new AsyncDisposableStack();
let bed: Bed;
/** URL of two facilitators in turn, as of a load balancer before two processes. */
let balancer: { readonly url: string; readonly verified: () => number };

/** A facilitator with a ledger, an engine and a key of its own, on the one database. */
async function openFacilitatorOf(): Promise<string> {
  const ledger = owned.use(await bed.openLedger());
  const modules = bed.modules(ledger);
  const network = {
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
  const verifier = owned.use(new EvmVerifier({ networks: [network], workers: 0 }, modules));
  const settler = owned.use(await createEngine(bed.options([await bed.relayerKey()]), modules));
  const facilitator = new Facilitator(
    {
      assets: [{ network: NETWORK, address: USDC_ADDRESS, name: "USDC", version: "2" }],
      payToAllowed: [PAY_TO],
      minAmountUnits: 1_000n,
      settleWaitMs: 60_000,
      unpaidPerClient: () => ({ burst: 1_000, perSecond: 1 }),
      unpaidPerPayer: () => ({ burst: 1_000, perSecond: 1 }),
    },
    { ...modules, verifier, settler },
  );
  const opts = { host: "127.0.0.1", port: 0, trustedProxies: [], maxBodyBytes: 65_536, maxConcurrentRequests: 256 };
  return owned.use(await createFacilitatorServer(opts, { facilitator, log: silentLog })).url;
}

async function balancerOf(urls: readonly [string, string]): Promise<typeof balancer> {
  let turn = 0;
  let verified = 0;
  const pass = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = urls[turn++ % 2 === 0 ? 0 : 1];
    if (request.url === "/verify") verified++;
    const body = request.method === "POST" ? await buffer(request) : undefined;
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${url}${request.url}`, {
      method: request.method ?? "GET",
      headers,
      body: body ?? null,
    });
    response
      .writeHead(answer.status, { "content-type": "application/json" })
      .end(Buffer.from(await answer.arrayBuffer()));
  };
  const server = createServer((request, response) => void pass(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  owned.defer(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, verified: () => verified };
}

before(async () => {
  const databases = owned.use(await startTestServer());
  bed = owned.use(await openOwnBed(databases, { blockTimeSeconds: 1 }));
  balancer = await balancerOf([await openFacilitatorOf(), await openFacilitatorOf()]);
});
after(() => owned.disposeAsync());

/** A buyer's payment for what a seller sells, by its 402. */
async function headerFor(seller: Seller): Promise<string> {
  const unpaid = await fetch(seller.url);
  assert.equal(unpaid.status, 402, await unpaid.text());
  const terms = Buffer.from(unpaid.headers.get("payment-required") ?? "", "base64").toString();
  const { accepts } = JSON.parse(terms) as { readonly accepts: readonly unknown[] };
  const payer = await bed.payer(10n * PRICE);
  const validBefore = BigInt((await bed.chainTime()) + 600);
  const { key, payTo, value, validAfter, signature } = await signPayment(payer, { validBefore });
  const authorization = {
    from: payer.address,
    to: payTo,
    value: String(value),
    validAfter: String(validAfter),
    validBefore: String(validBefore),
    nonce: key.nonce,
  };
  const payload = { signature: `0x${Buffer.from(signature).toString("hex")}`, authorization };
  return Buffer.from(JSON.stringify({ x402Version: 2, accepted: accepts[0], payload })).toString("base64");
}

async function buy(seller: Seller, header: string): Promise<number> {
  const response = await fetch(seller.url, { headers: { "payment-signature": header } });
  const text = await response.text();
  if (response.status === 200) assert.deepEqual(JSON.parse(text), { thing: true });
  return response.status;
}

function assertOneAnswer(statuses: readonly number[]): void {
  assert.deepEqual(
    statuses.toSorted((a, b) => a - b),
    [200, ...Array.from({ length: 9 }, () => 402)],
  );
}

const SELLERS: readonly (readonly [string, ((facilitatorUrl: string) => Promise<Seller>) | undefined])[] = [
  ["@x402/hono", honoSeller],
  ["@x402/express", expressSeller],
  ["pip x402 with FastAPI", PYTHON === undefined ? undefined : (url) => fastApiSeller(url, PYTHON ?? "")],
];

for (const [name, start] of SELLERS) {
  test(`attack: ${name}, two facilitators: ten copies of one payment, at once and spread, get one answer`, {
    skip: start === undefined && "X402_PYTHON names no Python that has x402, fastapi and uvicorn",
  }, async () => {
    assert.ok(start !== undefined);
    await using seller = await start(balancer.url);
    const before = await bed.balance(PAY_TO);
    const copies = await headerFor(seller);
    const atOnce = await Promise.all(Array.from({ length: 10 }, () => buy(seller, copies)));
    assertOneAnswer(atOnce);
    const spread = await headerFor(seller);
    const answers: Promise<number>[] = [];
    for (let copy = 1; copy <= 10; copy++) {
      const seen = balancer.verified();
      answers.push(buy(seller, spread));
      await eventually("it is verified", () => balancer.verified() > seen);
    }
    assertOneAnswer(await Promise.all(answers));
    assert.equal(await buy(seller, spread), 402, "and later");
    assert.equal((await bed.balance(PAY_TO)) - before, 2n * PRICE);
  });
}
