import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { type Log, type MetricSpec, type NetworkId, noFaults, noMetrics, systemClock } from "@turnpike/base";
import { devRpc, setTokenBalance, USDC_ADDRESS } from "@turnpike/localnet";
import { eventually, virtualClock } from "@turnpike/testkit";
import { sendFromNewAccount } from "@turnpike/testkit/servers";
import { PaymentPayloadV2Schema, PaymentRequirementsV2Schema } from "@x402/core/schemas";
import {
  ANSWER,
  type Bed,
  cancelAuthorization,
  claim,
  NETWORK,
  openBed,
  openOwnBed,
  PAY_TO,
  PRICE,
  stateOf,
  timeLimit,
} from "../../test/engine-fixtures.ts";
import { startTestServer, type TestServer } from "../../test/ledger-fixtures.ts";
import { remoteFacilitatorAnswersTotal } from "../engine/metrics.ts";
import { encodeTransferVrs } from "../evm/abi.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { BackOff } from "../verify/back-off.ts";
import type { RemoteSettlerOptions } from "./options.ts";
import { createRemoteSettler } from "./remote-settler.ts";

let server: TestServer;
let bed: Bed;
before(async () => {
  server = await startTestServer();
  bed = await openBed(server);
});
after(async () => {
  await bed?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

interface Fake extends AsyncDisposable {
  readonly url: string;
  readonly bodies: Record<string, unknown>[];
  /** `Idempotency-Key` of each settle request. */
  readonly keys: (string | undefined)[];
}

/** A log that keeps its lines. */
function listeningLog(): { readonly log: Log; readonly lines: unknown[] } {
  const lines: unknown[] = [];
  const note = (...line: unknown[]): void => void lines.push(line);
  const log: Log = { debug: note, info: note, warn: note, error: note, child: () => log };
  return { log, lines };
}

/** A facilitator that answers as it is told. */
async function facilitator(
  handle: (body: Record<string, unknown>, response: ServerResponse, request: IncomingMessage) => unknown,
): Promise<Fake> {
  const bodies: Record<string, unknown>[] = [];
  const keys: (string | undefined)[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const text = Buffer.concat(parts).toString();
      const body = (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>;
      if (body.paymentPayload !== undefined) {
        bodies.push(body);
        keys.push(request.headers["idempotency-key"]?.toString());
      }
      void handle(body, response, request);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/x402/`,
    bodies,
    keys,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const nonceOf = (body: Record<string, unknown>): string =>
  (body.paymentPayload as { payload: { authorization: { nonce: string } } }).payload.authorization.nonce;

const yes = (transaction: string) => JSON.stringify({ success: true, transaction, network: NETWORK, payer: PAY_TO });

async function onChain(payment: PaymentRecord): Promise<string> {
  const { key, payTo, value, validAfter, validBefore, signature } = payment;
  const data = encodeTransferVrs(
    { from: key.from, to: payTo, value, validAfter, validBefore, nonce: key.nonce },
    signature,
  );
  return sendFromNewAccount(bed.anvil.url, { to: USDC_ADDRESS, data, gas: "0x40000" });
}

const options = (facilitatorUrl: string, changes: Partial<RemoteSettlerOptions> = {}): RemoteSettlerOptions => ({
  facilitatorUrl,
  networks: [
    {
      network: NETWORK as NetworkId,
      confirmations: 1,
      finalityBlocks: 3,
      blockTimeSeconds: 1,
      assets: [{ address: USDC_ADDRESS, name: "USDC", version: "2", maxTimeoutSeconds: 600 }],
    },
  ],
  timeoutMs: 60_000,
  pollMs: 100,
  reconcileMs: 100,
  ...changes,
});

test("an honest facilitator's yes is checked on the chain, and is asked in the reference's form", async () => {
  await using ledger = await bed.openLedger();
  const payment = await claim(ledger, await bed.payer(PRICE));
  await using fake = await facilitator(async (_body, response) => response.end(yes(await onChain(payment))));
  await using settler = await createRemoteSettler(options(fake.url), bed.modules(ledger));
  await settler.settle(payment, ANSWER, timeLimit());
  const end = await stateOf(ledger, payment);
  assert.equal(end.state, "settled");
  assert.equal((await ledger.answer(payment.id))?.contentType, ANSWER.contentType);
  const [body] = fake.bodies;
  assert.equal(body?.x402Version, 2);
  assert.deepEqual(PaymentRequirementsV2Schema.parse(body.paymentRequirements).asset, USDC_ADDRESS);
  assert.equal(PaymentPayloadV2Schema.parse(body.paymentPayload).accepted.amount, String(PRICE));
});

test("each settle request of a payment has one key, also after a lost answer and a restart; another payment has another", async () => {
  await using ledger = await bed.openLedger();
  const payment = await claim(ledger, await bed.payer(PRICE));
  let isLost = true;
  await using fake = await facilitator(async (body, response) => {
    if (isLost) return void response.destroy();
    response.end(yes(await onChain(nonceOf(body) === payment.key.nonce ? payment : other)));
  });
  {
    await using settler = await createRemoteSettler(options(fake.url), bed.modules(ledger));
    void settler.settle(payment, ANSWER, timeLimit());
    await eventually("it is asked again", () => fake.keys.length >= 2);
  }
  const other = await claim(ledger, await bed.payer(PRICE));
  isLost = false;
  await using settler = await createRemoteSettler(options(fake.url), bed.modules(ledger));
  await eventually("the restarted one settles it", async () => (await stateOf(ledger, payment)).state === "settled");
  const keys = new Set(fake.keys);
  assert.equal(keys.size, 1);
  assert.match([...keys][0] ?? "", /^[0-9a-f]{64}$/);
  await settler.settle(other, ANSWER, timeLimit());
  assert.equal(new Set(fake.keys).size, 2);
});

test("a settlement that the facilitator denies, or names wrongly, is found on the chain", async () => {
  await using ledger = await bed.openLedger();
  const payments = [await claim(ledger, await bed.payer(PRICE)), await claim(ledger, await bed.payer(PRICE))];
  const [denied, misnamed] = payments;
  assert.ok(denied !== undefined && misnamed !== undefined);
  const other = await onChain(await claim(ledger, await bed.payer(PRICE)));
  await using fake = await facilitator(async (body, response) => {
    const isDenied = nonceOf(body) === denied.key.nonce;
    await onChain(isDenied ? denied : misnamed);
    response.end(
      isDenied ? JSON.stringify({ success: false, errorReason: "no", transaction: "", network: NETWORK }) : yes(other),
    );
  });
  await using settler = await createRemoteSettler(options(fake.url), bed.modules(ledger));
  await Promise.all(payments.map((payment) => settler.settle(payment, ANSWER, timeLimit())));
  for (const payment of payments) {
    const { state, evidence } = await stateOf(ledger, payment);
    assert.equal(state, "settled");
    assert.notEqual(evidence?.transaction, other);
  }
});

const hostile: Readonly<Record<string, (response: ServerResponse) => unknown>> = {
  "says yes to everything": (response) => response.end(yes(`0x${"ab".repeat(32)}`)),
  "says yes without a hash": (response) => response.end(yes("")),
  "says no": (response) => response.end(JSON.stringify({ success: false, errorReason: "no", transaction: "" })),
  "never answers": () => undefined,
  "answers without an end": (response) => {
    const timer = setInterval(() => response.write("x".repeat(60_000)), 1);
    response.on("close", () => clearInterval(timer));
  },
  "answers nonsense": (response) => response.end('{"success":"yes","__proto__":{"success":true}}'),
  "repeats a key": (response) => response.end('{"success":false,"success":true,"transaction":"0x"}'),
  "hangs up": (response) => response.destroy(),
};

test(`a facilitator that ${Object.keys(hostile).join(", ")}: settles nothing; pending, then failed when the window has closed`, async () => {
  await using own = await openOwnBed(server);
  await using ledger = await own.openLedger();
  await using stack = new AsyncDisposableStack();
  const validBefore = BigInt((await own.chainTime()) + 600);
  const clock = virtualClock();
  const cases = [];
  for (const [name, handle] of Object.entries(hostile)) {
    const fake = stack.use(await facilitator((_body, response) => handle(response)));
    // One that never answers is given up soon; the others answer, or fail, by themselves.
    const patience = name === "never answers" ? { timeoutMs: 100 } : {};
    const answered = Promise.withResolvers<void>();
    const metrics = {
      ...noMetrics,
      count: ({ name }: MetricSpec) => name === remoteFacilitatorAnswersTotal.name && answered.resolve(),
    };
    const modules = { ...own.modules(ledger, noFaults, clock), metrics };
    const settler = stack.use(await createRemoteSettler(options(fake.url, patience), modules));
    const payment = await claim(ledger, await own.payer(PRICE), { validBefore });
    cases.push({ name, fake, settler, payment, answered: answered.promise });
  }
  const waiting = new AbortController();
  const settling = cases.map(({ settler, payment }) => settler.settle(payment, ANSWER, waiting.signal));
  await Promise.all(cases.map(({ answered }) => answered));
  waiting.abort();
  await Promise.all(settling);
  for (const { name, fake, payment } of cases) {
    assert.equal((await stateOf(ledger, payment)).state, "submitted", name);
    await eventually(`${name}: it was asked`, () => fake.bodies.length > 0);
  }
  await devRpc(own.anvil.url, "anvil_mine", ["0x2", "0x2bc"]);
  for (const { name, payment } of cases) {
    const end = await eventually(`${name}: it has failed`, async () => {
      clock.advance(1_000);
      const found = await stateOf(ledger, payment);
      return found.state === "failed" && found;
    });
    assert.equal(end.reason, "PAYMENT_EXPIRED", name);
  }
  assert.equal(await own.balance(PAY_TO), 0n);
});

test("a settler that dies after its journal is followed by one that asks again", async () => {
  const ledger = await bed.openLedger();
  const payment = await claim(ledger, await bed.payer(PRICE));
  const patience = new AbortController();
  await using silent = await facilitator(() => patience.abort());
  const dead = await createRemoteSettler(options(silent.url), bed.modules(ledger));
  await dead.settle(payment, ANSWER, patience.signal);
  await dead[Symbol.asyncDispose]();
  await ledger[Symbol.asyncDispose]();
  await using again = await bed.openLedger();
  await using fake = await facilitator(async (_body, response) => response.end(yes(await onChain(payment))));
  await using settler = await createRemoteSettler(options(fake.url), bed.modules(again));
  await settler.wait(payment, timeLimit());
  assert.equal((await stateOf(again, payment)).state, "settled");
});

test("a claim that is lost before the journal is rejected, and the facilitator is not asked", async () => {
  await using ledger = await bed.openLedger();
  const patience = new AbortController();
  await using fake = await facilitator(() => patience.abort());
  await using settler = await createRemoteSettler(options(fake.url), bed.modules(ledger));
  const payment = await claim(ledger, await bed.payer(PRICE));
  await ledger.release(payment.id, "SERVICE_UNAVAILABLE");
  await assert.rejects(settler.settle(payment, ANSWER, timeLimit()), { code: "LEDGER_FENCED" });
  const next = await claim(ledger, await bed.payer(PRICE));
  await settler.settle(next, ANSWER, patience.signal);
  assert.deepEqual(fake.bodies.map(nonceOf), [next.key.nonce], "the one behind it is the first");
});

test("attack: who takes its money away behind a facilitator is backed off, and who waits for a slow one is not", async () => {
  await using fake = await facilitator((_body, response) => response.end(JSON.stringify({ success: false })));
  await using ledger = await bed.openLedger();
  const backOff = new BackOff({}, { clock: systemClock });
  await using settler = await createRemoteSettler(options(fake.url), { ...bed.modules(ledger), backOff });
  const [honest, attacker] = [await bed.payer(3n * PRICE), await bed.payer(3n * PRICE)];
  const patience = new AbortController();
  const settleAll = async (payer: typeof honest) => {
    for (let count = 0; count < 3; count++) void settler.settle(await claim(ledger, payer), ANSWER, patience.signal);
  };
  await settleAll(honest);
  await eventually("the honest ones are asked for", () => fake.bodies.length >= 3);
  await settleAll(attacker);
  await setTokenBalance(bed.anvil.url, { address: attacker.address, units: 0n });
  const isRefused = ({ address }: typeof honest): boolean => backOff.refuses({ network: NETWORK, from: address });
  await eventually("the attacker is refused", () => isRefused(attacker));
  assert.equal(isRefused(honest), false, "its payments are open, and it could pay");
  patience.abort();
});

test("attack: who cancels behind a facilitator is backed off", async () => {
  await using fake = await facilitator((_body, response) => response.end(JSON.stringify({ success: false })));
  await using ledger = await bed.openLedger();
  const backOff = new BackOff({}, { clock: systemClock });
  await using settler = await createRemoteSettler(options(fake.url), { ...bed.modules(ledger), backOff });
  const payer = await bed.payer(3n * PRICE);
  for (let count = 0; count < 3; count++) {
    assert.equal(backOff.refuses({ network: NETWORK, from: payer.address }), false);
    const payment = await claim(ledger, payer);
    await cancelAuthorization(bed, payer, payment);
    await devRpc(bed.anvil.url, "anvil_mine", ["0x3"]);
    await settler.settle(payment, ANSWER, timeLimit());
    assert.equal((await stateOf(ledger, payment)).reason, "PAYMENT_NONCE_USED");
  }
  assert.equal(backOff.refuses({ network: NETWORK, from: payer.address }), true);
});

test("a facilitator that is silent three times is missing until it answers again", async () => {
  let broken = true;
  let asked = 0;
  const patience = new AbortController();
  await using fake = await facilitator((_body, response) => {
    if (++asked === 3) patience.abort();
    if (broken) response.writeHead(502).end("<html>");
    else response.end(JSON.stringify({ kinds: [] }));
  });
  await using ledger = await bed.openLedger();
  await using settler = await createRemoteSettler(options(fake.url), bed.modules(ledger));
  assert.deepEqual(settler.missing(), []);
  const payments = await Promise.all([1, 2, 3].map(async () => claim(ledger, await bed.payer(PRICE))));
  await Promise.all(payments.map((payment) => settler.settle(payment, ANSWER, patience.signal)));
  await eventually("it is missing", () => settler.missing().length > 0);
  assert.deepEqual(settler.missing(), ["facilitator silent (eip155:84532)"]);
  broken = false;
  await eventually("it is back", () => settler.missing().length === 0);
  assert.deepEqual(settler.missing(), []);
});

test("attack: a buyer's payments that stay pending for longer than a request waits make no facilitator silent", async () => {
  await using ledger = await bed.openLedger();
  const payer = await bed.payer(4n * PRICE);
  const payments = await Promise.all([1, 2, 3, 4].map(() => claim(ledger, payer)));
  const nonces = new Set<string>(payments.map(({ key }) => key.nonce));
  const honest = await claim(ledger, await bed.payer(PRICE));
  await using fake = await facilitator(async (body, response, { url = "" }) => {
    if (url.endsWith("/supported")) return response.end('{"kinds":[]}');
    if (body.paymentPayload === undefined) return response.writeHead(400).end("{}");
    return nonceOf(body) === honest.key.nonce ? response.end(yes(await onChain(honest))) : undefined;
  });
  const states = new Set<string>();
  await using settler = await createRemoteSettler(
    options(fake.url, { timeoutMs: 150, reconcileMs: 20 }),
    bed.modules(ledger),
  );
  const patience = new AbortController();
  const settling = payments.map((payment) => settler.settle(payment, ANSWER, patience.signal));
  await eventually("they are asked for twice", () => {
    for (const what of settler.missing()) states.add(what);
    return fake.bodies.filter((body) => nonces.has(nonceOf(body))).length >= 8;
  });
  await settler.settle(honest, ANSWER, AbortSignal.timeout(15_000));
  patience.abort();
  await Promise.all(settling);
  assert.deepEqual([...states], [], "it answers, and settles what can be settled");
  assert.equal((await stateOf(ledger, honest)).state, "settled");
});

test("attack: the connections that one buyer's pending payments hold are not all of them", async () => {
  await using ledger = await bed.openLedger();
  const payer = await bed.payer(100n * PRICE);
  const payments = await Promise.all(Array.from({ length: 100 }, () => claim(ledger, payer)));
  const honest = await claim(ledger, await bed.payer(PRICE));
  await using fake = await facilitator(async (body, response) => {
    if (nonceOf(body) === honest.key.nonce) response.end(yes(await onChain(honest)));
  });
  await using settler = await createRemoteSettler(options(fake.url), bed.modules(ledger));
  const patience = new AbortController();
  const settling = payments.map((payment) => settler.settle(payment, ANSWER, patience.signal));
  await eventually("its share is asked for", () => fake.bodies.length >= 12);
  await settler.settle(honest, ANSWER, AbortSignal.timeout(15_000));
  assert.equal((await stateOf(ledger, honest)).state, "settled");
  patience.abort();
  await Promise.all(settling);
});

test("attack: a facilitator is asked no more for a payment whose payer has no funds, until it has", async () => {
  await using ledger = await bed.openLedger();
  const [broke, funded] = [await bed.payer(PRICE), await bed.payer(PRICE)];
  const hopeless = await claim(ledger, broke);
  const open = await claim(ledger, funded);
  await using fake = await facilitator((_body, response) => response.end(JSON.stringify({ success: false })));
  await using settler = await createRemoteSettler(options(fake.url), bed.modules(ledger));
  const asks = ({ key }: PaymentRecord): number => fake.bodies.filter((body) => nonceOf(body) === key.nonce).length;
  const patience = new AbortController();
  await setTokenBalance(bed.anvil.url, { address: broke.address, units: 0n });
  const settling = [hopeless, open].map((payment) => settler.settle(payment, ANSWER, patience.signal));
  await eventually("the open one is asked for again and again", () => asks(open) >= 3);
  assert.equal(asks(hopeless), 1, "each request costs a token there");
  await setTokenBalance(bed.anvil.url, { address: broke.address, units: PRICE });
  await eventually("it is asked for again", () => asks(hopeless) >= 2);
  patience.abort();
  await Promise.all(settling);
});

test("it scans for payments of other sellers to its receivers, and a scan that hangs keeps it from nothing else", async () => {
  await using ledger = await bed.openLedger();
  const ended = Promise.withResolvers<void>();
  let scans = 0;
  let reconciled = 0;
  const hanging: Ledger = {
    ...ledger,
    async beginScan() {
      scans++;
      await ended.promise;
      return { isDue: false, scannedTo: undefined, finalBlock: undefined };
    },
    submitted(network, limit) {
      reconciled++;
      return ledger.submitted(network, limit);
    },
  };
  const payment = await claim(ledger, await bed.payer(PRICE));
  await using fake = await facilitator(async (_body, response) => response.end(yes(await onChain(payment))));
  const { networks, ...others } = options(fake.url);
  const receivers = [{ asset: USDC_ADDRESS, payTo: PAY_TO }];
  const watching = { ...others, networks: networks.map((network) => ({ ...network, receivers })) };
  await using settler = await createRemoteSettler(watching, bed.modules(hanging));
  await eventually("it scans", async () => scans === 1);
  const before = reconciled;
  await settler.settle(payment, ANSWER, timeLimit());
  await eventually("it reconciles on", async () => reconciled > before + 3);
  assert.equal(scans, 1);
  ended.resolve();
});

test("a seller's key goes with each settle request; while it is refused nothing is sold, until it is known", async () => {
  const { log, lines } = listeningLog();
  await using ledger = await bed.openLedger();
  let isKnown = true;
  const authorizations: (string | undefined)[] = [];
  const payments = new Map<string, PaymentRecord>();
  await using fake = await facilitator((body, response, { url = "", headers }) => {
    if (url.endsWith("/supported")) return response.end("{}");
    authorizations.push(headers.authorization);
    if (!isKnown) return response.writeHead(401).end('{"code":"SELLER_KEY_UNKNOWN","message":"No such seller."}');
    if (body.paymentPayload === undefined)
      return response.writeHead(400).end('{"code":"MALFORMED_REQUEST","message":"-"}');
    const payment = payments.get(nonceOf(body));
    // One of another test, whose settler left it open.
    if (payment === undefined) return response.end('{"success":false}');
    return onChain(payment).then((transaction) => response.end(yes(transaction)));
  });
  const newPayment = async (): Promise<PaymentRecord> => {
    const payment = await claim(ledger, await bed.payer(PRICE));
    payments.set(payment.key.nonce, payment);
    return payment;
  };
  const modules = { ...bed.modules(ledger), log };
  await using settler = await createRemoteSettler(options(fake.url, { sellerKey: "s3cret" }), modules);
  await settler.settle(await newPayment(), ANSWER, timeLimit());
  isKnown = false;
  const second = await newPayment();
  const settling = settler.settle(second, ANSWER, timeLimit());
  await eventually("it is seen", () => settler.missing().length > 0);
  assert.deepEqual(settler.missing(), [`facilitator refuses the seller key (${NETWORK})`]);
  isKnown = true;
  await settling;
  assert.equal((await stateOf(ledger, second)).state, "settled", "it is asked again");
  await eventually("it is seen", () => settler.missing().length === 0);
  assert.deepEqual(new Set(authorizations), new Set(["Bearer s3cret"]));
  assert.doesNotMatch(JSON.stringify(lines), /s3cret/);
});

test("a seller's key that is refused when a gateway starts is seen before anything is sold", async () => {
  await using ledger = await bed.openLedger();
  let isKnown = false;
  await using fake = await facilitator((_body, response, { url = "" }) => {
    if (url.endsWith("/supported")) response.end("{}");
    else response.writeHead(isKnown ? 400 : 401).end('{"code":"-","message":"-"}');
  });
  await using settler = await createRemoteSettler(options(fake.url, { sellerKey: "other" }), bed.modules(ledger));
  await eventually("it is seen", () => settler.missing().length > 0);
  isKnown = true;
  await eventually("it is seen", () => settler.missing().length === 0);
});
