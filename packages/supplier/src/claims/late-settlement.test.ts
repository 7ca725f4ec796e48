import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { AppError, type Metrics, noMetrics } from "@turnpike/base";
import { moduleAddress } from "@turnpike/crypto";
import { authz, createMessage, packAny, shared } from "@turnpike/proto";
import type { SessionHeader } from "@turnpike/protocol";
import { chainParty } from "@turnpike/testkit/chain";
import { SupplierRig, type TestSupplierOptions } from "../../test/supplier-rig.ts";

const NO_PROOFS = {
  params: {
    proof: { proof_request_probability: 0, proof_requirement_threshold: { denom: "upokt", amount: "1000000000" } },
  },
};

/** Windows as short as can be, from the next session on. */
const SHORT = {
  numBlocksPerSession: 3n,
  claimWindowOpenOffsetBlocks: 1n,
  claimWindowCloseOffsetBlocks: 1n,
  proofWindowOpenOffsetBlocks: 0n,
  proofWindowCloseOffsetBlocks: 1n,
};
// The session to 6 is settled at 22. The one from 7 to 9 is due at 13, and waits for it.
const [OWN_HEIGHT, SETTLED_AT] = [13n, 22n];

async function shortenWindows(rig: SupplierRig): Promise<void> {
  const { client, queries } = rig.running;
  const params = await queries.sharedParamsAt(1n, { fresh: true });
  assert.ok(params.ok);
  const update = createMessage(shared.MsgUpdateParamsSchema, {
    authority: moduleAddress("gov"),
    params: { ...params.value, ...SHORT },
  });
  const exec = createMessage(authz.MsgExecSchema, {
    grantee: chainParty("dao").address,
    msgs: [packAny(shared.MsgUpdateParamsSchema, update)],
  });
  const signed = await client.sign(chainParty("dao"), [packAny(authz.MsgExecSchema, exec)]);
  const { code, log } = await client.broadcast(signed);
  assert.equal(code, 0, log);
}

/** A chain with relays of a session that is settled nine blocks after its own height. */
async function servedBeforeLateSettlement(
  options: TestSupplierOptions = {},
): Promise<{ readonly rig: SupplierRig; readonly late: SessionHeader }> {
  await using stack = new AsyncDisposableStack();
  const rig = stack.use(await SupplierRig.start(NO_PROOFS, options));
  await rig.serve(1);
  await shortenWindows(rig);
  await rig.reach(7n);
  const late = await rig.serve(3);
  const session = rig.running.store.session(rig.running.operator, late.sessionId) ?? assert.fail();
  assert.equal(session.head.terms.windows.settlementHeight, OWN_HEIGHT);
  stack.move();
  return { rig, late };
}

function assertPaid(rig: SupplierRig, header: SessionHeader): void {
  const { outcome } = rig.stateOf(header);
  assert.ok(outcome?.kind === "settled", outcome?.kind === "lost" ? outcome.text : "no outcome");
  assert.deepEqual([outcome.settledUpokt, outcome.heightBlocks], [12_600n, SETTLED_AT]);
}

const numbers = (first: bigint, last: bigint): bigint[] =>
  Array.from({ length: Number(last - first) + 1 }, (_, i) => first + BigInt(i));

interface CountedResults {
  /** No block has events. */
  readonly areEmpty?: boolean;
  /** The node fails for a later block. */
  readonly lastBlocks?: bigint;
}

/** Counts queries for the events of blocks. */
function countedResults(rig: SupplierRig, { areEmpty = false, lastBlocks = 1_000n }: CountedResults = {}) {
  const { client } = rig.running;
  const call = client.call.bind(client);
  const heights: bigint[] = [];
  const countsAt = new Map<bigint, number>();
  client.call = async (method, params, ...options) => {
    if (method !== "block_results") return call(method, params, ...options);
    const height = BigInt(String(params.height));
    heights.push(height);
    if (height > lastBlocks) return { ok: false, error: { code: -32_603, message: "busy", data: "" } };
    const newest = rig.running.head.newest?.heightBlocks ?? 0n;
    countsAt.set(newest, (countsAt.get(newest) ?? 0) + 1);
    return areEmpty ? { ok: true, result: { finalize_block_events: [] } } : call(method, params, ...options);
  };
  return () => ({
    sorted: heights.toSorted((a, b) => Number(a - b)),
    maxAtOnce: Math.max(0, ...countsAt.values()),
  });
}

