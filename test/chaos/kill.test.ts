import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { auditBooks } from "@turnpike/payment";
import { ledgerBooks } from "../../apps/turnpike/src/wiring/ledger.ts";
import { type Ground, type GroundConfig, startGround } from "../support/network.ts";
import { signPayment, termsOf } from "../support/payer.ts";
import { insist, insistUntilGone, openDoor, startChild } from "./harness.ts";

/** Every step between a claim and its answer at which a gateway of ours may be killed. */
const STEPS = [
  "stage.claim.before",
  "ledger.claim.before",
  "ledger.claim.after",
  "stage.claim.after",
  "stage.settle.before",
  "engine.settle.queued",
  "engine.journal.before",
  "ledger.journal.before",
  "ledger.journal.after",
  "engine.journal.after",
  "engine.broadcast.before",
  "engine.broadcast.after",
  "engine.receipt.seen",
  "engine.settled.before",
  "ledger.settled.before",
  "ledger.settled.after",
  "engine.settled.after",
  "stage.settle.after",
] as const;

const REMOTE_STEPS = [
  "remote.journal.before",
  "remote.journal.after",
  "remote.ask.before",
  "remote.ask.after",
] as const;

/** The same for the facilitator, which has no payment stage of its own. */
const FACILITATOR_STEPS = STEPS.filter((at) => !at.startsWith("stage."));

const PRICE = 5_000n;
/** On a busy machine two starts take longer than the usual minute, and the payment must not expire meanwhile. */
const PATIENT = { maxTimeoutSeconds: 300 };
const BODY = { method: "eth_chainId", params: [] };

/** Waits for what must come before the end of a purchase; when it does not, or that fails, so does the test. */
async function comesBefore(awaited: Promise<void>, bought: Promise<unknown>): Promise<void> {
  await Promise.race([awaited, bought.then(() => assert.fail("it was bought before the fault point was reached"))]);
}

suite("killed at any step", { timeout: 1_200_000, concurrency: 3 }, () => {
  let ground: Ground;

  before(async () => {
    ground = await startGround();
  });
  after(() => ground[Symbol.asyncDispose]());

  /** Nothing was settled twice, nothing served is unpaid, and the books say what the chain says. */
  const assertBooks = async (made: GroundConfig, payer: string, paid: bigint, held: bigint): Promise<void> => {
    assert.equal(await ground.balance(made.payTo), paid);
    assert.equal(await ground.balance(payer), held - paid);
    const audit = await auditBooks(ground.postgres.url, { schema: made.schema });
    assert.deepEqual(audit.differences, []);
    const [book] = await ledgerBooks(made.config, "gateway");
    const states = Object.entries(book?.states ?? {}).filter(([, { count }]) => count > 0);
    assert.deepEqual(states, [["settled", { count: Number(paid / PRICE), value: paid }]]);
  };

  for (const at of STEPS) {
    test(`the gateway, at ${at}`, async () => {
      const made = ground.config({}, PATIENT);
      await made.prepare();
      const payer = await ground.fundedPayer(PRICE * 3n);
      await using doomed = await startChild({
        role: "gateway",
        overrides: made.overrides,
        fault: { at, mode: "kill" },
      });
      const header = await signPayment(payer, await termsOf(`${doomed.url}/v1/eth`));
      await insistUntilGone(doomed, BODY, header);
      await using next = await startChild({ role: "gateway", overrides: made.overrides });
      const { answer } = await insist(`${next.url}/v1/eth`, BODY, header);
      assert.equal(answer.status, 200, answer.text);
      assert.equal(answer.json.data.result, "0x14a34");
      assert.equal(answer.receipt?.success, true);
      const again = await insist(`${next.url}/v1/eth`, BODY, header);
      assert.equal(again.answer.text, answer.text);
      await assertBooks(made, payer.address, PRICE, PRICE * 3n);
    });
  }

  const withRemote = (url: string): Readonly<Record<string, unknown>> => ({ mode: "remote", facilitatorUrl: url });

  for (const at of REMOTE_STEPS) {
    test(`the gateway with a remote facilitator, at ${at}`, async () => {
      const made = ground.config({}, PATIENT);
      await made.prepare();
      await using facilitator = await startChild({ role: "facilitator", overrides: made.overrides });
      const payment = { ...(made.overrides.payment as object), ...withRemote(facilitator.url) };
      const overrides = { ...made.overrides, payment };
      const payer = await ground.fundedPayer(PRICE * 3n);
      await using doomed = await startChild({ role: "gateway", overrides, fault: { at, mode: "kill" } });
      const header = await signPayment(payer, await termsOf(`${doomed.url}/v1/eth`));
      await insistUntilGone(doomed, BODY, header);
      await using next = await startChild({ role: "gateway", overrides });
      const { answer } = await insist(`${next.url}/v1/eth`, BODY, header);
      assert.equal(answer.status, 200, answer.text);
      await assertBooks(made, payer.address, PRICE, PRICE * 3n);
    });
  }

  for (const at of FACILITATOR_STEPS) {
    test(`the facilitator, at ${at}`, async () => {
      const made = ground.config({}, PATIENT);
      await made.prepare();
      let facilitator = await startChild({
        role: "facilitator",
        overrides: made.overrides,
        fault: { at, mode: "kill" },
      });
      const payment = { ...(made.overrides.payment as object), ...withRemote(facilitator.url) };
      await using gateway = await startChild({ role: "gateway", overrides: { ...made.overrides, payment } });
      const payer = await ground.fundedPayer(PRICE * 3n);
      const header = await signPayment(payer, await termsOf(`${gateway.url}/v1/eth`));
      const bought = insist(`${gateway.url}/v1/eth`, BODY, header);
      await comesBefore(facilitator.exited, bought);
      // It is back on the same port, as its supervisor would have it.
      const port = Number(new URL(facilitator.url).port);
      const section = { ...(made.overrides.facilitator as object), port };
      facilitator = await startChild({ role: "facilitator", overrides: { ...made.overrides, facilitator: section } });
      try {
        const { answer } = await bought;
        assert.equal(answer.status, 200, answer.text);
        await assertBooks(made, payer.address, PRICE, PRICE * 3n);
      } finally {
        await facilitator.kill();
      }
    });
  }

  for (const at of STEPS) {
    test(`the chain's connection, at ${at}`, async () => {
      await using door = await openDoor(ground.anvil.port);
      const made = ground.config({}, { ...PATIENT, rpcUrls: [door.url] });
      await made.prepare();
      const payer = await ground.fundedPayer(PRICE * 3n);
      await using gateway = await startChild({
        role: "gateway",
        overrides: made.overrides,
        fault: { at, mode: "hold" },
      });
      const header = await signPayment(payer, await termsOf(`${gateway.url}/v1/eth`));
      const bought = insist(`${gateway.url}/v1/eth`, BODY, header);
      await comesBefore(gateway.reached, bought);
      door.shut();
      gateway.resume();
      setTimeout(() => door.open(), 1_000);
      const { answer, statuses } = await bought;
      assert.equal(answer.status, 200, answer.text);
      assert.ok(!statuses.includes(402), `a 402 on the way makes a buyer pay twice: ${statuses.join()}`);
      await assertBooks(made, payer.address, PRICE, PRICE * 3n);
    });
  }
});
