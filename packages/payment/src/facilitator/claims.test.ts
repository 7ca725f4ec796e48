import assert from "node:assert/strict";
import { test } from "node:test";
import { type Address, AppError, silentLog, utf8ToBytes } from "@turnpike/base";
import { eventually, virtualClock } from "@turnpike/testkit";
import {
  ASSET,
  type FacilitatorBench,
  MERCHANTS,
  NETWORK,
  newNonce,
  newPayer,
  openFacilitator,
  settleBody,
} from "../../test/facilitator-fixtures.ts";
import { testLedger } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import type { SettleResponse } from "./results.ts";
import { createFacilitatorServer } from "./server.ts";

const ledger = testLedger({ poolSize: 8 });
const KEY = "one-seller";
const CALLER = { client: "client", key: KEY };

async function settle({ facilitator }: FacilitatorBench, body: string): Promise<string> {
  const result = await facilitator.settle(utf8ToBytes(body), AbortSignal.timeout(60_000), CALLER);
  if (result.kind === "error") return result.code;
  return result.body.success ? "success" : (result.body.errorReason ?? "no reason");
}

test("attack: one nonce signed for two merchants pays one of them, and the other gets no success", async () => {
  const [from, nonce] = [newPayer(), newNonce()];
  const [first, second] = MERCHANTS.map((payTo) => settleBody(from, nonce, payTo));
  assert.ok(first !== undefined && second !== undefined);
  const bench = openFacilitator(ledger());
  bench.settler.instead = async ({ id }) => {
    const { promise: isWaiting, resolve: onFound } = Promise.withResolvers<void>();
    const copy = settle(openFacilitator(ledger(), { onFound }), first);
    await isWaiting;
    // As after a crash of this process: its claim is released, and the payer presents the other authorization.
    assert.equal(await ledger().release(id, "SERVICE_UNAVAILABLE"), true);
    assert.equal(await settle(openFacilitator(ledger()), second), "success");
    assert.notEqual(await copy, "success", "a copy that waited");
  };
  assert.equal(await settle(bench, first), "SETTLEMENT_UNAVAILABLE");
  assert.equal(await settle(openFacilitator(ledger()), first), "invalid_exact_evm_nonce_already_used", "asked again");
});

test("attack: a claim does not stay behind when its settler returns without a commit", async () => {
  const [from, nonce] = [newPayer(), newNonce()];
  const body = settleBody(from, nonce, MERCHANTS[0]);
  const bench = openFacilitator(ledger());
  bench.settler.instead = async () => undefined;
  assert.equal(await settle(bench, body), "SETTLEMENT_UNAVAILABLE");
  const key = { network: NETWORK, asset: ASSET.toLowerCase() as Address, from, nonce };
  assert.equal((await ledger().find(key))?.state, "released");
  bench.settler.instead = undefined;
  assert.equal(await settle(bench, body), "success");
});

test("a claim does not stay behind when the ledger cannot say how it stands after its settlement", async () => {
  const [from, nonce] = [newPayer(), newNonce()];
  const body = settleBody(from, nonce, MERCHANTS[0]);
  let fails = false;
  const shaky: Ledger = {
    ...ledger(),
    newest: (id) => (fails ? Promise.reject(new AppError("LEDGER_UNAVAILABLE")) : ledger().newest(id)),
  };
  const bench = openFacilitator(shaky);
  bench.settler.instead = async () => {
    fails = true;
  };
  await assert.rejects(settle(bench, body), { code: "LEDGER_UNAVAILABLE" });
  const key = { network: NETWORK, asset: ASSET.toLowerCase() as Address, from, nonce };
  assert.equal((await ledger().find(key))?.state, "released");
});

test("attack: copies of one pending payment leave places for the settlements of others, and to wait", async () => {
  const bench = openFacilitator(ledger(), { maxCopies: 8 });
  await using server = await createFacilitatorServer(
    {
      host: "127.0.0.1",
      port: 0,
      trustedProxies: [],
      maxBodyBytes: 65_536,
      maxConcurrentRequests: 32,
      maxConcurrentPerClient: 32,
    },
    { facilitator: bench.facilitator, log: silentLog },
  );
  const ask = async (body: string): Promise<SettleResponse> => {
    const init = { method: "POST", body, headers: { "content-type": "application/json", "idempotency-key": KEY } };
    return (await (await fetch(`${server.url}/settle`, init)).json()) as SettleResponse;
  };
  const nonce = newNonce();
  bench.settler.held.add(nonce);
  const from = newPayer();
  const pending = settleBody(from, nonce, MERCHANTS[0]);
  const first = ask(pending);
  const key = { network: NETWORK, asset: ASSET.toLowerCase() as Address, from, nonce };
  await eventually("it is submitted", async () => (await ledger().find(key))?.state === "submitted");
  const record = await ledger().find(key);
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
  assert.equal(reasons.filter((reason) => reason === "settlement_pending").length, 62, "pending, and never refused");
  assert.equal(reasons.filter((reason) => reason === "success").length, 2, "a quarter waits");
});

test("a payment that costs more than it brings is refused at /verify and at /settle, unclaimed, and good later", async () => {
  const bench = openFacilitator(ledger());
  await using server = await createFacilitatorServer(
    { host: "127.0.0.1", port: 0, trustedProxies: [], maxBodyBytes: 65_536, maxConcurrentRequests: 256 },
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
  assert.equal(
    await ledger().find({ network: NETWORK, asset: ASSET.toLowerCase() as Address, from, nonce }),
    undefined,
  );
  bench.settler.refused = undefined;
  assert.equal(await settle(bench, body), "success");
  bench.settler.refused = { ok: false, code: "SETTLEMENT_UNPROFITABLE" };
  assert.equal(await settle(bench, body), "success", "what is settled stays so");
});

test("attack: a flood of GET /ready is one question to the ledger a second, and one that hangs is not repeated", async () => {
  const clock = virtualClock();
  const questions: PromiseWithResolvers<boolean>[] = [];
  const asked: Ledger = {
    ...ledger(),
    ready() {
      const question = Promise.withResolvers<boolean>();
      questions.push(question);
      return question.promise;
    },
  };
  const { facilitator } = openFacilitator(asked, { clock });
  const flood = Array.from({ length: 1_000 }, () => facilitator.missing());
  clock.advance(60_000);
  flood.push(facilitator.missing());
  assert.equal(questions.length, 1);
  questions[0]?.resolve(true);
  for (const missing of await Promise.all(flood)) assert.deepEqual(missing, []);
  assert.deepEqual(await facilitator.missing(), []);
  assert.equal(questions.length, 1);
  clock.advance(1_000);
  const later = facilitator.missing();
  assert.equal(questions.length, 2);
  questions[1]?.resolve(false);
  assert.deepEqual(await later, ["ledger"]);
});