/** Makes the node's list of claims one that is cut before the first one. */
function withoutClaims(rig: SupplierRig): void {
  const { queries } = rig.running;
  const claims = queries.claims.bind(queries);
  queries.claims = async (...parameters) => {
    const answer = await claims(...parameters);
    return answer.ok ? { ok: true, value: { ...answer.value, claims: [], isWhole: false } } : answer;
  };
}

/** Sessions of so many applications, shortly before their settlement, of a node whose lists have no claims, and blocks no events. */
async function servedTogether(count: number) {
  const names = Array.from({ length: count }, (_, i) => `app${i}`);
  const applications = Object.fromEntries(names.map((name) => [name, { service: "eth", gateways: ["gateway"] }]));
  await using stack = new AsyncDisposableStack();
  const rig = stack.use(await SupplierRig.start({ ...NO_PROOFS, applications }));
  for (const name of names) await rig.serve(1, name);
  await rig.reach(21n);
  withoutClaims(rig);
  countedResults(rig, { areEmpty: true });
  const sessions = rig.running.store.sessions(rig.running.operator);
  stack.move();
  return { rig, sessions, outcomes: () => sessions.map(({ state }) => state.outcome?.kind) };
}

suite("a session that is settled after its own height", () => {
  test("is paid, and reported as paid once its block is there", async () => {
    const delays: number[] = [];
    const metrics: Metrics = {
      ...noMetrics,
      set: ({ name }, value) => void (name === "turnpike_supplier_settlement_delay_blocks" && delays.push(value)),
    };
    const { rig, late } = await servedBeforeLateSettlement({ metrics });
    await using _ = rig;
    for (let height = 8n; height < SETTLED_AT; height++) {
      await rig.reach(height);
      assert.equal(rig.stateOf(late).outcome, undefined, `at ${height}`);
    }
    assert.equal(delays.at(-1), 8);
    await rig.reach(SETTLED_AT);
    assertPaid(rig, late);
    assert.equal(delays.at(-1), 0);
  });

  test("is paid when the supplier restarts after every block", async () => {
    const { rig, late } = await servedBeforeLateSettlement();
    await using _ = rig;
    while (rig.chain.heightBlocks < SETTLED_AT) {
      await rig.block();
      await rig.stopSupplier();
      await rig.startSupplier();
      await rig.seen(rig.chain.heightBlocks);
    }
    assertPaid(rig, late);
  });

  test("is paid when the node is away for its own height and its settlement, and each block is read once", async () => {
    const { rig, late } = await servedBeforeLateSettlement();
    await using _ = rig;
    await rig.reach(12n);
    const readBlocks = countedResults(rig);
    await rig.dead(() => rig.chain.reach(80n));
    await rig.seen(80n);
    assertPaid(rig, late);
    assert.deepEqual(readBlocks().sorted, numbers(13n, 22n));
  });

  test("reads no events while its claim is on the chain", async () => {
    const { rig, late } = await servedBeforeLateSettlement();
    await using _ = rig;
    const readBlocks = countedResults(rig);
    await rig.reach(SETTLED_AT);
    assertPaid(rig, late);
    assert.deepEqual(readBlocks().sorted, [SETTLED_AT]);
  });

  test("continues after a restart with the block after the one that was read last", async () => {
    const { rig } = await servedBeforeLateSettlement();
    await using _ = rig;
    await rig.reach(12n);
    countedResults(rig, { areEmpty: true, lastBlocks: 40n });
    await rig.dead(() => rig.chain.reach(60n));
    await rig.reach(65n);
    await rig.stopSupplier();
    await rig.startSupplier();
    const readBlocks = countedResults(rig, { areEmpty: true });
    await rig.reach(68n);
    assert.deepEqual(readBlocks().sorted.slice(0, 3), [41n, 42n, 43n]);
  });

  test("is paid when the list of claims does not have its claim", async () => {
    const { rig, late } = await servedBeforeLateSettlement();
    await using _ = rig;
    await rig.reach(12n);
    withoutClaims(rig);
    await rig.reach(SETTLED_AT);
    assertPaid(rig, late);
  });

  test("is unknown only once its claim is gone, when the node does not keep events", async () => {
    const { rig, late } = await servedBeforeLateSettlement();
    await using _ = rig;
    const { client } = rig.running;
    const call = client.call.bind(client);
    client.call = async (method, ...parameters) =>
      method === "block_results"
        ? { ok: false, error: { code: -32_603, message: "node is not persisting finalize block responses", data: "" } }
        : call(method, ...parameters);
    await rig.reach(SETTLED_AT + 3n);
    assert.equal(rig.stateOf(late).outcome, undefined);
    await rig.reach(SETTLED_AT + 20n);
    const { outcome } = rig.stateOf(late);
    assert.ok(outcome?.kind === "lost");
    assert.equal(outcome.why, "settlement-unknown");
  });

  test("reads a maximum of blocks after each new one, when no event is about its claim", async () => {
    const { rig, late } = await servedBeforeLateSettlement();
    await using _ = rig;
    await rig.reach(12n);
    const readBlocks = countedResults(rig, { areEmpty: true });
    await rig.dead(() => rig.chain.reach(100n));
    await rig.seen(100n);
    await rig.reach(101n);
    assert.equal(rig.stateOf(late).outcome, undefined);
    await rig.reach(106n);
    const { outcome } = rig.stateOf(late);
    assert.ok(outcome?.kind === "lost");
    assert.equal(outcome.why, "settlement-unknown");
    const { sorted, maxAtOnce } = readBlocks();
    assert.deepEqual(sorted.slice(0, 88), numbers(13n, 100n));
    assert.equal(maxAtOnce, 32);
  });

  test("has an end when the claim of a session before it cannot be queried", async () => {
    const { rig, sessions, outcomes } = await servedTogether(3);
    await using _ = rig;
    const { queries } = rig.running;
    const sessionClaim = queries.sessionClaim.bind(queries);
    queries.sessionClaim = (operator, sessionId, signal) =>
      sessionId === sessions[0]?.head.header.sessionId
        ? Promise.resolve({ ok: false, fault: "refused", text: "no answer" })
        : sessionClaim(operator, sessionId, signal);
    await rig.reach(26n);
    assert.deepEqual(outcomes(), [undefined, "lost", "lost"]);
  });

  test("a node that answers no query of a claim is asked a few times after each block", async () => {
    const { rig } = await servedTogether(8);
    await using _ = rig;
    const { queries } = rig.running;
    const queried: string[] = [];
    queries.sessionClaim = async (_, sessionId) => {
      queried.push(sessionId);
      return { ok: false, fault: "unreachable", text: "no answer" };
    };
    await rig.reach(24n);
    assert.equal(queried.length, 9);
    // The next block goes on with the others.
    assert.equal(new Set(queried).size, 8);
  });

  test("is unknown after many tries once its claim is gone, when the results of its block are never read", async () => {
    await using rig = await SupplierRig.start(NO_PROOFS);
    const header = await rig.serve(3);
    const { client } = rig.running;
    const call = client.call.bind(client);
    const askedAt: bigint[] = [];
    client.call = async (method, ...parameters) => {
      if (method !== "block_results" || parameters[0].height !== "22") return call(method, ...parameters);
      askedAt.push(rig.chain.heightBlocks);
      throw new AppError("CHAIN_UNREACHABLE");
    };
    await rig.reach(300n);
    assert.equal(rig.stateOf(header).outcome, undefined);
    await rig.reach(400n);
    const { outcome } = rig.stateOf(header);
    assert.ok(outcome?.kind === "lost");
    assert.equal(outcome.why, "settlement-unknown");
    assert.equal(askedAt.length, 24);
  });
});
