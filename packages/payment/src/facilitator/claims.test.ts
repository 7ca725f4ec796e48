import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { type Address, type NetworkId, noMetrics, silentLog, systemClock, utf8ToBytes } from "@turnpike/base";
import { eventually } from "@turnpike/testkit";
import { newAnswer, newEvidence, openLedger, startTestServer, type TestServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import type { Settler } from "../settler.ts";
import type { DecodedPayment, PaymentRecord, PaymentRefusal } from "../types.ts";
import { createFacilitator, type SettleResponse } from "./facilitator.ts";
import { createFacilitatorServer } from "./server.ts";

const NETWORK = "eip155:84532" as NetworkId;
const ASSET: Address = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const EXTRA = { name: "USDC", version: "2" };
const MERCHANTS = ["0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "0x00000000000000000000000000000000000000bB"] as const;

let databases: TestServer;
let ledger: Ledger;

before(async () => {
  databases = await startTestServer();
  ledger = await openLedger(await databases.database(), { poolSize: 8 });
});
after(async () => {
  await ledger?.[Symbol.asyncDispose]();
  await databases?.[Symbol.asyncDispose]();
});

/** Stands in for the chain: every payment is good. */
const verifier = {
  checkFree: async () => ({ ok: true as const, signer: "payer" as const }),
  checkSigner: async () => ({ ok: true as const }),
  checkChain: async (payment: DecodedPayment) => ({
    ok: true as const,
    payment,
    kind: "eoa" as const,
    balance: 1_000_000n,
    blockNumber: 1n,
    chainTimeSeconds: Date.now() / 1_000,
  }),
};

/** Stands in for the settlement engine: commits, and settles when the test says so. */
class StandInSettler implements Settler {
  readonly networks = [NETWORK];
  /** Nonces whose settlement stays open until {@link finish}. */
  readonly held = new Set<string>();
  /** Runs in place of a settlement, which then ends without a commit. */
  instead: ((payment: PaymentRecord) => Promise<void>) | undefined;
  /** What every sale is refused with. */
  refused: PaymentRefusal | undefined;
  refusal = () => this.refused;
  readonly #waiting = new Map<string, Set<() => void>>();
  async settle(payment: PaymentRecord, _answer: unknown, signal: AbortSignal) {
    if (this.instead !== undefined) return this.instead(payment);
    await ledger.journalSubmission(payment.id, newAnswer());
    if (this.held.has(payment.key.nonce)) return this.wait(payment, signal);
    await this.finish(payment);
  }
  async finish({ id }: Pick<PaymentRecord, "id">) {
    await ledger.settled(id, newEvidence());
    for (const resolve of this.#waiting.get(id) ?? []) resolve();
  }
  /** How many wait for the end of a payment. */
  waiting({ id }: Pick<PaymentRecord, "id">): number {
    return this.#waiting.get(id)?.size ?? 0;
  }
  wait({ id }: PaymentRecord, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.set(id, (this.#waiting.get(id) ?? new Set()).add(resolve));
    signal.addEventListener("abort", () => resolve(), { once: true });
    return promise;
  }
  missing = () => [];
  async [Symbol.asyncDispose]() {}
}

function openFacilitator(opts: { readonly maxCopies?: number; readonly onFound?: () => void } = {}) {
  const settler = new StandInSettler();
  const { onFound, ...limits } = opts;
  const find: Ledger["find"] = async (key) => {
    const found = await ledger.find(key);
    onFound?.();
    return found;
  };
  const facilitator = createFacilitator(
    { assets: [{ network: NETWORK, address: ASSET, ...EXTRA }], settleWaitMs: 60_000, ...limits },
    { verifier, ledger: { ...ledger, find }, settler, clock: systemClock, log: silentLog, metrics: noMetrics },
  );
  return { settler, facilitator };
}

/** A settle request: what `from` signed with `nonce` for a merchant. */
function settleBody(from: Address, nonce: string, payTo: Address): string {
  const now = Math.floor(Date.now() / 1_000);
  const terms = { network: NETWORK, amount: "5000", asset: ASSET, payTo, maxTimeoutSeconds: 600, extra: EXTRA };
  const accepted = { scheme: "exact", ...terms };
  const window = { validAfter: String(now - 600), validBefore: String(now + 600) };
  const authorization = { from, to: payTo, value: "5000", ...window, nonce };
  const signature = `0x${randomBytes(64).toString("hex")}1b`;
  const paymentPayload = { x402Version: 2, accepted, payload: { signature, authorization } };
  return JSON.stringify({ x402Version: 2, paymentPayload, paymentRequirements: accepted });
}

const newPayer = (): Address => `0x${randomBytes(20).toString("hex")}`;
const newNonce = (): `0x${string}` => `0x${randomBytes(32).toString("hex")}`;

async function settle({ facilitator }: ReturnType<typeof openFacilitator>, body: string): Promise<string> {
  const result = await facilitator.settle(utf8ToBytes(body), AbortSignal.timeout(60_000));
  if (result.kind === "error") return result.code;
  return result.body.success ? "success" : (result.body.errorReason ?? "no reason");
}

test("attack: one nonce signed for two merchants pays one of them, and the other gets no success", async () => {
  const [from, nonce] = [newPayer(), newNonce()];
  const [first, second] = MERCHANTS.map((payTo) => settleBody(from, nonce, payTo));
  assert.ok(first !== undefined && second !== undefined);
  const bench = openFacilitator();
  bench.settler.instead = async ({ id }) => {
    const { promise: isWaiting, resolve: onFound } = Promise.withResolvers<void>();
    const copy = settle(openFacilitator({ onFound }), first);
    await isWaiting;
    // As after a crash of this process: its claim is released, and the payer presents the other authorization.
    assert.equal(await ledger.release(id, "SERVICE_UNAVAILABLE"), true);
    assert.equal(await settle(openFacilitator(), second), "success");
    assert.notEqual(await copy, "success", "a copy that waited");
  };
  assert.equal(await settle(bench, first), "SETTLEMENT_UNAVAILABLE");
  assert.equal(await settle(openFacilitator(), first), "invalid_exact_evm_nonce_already_used", "asked again");
});

test("attack: copies of one pending payment leave places for the settlements of others", async () => {
  const bench = openFacilitator({ maxCopies: 8 });
  await using server = await createFacilitatorServer(
    { host: "127.0.0.1", port: 0, maxConcurrent: 32 },
    { facilitator: bench.facilitator, log: silentLog },
  );
  const ask = async (body: string): Promise<SettleResponse> => {
    const init = { method: "POST", body, headers: { "content-type": "application/json" } };
    return (await (await fetch(`${server.url}/settle`, init)).json()) as SettleResponse;
  };
  const nonce = newNonce();
  bench.settler.held.add(nonce);
  const from = newPayer();
  const pending = settleBody(from, nonce, MERCHANTS[0]);
  const first = ask(pending);
  const key = { network: NETWORK, asset: ASSET.toLowerCase() as Address, from, nonce };
  await eventually("it is submitted", async () => (await ledger.find(key))?.state === "submitted");
  const record = await ledger.find(key);
  assert.ok(record !== undefined);
  let answered = 0;
  const copies: Promise<SettleResponse>[] = [];
  while (copies.length < 64) {
    // A few at a time: what is shown are requests that wait, not a burst of them.
    copies.push(...Array.from({ length: 8 }, () => ask(pending).finally(() => answered++)));
    const atRest = (): number => answered + bench.settler.waiting(record) - 1;
    await eventually("each is answered or waits", () => atRest() === copies.length);
  }
  const honest = await ask(settleBody(newPayer(), newNonce(), MERCHANTS[1]));
  assert.equal(honest.success, true, JSON.stringify(honest));
  await bench.settler.finish(record);
  assert.equal((await first).success, true);
  const reasons = (await Promise.all(copies)).map(({ success, errorReason }) => (success ? "success" : errorReason));
  assert.equal(reasons.filter((reason) => reason === "settlement_pending").length, 56, "pending, and never refused");
  assert.equal(reasons.filter((reason) => reason === "success").length, 8);
});

test("a payment that costs more than it brings is refused at /verify and at /settle, unclaimed, and good later", async () => {
  const bench = openFacilitator();
  await using server = await createFacilitatorServer(
    { host: "127.0.0.1", port: 0 },
    { facilitator: bench.facilitator, log: silentLog },
  );
  const [from, nonce] = [newPayer(), newNonce()];
  const body = settleBody(from, nonce, MERCHANTS[0]);
  const ask = (path: string): Promise<Response> =>
    fetch(`${server.url}${path}`, { method: "POST", body, headers: { "content-type": "application/json" } });
  bench.settler.refused = { ok: false, code: "SETTLEMENT_UNPROFITABLE", retryAfterSeconds: 30 };
  for (const path of ["/verify", "/settle"]) {
    const answer = await ask(path);
    const said = (await answer.json()) as { code?: string; isValid?: boolean };
    assert.deepEqual([answer.status, said.code, said.isValid], [503, "SETTLEMENT_UNPROFITABLE", undefined], path);
    assert.equal(answer.headers.get("retry-after"), "30");
  }
  assert.equal(await ledger.find({ network: NETWORK, asset: ASSET.toLowerCase() as Address, from, nonce }), undefined);
  bench.settler.refused = undefined;
  assert.equal(await settle(bench, body), "success");
  bench.settler.refused = { ok: false, code: "SETTLEMENT_UNPROFITABLE" };
  assert.equal(await settle(bench, body), "success", "what is settled stays so");
});
