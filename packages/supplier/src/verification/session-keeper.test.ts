import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { noMetrics, silentLog, systemClock } from "@turnpike/base";
import type { BlockMark, ChainHead } from "@turnpike/chain-client";
import { base, createMessage } from "@turnpike/proto";
import { decodeRelayRequest, encodeRelayRequest, type SessionHeader } from "@turnpike/protocol";
import { eventually } from "@turnpike/testkit";
import { headerOf, readRecording, recordedQueries } from "../../test/recorded.ts";
import type { ServedBefore } from "../evidence/types.ts";
import { BudgetReader } from "../metering/budget-reader.ts";
import type { RelayCrypto } from "../serving/relay-crypto.ts";
import { RelayHandler } from "../serving/relay-handler.ts";
import { SessionKeeper } from "./session-keeper.ts";

const RECORDING = readRecording("e2e-1");
const [TEMPLATE = assert.fail()] = RECORDING.sessions;
const { application, suppliers } = TEMPLATE;
const OPERATOR = suppliers[0]?.operatorAddress ?? assert.fail();
const NONE: ServedBefore = { relays: 0n, requests: [] };

/** The n-th session of ten blocks of an application. */
function headerAt(number: number, applicationAddress = application?.address ?? ""): SessionHeader {
  const start = BigInt(1 + 10 * number);
  return {
    ...headerOf(TEMPLATE),
    applicationAddress,
    sessionId: `${applicationAddress} ${number}`,
    sessionStartBlockHeight: start,
    sessionEndBlockHeight: start + 9n,
  };
}

const markAt = (heightBlocks: bigint): BlockMark => ({ heightBlocks, hash: "", timeNanos: 0n }) as unknown as BlockMark;

/** A keeper over a chain on which every application has a session at every height, and the questions that it asked. */
function keeper(
  maxSessions: number,
  servedBefore: (id: string) => Promise<ServedBefore> = async () => NONE,
  waitFor: ChainHead["waitFor"] = async () => undefined,
  limit?: BudgetReader["limit"],
) {
  const at = { heightBlocks: 5n };
  const asked = { sessions: 0 };
  const queries = recordedQueries(RECORDING);
  queries.session = async (address, _, heightBlocks) => {
    asked.sessions++;
    const header = headerAt(Number((heightBlocks - 1n) / 10n), address);
    return { ok: true, value: { ...TEMPLATE, header: { ...(TEMPLATE.header ?? assert.fail()), ...header } } };
  };
  const budgets = new BudgetReader(
    { inflationMillionths: 0n, unsettledPercent: 10 },
    { queries, workOf: async () => [] },
  );
  if (limit !== undefined) budgets.limit = limit;
  const sessions = new SessionKeeper(
    { maxSessions, maxSeenRequests: 100 },
    {
      queries,
      budgets,
      head: {
        get newest() {
          return markAt(at.heightBlocks);
        },
        waitFor: (heightBlocks) => waitFor(heightBlocks),
      },
      clock: systemClock,
      servedBefore: (_, id) => servedBefore(id),
    },
  );
  return { sessions, at, asked, queries };
}

