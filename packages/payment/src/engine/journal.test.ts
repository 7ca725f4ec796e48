import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AppError } from "@turnpike/base";
import {
  ANSWER,
  type Bed,
  claim,
  openBed,
  PAY_TO,
  PRICE,
  stateOf,
  timeLimit,
  untilState,
} from "../../test/engine-fixtures.ts";
import { startTestServer, type TestServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import { createEngine } from "./engine.ts";

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

const silence = (unknown: boolean): AppError => new AppError("LEDGER_UNAVAILABLE", { detail: { unknown } });

/** A ledger whose first journal call goes as `first` says; the others go through. */
function disturbed(
  ledger: Ledger,
  first: (commit: () => Promise<{ batchId: bigint }>) => Promise<{ batchId: bigint }>,
): Ledger {
  let calls = 0;
  return {
    ...ledger,
    journal: (batch) => (calls++ === 0 ? first(() => ledger.journal(batch)) : ledger.journal(batch)),
  };
}

test("a journal that commits and does not answer is asked again, and is one batch", async () => {
  await using ledger = await bed.openLedger();
  const deaf = disturbed(ledger, async (commit) => {
    await commit();
    throw silence(true);
  });
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(deaf));
  const before = await bed.balance(PAY_TO);
  const payments = [await claim(ledger, await bed.payer(PRICE)), await claim(ledger, await bed.payer(PRICE))];
  for (const payment of payments) await engine.settle(payment, ANSWER, timeLimit());
  for (const payment of payments) assert.equal((await stateOf(ledger, payment)).state, "settled");
  assert.equal((await bed.balance(PAY_TO)) - before, 2n * PRICE);
});

test("a journal that neither commits nor answers is asked again", async () => {
  await using ledger = await bed.openLedger();
  const deaf = disturbed(ledger, () => Promise.reject(silence(true)));
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(deaf));
  const payment = await claim(ledger, await bed.payer(PRICE));
  await engine.settle(payment, ANSWER, timeLimit());
  assert.equal((await stateOf(ledger, payment)).state, "settled");
});

test("a journal that surely did not commit makes settle reject, and nothing is sent", async () => {
  await using ledger = await bed.openLedger();
  const refusing = disturbed(ledger, () => Promise.reject(silence(false)));
  await using engine = await createEngine(bed.options([await bed.relayerKey()]), bed.modules(refusing));
  const payer = await bed.payer(PRICE);
  const payment = await claim(ledger, payer);
  await assert.rejects(engine.settle(payment, ANSWER, timeLimit()), { code: "LEDGER_UNAVAILABLE" });
  assert.equal((await stateOf(ledger, payment)).state, "claimed");
  assert.equal(await bed.balance(payer.address), PRICE);
  await engine.settle(payment, ANSWER, timeLimit());
  assert.equal((await stateOf(ledger, payment)).state, "settled");
});

test("a caller whose time is up is not kept by a silent journal, and the claim does not stay behind", async () => {
  await using ledger = await bed.openLedger();
  const { promise: end, reject } = Promise.withResolvers<{ batchId: bigint }>();
  const patience = new AbortController();
  const hanging = disturbed(ledger, () => {
    patience.abort();
    return end;
  });
  const options = bed.options([await bed.relayerKey()], { graceMs: 20 });
  await using engine = await createEngine(options, bed.modules(hanging));
  const payment = await claim(ledger, await bed.payer(PRICE));
  await engine.settle(payment, ANSWER, patience.signal);
  assert.equal((await stateOf(ledger, payment)).state, "claimed");
  reject(silence(false));
  await untilState(ledger, payment, "released");
});
