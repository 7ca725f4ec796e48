import assert from "node:assert/strict";
import { test } from "node:test";
import { devRpc } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import {
  ANSWER,
  type Bed,
  cancelAuthorization,
  claim,
  openOwnBed,
  PAY_TO,
  PRICE,
  stateOf,
  timeLimit,
  untilState,
} from "../../test/engine-fixtures.ts";
import { sql, testServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import type { PaymentRecord } from "../types.ts";
import { createEngine } from "./engine.ts";
import type { EngineOptions } from "./options.ts";

const server = testServer();

/** On a chain whose re-organisations reach further than the test mines. */
async function options(bed: Bed, finalityBlocks: number): Promise<EngineOptions> {
  const all = bed.options([await bed.relayerKey()]);
  return { ...all, networks: all.networks.map((net) => ({ ...net, finalityBlocks })) };
}

/** The states that a payment went through. */
const history = async (bed: Bed, { id }: PaymentRecord): Promise<readonly string[]> => {
  const text = `select e.to_state from events e join payments p on p.seq = e.payment where p.id = $1 order by e.seq`;
  return (await sql<{ to_state: string }>(bed.databaseUrl, text, [id])).map((row) => row.to_state);
};

/** Settles a payment whose payer has cancelled it, until its transaction is mined without it. */
async function settleCancelled(bed: Bed, ledger: Ledger, opts: EngineOptions) {
  const engine = await createEngine(opts, bed.modules(ledger));
  const payer = await bed.payer(PRICE);
  const payment = await claim(ledger, payer);
  await cancelAuthorization(bed, payer, payment);
  const settling = engine.settle(payment, ANSWER, timeLimit());
  settling.catch(() => undefined);
  await eventually("its transaction is mined and looked at", async () => {
    const [batch] = await sql<{ state: string }>(bed.databaseUrl, "select state from batches");
    return batch?.state === "mined";
  });
  return { engine, payment, settling };
}

test("attack: a payment that its payer cancels is not called failed while a re-organisation can undo the cancellation", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  await devRpc(bed.anvil.url, "anvil_mine", ["0x5"]);
  const opts = await options(bed, 50);
  const { engine, payment, settling } = await settleCancelled(bed, ledger, opts);
  await using _engine = engine;
  // A buyer who is asked to sign again now would pay twice: the first signature settles after all.
  await devRpc(bed.anvil.url, "anvil_rollback", [2]);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x2"]);
  await eventually("it is settled", async () => (await bed.balance(PAY_TO)) === PRICE);
  await settling;
  await untilState(ledger, payment, "settled");
  assert.deepEqual(
    (await history(bed, payment)).filter((state) => state === "failed"),
    [],
  );
});

test("a cancelled payment fails when the cancellation is final, and nothing is charged", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  const { engine, payment, settling } = await settleCancelled(bed, ledger, await options(bed, 8));
  await using _engine = engine;
  assert.equal((await stateOf(ledger, payment)).state, "signed");
  await devRpc(bed.anvil.url, "anvil_mine", ["0x8"]);
  await settling;
  const { state, reason } = await stateOf(ledger, payment);
  assert.deepEqual([state, reason], ["failed", "PAYMENT_NONCE_USED"]);
  assert.equal(await bed.balance(PAY_TO), 0n);
});

test("attack: a settled payment that a re-organisation took and its payer cancelled is disputed only when that is final", async () => {
  await using bed = await openOwnBed(server());
  await using ledger = await bed.openLedger();
  await devRpc(bed.anvil.url, "anvil_mine", ["0x5"]);
  await using engine = await createEngine(await options(bed, 20), bed.modules(ledger));
  const payer = await bed.payer(PRICE);
  const payment = await claim(ledger, payer);
  await engine.settle(payment, ANSWER, timeLimit());
  await devRpc(bed.anvil.url, "anvil_rollback", [1]);
  await cancelAuthorization(bed, payer, payment);
  await devRpc(bed.anvil.url, "anvil_mine", ["0x3"]);
  // The next payment is settled by the same engine: it has looked at the chain since.
  const next = await claim(ledger, await bed.payer(PRICE));
  await engine.settle(next, ANSWER, timeLimit());
  assert.deepEqual(
    (await history(bed, payment)).filter((state) => state === "disputed"),
    [],
  );
  await devRpc(bed.anvil.url, "anvil_mine", ["0x14"]);
  assert.equal((await untilState(ledger, payment, "disputed")).reason, "PAYMENT_NONCE_USED");
});