suite("the sessions that a supplier serves", () => {
  test("are asked for once, also by many relays at once, and go when their grace is over", async () => {
    const { sessions, at, asked } = keeper(100);
    for (let number = 0; number < 50; number++) {
      at.heightBlocks = BigInt(5 + 10 * number);
      const header = headerAt(number);
      const admitted = await Promise.all(Array.from({ length: 20 }, () => sessions.admit(header, OPERATOR)));
      assert.ok(admitted.every(({ ok }) => ok));
      assert.equal(asked.sessions, number + 1);
      assert.ok(sessions.size <= 2, `${sessions.size} sessions are kept`);
      const late = await sessions.admit(headerAt(number - 1), OPERATOR);
      assert.ok(number === 0 || (!late.ok && late.refusal.reason === "session_expired"));
    }
  });

  test("are judged by each relay's own header: a forged end beside an honest one refuses only itself", async () => {
    for (const forgedFirst of [true, false]) {
      const { sessions, asked } = keeper(10);
      const honest = headerAt(0);
      const forged = [
        { ...honest, sessionEndBlockHeight: honest.sessionEndBlockHeight + 1n },
        { ...honest, sessionId: "another" },
      ];
      const headers = forgedFirst ? [...forged, honest, honest] : [honest, honest, ...forged];
      const admitted = await Promise.all(headers.map((header) => sessions.admit(header, OPERATOR)));
      const reasons = admitted.map((admission) => (admission.ok ? "" : admission.refusal.reason));
      const wrong = ["session_mismatch", "session_mismatch"];
      assert.deepEqual(reasons, forgedFirst ? [...wrong, "", ""] : ["", "", ...wrong]);
      assert.ok(asked.sessions <= 3, `the chain was asked ${asked.sessions} times`);
    }
  });

  test("are bounded: one that serves stays when strangers name others", async () => {
    const { sessions, asked } = keeper(10);
    const served = await sessions.admit(headerAt(0), OPERATOR);
    assert.ok(served.ok && served.session.seen.add("request"));
    assert.equal(await sessions.acquireBudget(served.session), undefined);
    for (let other = 0; other < 100; other++) {
      assert.ok((await sessions.admit(headerAt(0, `pokt1other${other}`), OPERATOR)).ok);
      assert.ok(sessions.size <= 10);
    }
    const before = asked.sessions;
    const again = await sessions.admit(headerAt(0), OPERATOR);
    assert.ok(again.ok && again.session === served.session);
    assert.equal(asked.sessions, before);
  });

  test("that served are kept until their grace is over, and where all have served a new one is refused", async () => {
    const { sessions, at } = keeper(3);
    const admit = async (application: string) => {
      const admitted = await sessions.admit(headerAt(0, application), OPERATOR);
      return admitted.ok ? admitted.session : assert.fail(admitted.refusal.reason);
    };
    const [relayed, counted, unused] = [await admit("pokt1a"), await admit("pokt1b"), await admit("pokt1c")];
    assert.equal(await sessions.acquireBudget(relayed), undefined);
    assert.ok(relayed.seen.add("request"));
    // Work that is counted by other means leaves the request alone.
    assert.ok(counted.seen.add("request"));
    const fourth = await admit("pokt1d");
    assert.deepEqual(
      [relayed, counted, unused, fourth].map((one) => sessions.isKept(one)),
      [true, true, false, true],
    );
    assert.equal(await sessions.acquireBudget(fourth), undefined);
    assert.ok(fourth.seen.add("request"));
    for (let other = 0; other < 10; other++) {
      const refused = await sessions.admit(headerAt(0, `pokt1other${other}`), OPERATOR);
      assert.ok(!refused.ok && refused.refusal.reason === "overloaded" && refused.refusal.status === 503);
    }
    assert.equal((await admit("pokt1a")).seen.add("request"), false);
    assert.equal((await admit("pokt1b")).seen.add("request"), false);
    at.heightBlocks = 25n;
    const next = await sessions.admit(headerAt(2, "pokt1other0"), OPERATOR);
    assert.ok(next.ok && sessions.size === 1);
  });

  test("that are opened at once do not exceed the bound either", async () => {
    const { promise: read, resolve } = Promise.withResolvers<ServedBefore>();
    const asked: string[] = [];
    const { sessions } = keeper(3, (id) => {
      asked.push(id);
      return read;
    });
    const admitting = Array.from({ length: 10 }, (_, i) => sessions.admit(headerAt(0, `pokt1app${i}`), OPERATOR));
    await eventually("the log of three sessions", () => asked.length === 3);
    resolve({ relays: 1n, requests: ["a"] });
    const admitted = await Promise.all(admitting);
    assert.deepEqual([admitted.filter(({ ok }) => ok).length, sessions.size, asked.length], [3, 3, 3]);
  });

  test("that are removed while a signature in them is checked serve nothing: it could be served again", async () => {
    const { sessions } = keeper(1);
    const header = headerAt(0);
    let begun = 0;
    let isFlooded = true;
    const crypto: RelayCrypto = {
      verifyRing: async () => {
        if (isFlooded) assert.ok((await sessions.admit(headerAt(0, "pokt1stranger"), OPERATOR)).ok);
        return { ok: true };
      },
      signResponse: async () => undefined,
    };
    const store = {
      begin: async () => {
        begun++;
        return { ok: true, relay: { append: async () => "mined" as const, [Symbol.dispose]: () => {} } } as const;
      },
    };
    const handler = new RelayHandler(
      { services: new Map(), maxConcurrentRelays: 1, maxRequestBytes: 1_000_000, operators: new Set([OPERATOR]) },
      { sessions, crypto, store, clock: systemClock, metrics: noMetrics, log: silentLog },
    );
    const signature = new Uint8Array(64);
    const bytes = encodeRelayRequest({
      header,
      signature,
      payload: new Uint8Array(0),
      supplierOperatorAddress: OPERATOR,
    });
    const request = decodeRelayRequest(bytes) ?? assert.fail();
    const refused = await handler.admit(request, bytes);
    assert.ok(!refused.ok && refused.refusal.reason === "overloaded");
    assert.equal(begun, 0);
    isFlooded = false;
    assert.ok((await handler.admit(request, bytes)).ok);
    const again = await handler.admit(request, bytes);
    assert.ok(!again.ok && again.refusal.reason === "replayed");
  });

  test("begin with what their log has, however long it takes to read: nothing is served beside it", async () => {
    const { promise: read, resolve } = Promise.withResolvers<ServedBefore>();
    const { sessions } = keeper(10, () => read);
    const admitting = [sessions.admit(headerAt(0), OPERATOR), sessions.admit(headerAt(0), OPERATOR)];
    resolve({ relays: 7n, requests: ["a", "b"] });
    const [one, two] = await Promise.all(admitting);
    assert.ok(one?.ok && two?.ok && one.session === two.session);
    assert.equal(one.session.budget.usedRelays, 7n);
    assert.deepEqual([one.session.seen.add("a"), one.session.seen.add("c")], [false, true]);
  });

  test("that begin with the block that gateways have first wait for it; others to come are refused at once", async () => {
    const { promise: next, resolve } = Promise.withResolvers<BlockMark>();
    const waited: bigint[] = [];
    const { sessions, at } = keeper(10, undefined, (heightBlocks) => {
      waited.push(heightBlocks);
      return next;
    });
    at.heightBlocks = 10n;
    const reasonOf = async (number: number): Promise<string> => {
      const admitted = await sessions.admit(headerAt(number), OPERATOR);
      return admitted.ok ? "" : admitted.refusal.reason;
    };
    assert.equal(await reasonOf(2), "session_ahead");
    const admitting = Promise.all([reasonOf(1), reasonOf(1)]);
    at.heightBlocks = 11n;
    resolve(markAt(11n));
    assert.deepEqual([await admitting, waited], [["", ""], [11n]]);
    // Not the last block of a session: no session begins with the next one.
    at.heightBlocks = 12n;
    const odd = { ...headerAt(1, "pokt1other"), sessionStartBlockHeight: 13n };
    const admitted = await sessions.admit(odd, OPERATOR);
    assert.ok(!admitted.ok && admitted.refusal.reason === "session_ahead");
    assert.equal(waited.length, 1);
  });

  test("that strangers name are loaded a few at a time, and those that do not fit in the queue are refused", async () => {
    const { sessions, asked, queries } = keeper(1_000);
    const { promise: answered, resolve } = Promise.withResolvers<void>();
    const session = queries.session.bind(queries);
    queries.session = async (...given) => {
      const answer = session(...given);
      await answered;
      return await answer;
    };
    const refused: string[] = [];
    const admitting = Array.from({ length: 500 }, async (_, i) => {
      const admitted = await sessions.admit(headerAt(0, `pokt1stranger${i}`), OPERATOR);
      if (!admitted.ok) refused.push(admitted.refusal.reason);
      return admitted.ok;
    });
    await eventually("refusals", () => refused.length > 0);
    assert.deepEqual([asked.sessions, refused], [64, Array.from({ length: 180 }, () => "chain_unreachable")]);
    resolve();
    const admitted = await Promise.all(admitting);
    assert.deepEqual([admitted.filter((ok) => ok).length, asked.sessions], [320, 320]);
    assert.ok((await sessions.admit(headerAt(0, "pokt1later"), OPERATOR)).ok);
  });

  test("attack: relays are refused while the chain has no valid amount of stake or spend limit, and no block longer", async () => {
    const { sessions, queries } = keeper(10);
    const session = queries.session.bind(queries);
    const coin = (amount: string) => createMessage(base.CoinSchema, { denom: "upokt", amount });
    const record = application ?? assert.fail();
    let changed = record;
    queries.session = async (...args) => {
      const answer = await session(...args);
      return answer.ok ? { ok: true, value: { ...answer.value, application: changed } } : answer;
    };
    queries.applicationState = async () => ({ ok: true, value: { application: changed, heightBlocks: 1_000n } });
    const reasonOf = async (name: string): Promise<string | undefined> => {
      const admitted = await sessions.admit(headerAt(0, name), OPERATOR);
      return admitted.ok ? (await sessions.acquireBudget(admitted.session))?.reason : admitted.refusal.reason;
    };
    for (const amount of ["much", "1.5", "-1", "0x10", " 1", "9".repeat(2_000_000)]) {
      changed = { ...record, perSessionSpendLimit: coin(amount) };
      assert.equal(await reasonOf("pokt1limit"), "chain_unreachable", amount.slice(0, 9));
      changed = { ...record, stake: coin(amount) };
      assert.equal(await reasonOf("pokt1stake"), "chain_unreachable", amount.slice(0, 9));
    }
    changed = record;
    assert.equal(await reasonOf("pokt1limit"), undefined);
    assert.equal(await reasonOf("pokt1stake"), undefined);
  });

  /** A stake of ten relays for the sessions of an application, as far as earlier ones leave it. */
  const tenRelays: BudgetReader["limit"] = async (_, open) => {
    const counted = open.reduce((sum, { budget }) => sum + budget.limitRelays, 0n);
    return { ok: true, value: { relays: 10n - counted, isFinal: false } };
  };

  test("attack: a session that is named without a valid signature takes nothing of another one's budget", async () => {
    const { sessions, at } = keeper(10, undefined, undefined, tenRelays);
    const admit = async (number: number) => {
      const admitted = await sessions.admit(headerAt(number), OPERATOR);
      return admitted.ok ? admitted.session : assert.fail(admitted.refusal.reason);
    };
    const first = await admit(0);
    assert.equal(await sessions.acquireBudget(first), undefined);
    at.heightBlocks = 11n;
    const second = await admit(1);
    assert.deepEqual([first.budget.limitRelays, second.budget.limitRelays], [10n, 0n]);
    assert.equal(await sessions.acquireBudget(second), undefined);
    // Of the nine that are not used, the first session keeps four.
    assert.deepEqual([first.budget.limitRelays, second.budget.limitRelays], [5n, 5n]);
  });

  test("attack: a budget that is read again while the next session begins stays as the next one counted it", async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    let isHeld = false;
    const { sessions, at } = keeper(10, undefined, undefined, async (subject, earlier) => {
      if (isHeld && subject.header.sessionStartBlockHeight === 1n) {
        await gate;
        return { ok: true, value: { relays: 20n, isFinal: true } };
      }
      return await tenRelays(subject, earlier);
    });
    const admit = async (number: number) => {
      const admitted = await sessions.admit(headerAt(number), OPERATOR);
      return admitted.ok ? admitted.session : assert.fail(admitted.refusal.reason);
    };
    const first = await admit(0);
    for (let relays = 0; relays < 10; relays++) assert.equal(await sessions.acquireBudget(first), undefined);
    at.heightBlocks = 11n;
    isHeld = true;
    const late = sessions.acquireBudget(first);
    const second = await admit(1);
    assert.equal((await sessions.acquireBudget(second))?.reason, "over_limit");
    open();
    assert.equal((await late)?.reason, "over_limit");
    assert.deepEqual([first.budget.limitRelays, second.budget.limitRelays], [10n, 0n]);
  });

  test("attack: an earlier session that is named first after the next one has a budget gets none", async () => {
    const { sessions, at } = keeper(10, undefined, undefined, tenRelays);
    at.heightBlocks = 11n;
    const second = await sessions.admit(headerAt(1), OPERATOR);
    assert.ok(second.ok);
    assert.equal(await sessions.acquireBudget(second.session), undefined);
    const first = await sessions.admit(headerAt(0), OPERATOR);
    assert.ok(first.ok);
    assert.equal((await sessions.acquireBudget(first.session))?.reason, "over_limit");
  });

  test("use no budget after their grace: later sessions do not count it any more", async () => {
    const { sessions, at } = keeper(10, undefined, undefined, tenRelays);
    const admitted = await sessions.admit(headerAt(0), OPERATOR);
    assert.ok(admitted.ok);
    assert.equal(await sessions.acquireBudget(admitted.session), undefined);
    at.heightBlocks = 100n;
    assert.equal((await sessions.acquireBudget(admitted.session))?.reason, "session_expired");
  });

  test("that never begin are refused when the block does not come", async () => {
    const { sessions, at } = keeper(10);
    at.heightBlocks = 10n;
    const admitted = await sessions.admit(headerAt(1), OPERATOR);
    assert.ok(!admitted.ok);
    assert.match(admitted.refusal.error, /block height 11 is ahead of the last committed block height 10/);
  });
});
