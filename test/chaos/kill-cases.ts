import assert from "node:assert/strict";
import type { FaultPoints } from "@turnpike/base";
import { auditLedger } from "@turnpike/payment";
import { PATIENCE_MS } from "@turnpike/testkit";
import pg from "pg";
import { ledgerSums } from "../../apps/turnpike/src/wiring/ledger.ts";
import { PATIENT } from "../../apps/turnpike/test/patient.ts";
import type { Ground, GroundConfig } from "../support/network.ts";
import { type Payer, signPayment, termsOf } from "../support/payer.ts";
import { callUntilAnswered, callUntilKilled, openProxy, startChild } from "./harness.ts";
import { startService } from "./service.ts";

/** Every step between a claim and its answer at which a gateway of ours may be killed. */
export const STEPS = [
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

/** Steps of a gateway that lets a facilitator settle. */
export const REMOTE_STEPS = [
  "remote.journal.before",
  "remote.journal.after",
  "remote.ask.before",
  "remote.ask.after",
] as const;

/** The steps of {@link STEPS} that a facilitator has: it has no payment stage of its own. */
export const FACILITATOR_STEPS = STEPS.filter((at) => !at.startsWith("stage."));

/** The steps of each case that `npm test` runs: around each write to the ledger and each message to the chain. */
export const QUICK_STEPS: Readonly<Record<"gateway" | "remote" | "facilitator", readonly string[]>> = {
  gateway: [
    "ledger.claim.before",
    "ledger.claim.after",
    "ledger.journal.before",
    "ledger.journal.after",
    "engine.broadcast.before",
    "engine.broadcast.after",
    "engine.receipt.seen",
    "ledger.settled.before",
    "ledger.settled.after",
  ],
  remote: REMOTE_STEPS,
  facilitator: ["ledger.journal.after", "engine.broadcast.after"],
};

const PRICE = 5_000n;
const HELD = PRICE * 3n;
const BODY = { method: "eth_chainId", params: [] };

/** Longer than any test: nothing here may depend on a time that passes. See {@link endLeases}. */
const LEASE_SECONDS = 600;
const NETWORK = { maxTimeoutSeconds: 3_600 };
const RELAYER = { leaseSeconds: LEASE_SECONDS, reconcileIntervalMs: 1_000 };
/** Signatures are checked on the main thread: a thread for each of these gateways costs a second. */
const PAYMENT = { verifyThreads: 0, settleWaitMs: 60_000, facilitatorTimeoutMs: 70_000 };
const GATEWAY = { port: 0, metrics: { port: 0 }, upstreamTimeoutMs: 60_000 };

type Overrides = Readonly<Record<string, unknown>>;

interface Prepared {
  readonly made: GroundConfig;
  readonly overrides: Overrides;
  readonly payer: Payer;
}

const withPayment = (overrides: Overrides, change: Overrides): Overrides => ({
  ...overrides,
  payment: { ...(overrides.payment as Overrides), ...change },
});

async function prepared(ground: Ground, network: Overrides = {}): Promise<Prepared> {
  const made = ground.config({ gateway: GATEWAY }, { ...NETWORK, ...network }, RELAYER);
  const [payer] = await Promise.all([ground.fundedPayer(HELD), made.prepare()]);
  return { made, overrides: withPayment(made.overrides, PAYMENT), payer };
}

/** Ends the leases of a killed process: sets their time, which has nothing to wait for, to now. */
async function endLeases(ground: Ground, schema: string): Promise<void> {
  const client = new pg.Client({ connectionString: ground.postgres.url });
  await client.connect();
  try {
    const { rowCount } = await client.query(
      `update ${pg.escapeIdentifier(schema)}.holders set expires_at = clock_timestamp()`,
    );
    assert.equal(rowCount, 1, "one process held something");
  } finally {
    await client.end();
  }
}

/** Nothing was settled twice, nothing served is unpaid, and the ledger says what the chain says. */
async function assertSettledOnce(ground: Ground, { made, payer }: Prepared): Promise<void> {
  assert.equal(await ground.balance(made.payTo), PRICE);
  assert.equal(await ground.balance(payer.address), HELD - PRICE);
  const audit = await auditLedger(ground.postgres.url, { schema: made.schema, connectTimeoutMs: PATIENCE_MS });
  assert.deepEqual(audit.differences, []);
  const [sums] = await ledgerSums(made.config, "gateway", PATIENT);
  const states = Object.entries(sums?.states ?? {}).filter(([, { count }]) => count > 0);
  assert.deepEqual(states, [["settled", { count: 1, value: PRICE }]]);
}

/** Kills a gateway at a step; the next one finishes the purchase. */
async function gatewayKilled(ground: Ground, it: Prepared, overrides: Overrides, at: string): Promise<void> {
  await using doomed = await startChild({ role: "gateway", overrides, killAt: at });
  const header = await signPayment(it.payer, await termsOf(`${doomed.url}/v1/eth`));
  await callUntilKilled(doomed, BODY, header);
  await endLeases(ground, it.made.schema);
  await using next = await startService({ role: "gateway", overrides });
  const { answer } = await callUntilAnswered(`${next.url}/v1/eth`, BODY, header);
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.json.data.result, "0x14a34");
  assert.equal(answer.receipt?.success, true);
  const again = await callUntilAnswered(`${next.url}/v1/eth`, BODY, header);
  assert.equal(again.answer.text, answer.text);
  await assertSettledOnce(ground, it);
}

/** A gateway that settles by itself is killed. */
export async function localGatewayKilled(ground: Ground, at: string): Promise<void> {
  const it = await prepared(ground);
  await gatewayKilled(ground, it, it.overrides, at);
}

/** A gateway that lets a facilitator settle is killed. */
export async function remoteGatewayKilled(ground: Ground, at: string): Promise<void> {
  const it = await prepared(ground);
  await using facilitator = await startService({ role: "facilitator", overrides: it.overrides });
  const remote = withPayment(it.overrides, { mode: "remote", facilitatorUrl: facilitator.url });
  await gatewayKilled(ground, it, remote, at);
}

/** The facilitator is killed while a gateway waits for it. */
export async function facilitatorKilled(ground: Ground, at: string): Promise<void> {
  const it = await prepared(ground);
  const { overrides, made } = it;
  await using doomed = await startChild({ role: "facilitator", overrides, killAt: at });
  // The next one is behind the same address, as its supervisor would have it.
  await using proxy = await openProxy(Number(new URL(doomed.url).port));
  const remote = withPayment(overrides, { mode: "remote", facilitatorUrl: proxy.url });
  await using gateway = await startService({ role: "gateway", overrides: remote });
  const header = await signPayment(it.payer, await termsOf(`${gateway.url}/v1/eth`));
  const bought = callUntilAnswered(`${gateway.url}/v1/eth`, BODY, header);
  assert.equal(await firstOf(doomed.exited, bought), "SIGKILL");
  await endLeases(ground, `${made.schema}_facilitator`);
  await using next = await startService({ role: "facilitator", overrides });
  proxy.restore(Number(new URL(next.url).port));
  const { answer } = await bought;
  assert.equal(answer.status, 200, answer.text);
  await assertSettledOnce(ground, it);
}

/** The gateway's connections to the chain break at a step, and new ones are refused for a while. */
export async function chainCut(ground: Ground, at: string): Promise<void> {
  await using proxy = await openProxy(ground.anvil.port);
  const it = await prepared(ground, { rpcUrls: [proxy.url] });
  const reached = Promise.withResolvers<void>();
  const resumed = Promise.withResolvers<void>();
  let isArmed = false;
  const faults: FaultPoints = {
    reach(name) {
      if (!isArmed || name !== at) return undefined;
      isArmed = false;
      reached.resolve();
      return resumed.promise;
    },
  };
  await using gateway = await startService({ role: "gateway", overrides: it.overrides }, faults);
  // As with a killed one: what is tested is a request, not the start.
  isArmed = true;
  const header = await signPayment(it.payer, await termsOf(`${gateway.url}/v1/eth`));
  const bought = callUntilAnswered(`${gateway.url}/v1/eth`, BODY, header);
  await firstOf(reached.promise, bought);
  proxy.cut();
  const refused = proxy.refused(REFUSALS);
  resumed.resolve();
  await refused;
  proxy.restore();
  const { answer, statuses } = await bought;
  assert.equal(answer.status, 200, answer.text);
  assert.ok(!statuses.includes(402), `a 402 on the way makes a buyer pay twice: ${statuses.join()}`);
  await assertSettledOnce(ground, it);
}

/** Connections to the chain that are refused before it can be reached again. */
const REFUSALS = 3;

/** Waits for what must come before the end of a purchase; when it does not, or that fails, so does the test. */
function firstOf<T>(awaited: Promise<T>, bought: Promise<unknown>): Promise<T> {
  return Promise.race([
    awaited,
    bought.then((): never => assert.fail("it was bought before the fault point was reached")),
  ]);
}
