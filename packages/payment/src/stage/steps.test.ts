import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type Address,
  AppError,
  type NetworkId,
  noFaults,
  noMetrics,
  type RequestId,
  type ServiceId,
  type SettlementId,
  silentLog,
  utf8ToBytes,
} from "@turnpike/base";
import { mintParsed, type ParsedRequest } from "@turnpike/protocol";
import { virtualClock } from "@turnpike/testkit";
import type { ClaimResult, Ledger } from "../ledger-types.ts";
import { newRecord } from "../record.ts";
import type { Settler } from "../settler.ts";
import type {
  DecodedPayment,
  Evidence,
  Outcome,
  PaymentOption,
  PaymentRecord,
  PaymentRefusal,
  VerifiedPayment,
  Verifier,
} from "../types.ts";
import { UnpaidLimit } from "../unpaid-limit.ts";
import { type ActiveClaim, ClaimStep } from "./claim.ts";
import { CopyLimit, JoinedPayments, joinName } from "./join.ts";
import type { PaymentStageOptions, StageParts } from "./options.ts";
import { OutcomeResolver } from "./resolve.ts";
import { SettleStep } from "./settle.ts";
import type { Admission, EarlierAdmission } from "./types.ts";
import { VerifyStep } from "./verify.ts";

const NETWORK = "eip155:84532" as NetworkId;
const OPTION: PaymentOption = {
  scheme: "exact",
  network: NETWORK,
  amount: "5000",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  maxTimeoutSeconds: 600,
  extra: { name: "USDC", version: "2" },
};
const CHAIN_SECONDS = 1_000;
const OPTIONS: PaymentStageOptions = {
  upstreamTimeoutMs: 20_000,
  settleMarginMs: 10_000,
  settleWaitMs: 60_000,
  retryAfterSeconds: 2,
  pollMs: 1,
  maxWaitingCopies: 4,
  keylessAnswerMs: 30_000,
  networks: [{ ...OPTION, name: "USDC", version: "2", decimals: 6 }],
  unpaidPerPayer: () => ({ burst: 2, perSecond: 1 }),
};
const ANSWER = { contentType: "application/json", body: utf8ToBytes('"sold"') };
const EVIDENCE: Evidence = { transaction: "0x01", blockNumber: 2n, blockHash: "0x02", logIndex: 0 };
const HASH = new Uint8Array(32).fill(1);
const REQUEST: ParsedRequest = mintParsed({
  requestId: "r" as RequestId,
  client: "c",
  serviceId: "eth" as ServiceId,
  call: {
    rpcType: "json_rpc",
    operation: "eth_blockNumber",
    verb: "POST",
    path: "",
    body: utf8ToBytes("a"),
    id: "1",
    params: [],
  },
  requestHash: HASH,
});
const PAYER: Address = "0x00000000000000000000000000000000000000aa";

function paymentOf(validBefore = CHAIN_SECONDS + 600): DecodedPayment {
  return {
    accepted: JSON.parse(JSON.stringify(OPTION)) as DecodedPayment["accepted"],
    option: OPTION,
    authorization: {
      from: PAYER,
      to: OPTION.payTo,
      value: 5_000n,
      validAfter: 0n,
      validBefore: BigInt(validBefore),
      nonce: `0x${"7".repeat(64)}`,
    },
    signature: new Uint8Array(65),
    payloadDigest: new Uint8Array(32).fill(3),
    identifier: undefined,
    hasAnswerKey: false,
  };
}

const verifiedOf = (payment: DecodedPayment): VerifiedPayment & { readonly ok: true } => ({
  ok: true,
  payment,
  kind: "eoa",
  balance: 1_000_000n,
  blockNumber: 1n,
  chainTimeSeconds: CHAIN_SECONDS,
});

/** A payment as the ledger has it; `over` says how it stands. */
function recordOf(over: Partial<PaymentRecord> = {}): PaymentRecord {
  const purpose = { serviceId: REQUEST.serviceId, requestHash: HASH, identifier: undefined };
  return { ...newRecord(verifiedOf(paymentOf()), purpose, 0), id: "stl_1" as SettlementId, ...over };
}

/** The steps over a ledger, a verifier and a settler that do what the test says, and note what they were asked. */
function rig(over: Partial<Ledger> = {}, settling: Partial<Settler> = {}) {
  const asked: string[] = [];
  const clock = virtualClock(1_000_000);
  const stopping = new AbortController();
  const bend: { free?: PaymentRefusal; signer: "payer" | "unknown"; chain?: PaymentRefusal | AppError } = {
    signer: "payer",
  };
  const verifier: Verifier = {
    async checkFree() {
      asked.push("free");
      return bend.free ?? { ok: true, signer: bend.signer };
    },
    async checkChain(payment) {
      asked.push("chain");
      if (bend.chain instanceof AppError) throw bend.chain;
      return bend.chain ?? verifiedOf(payment);
    },
    readFunds: async (_account, nonces) => ({ balance: 1_000_000n, used: nonces.map(() => false) }),
  };
  const noted =
    <Args extends unknown[], Result>(name: string, work: (...args: Args) => Promise<Result>) =>
    (...args: Args): Promise<Result> => {
      asked.push(name);
      return work(...args);
    };
  const ledger = {
    find: noted("find", over.find ?? (async () => undefined)),
    findByIdentifier: noted("findByIdentifier", over.findByIdentifier ?? (async () => undefined)),
    claim: noted("claim", over.claim ?? (async (): Promise<ClaimResult> => ({ kind: "claimed", id: recordOf().id }))),
    inFlight: over.inFlight ?? (async () => []),
    newest: noted("newest", over.newest ?? (async () => undefined)),
    answer: noted("answer", over.answer ?? (async () => undefined)),
    release: noted("release", over.release ?? (async () => true)),
  } as Partial<Ledger> as Ledger;
  const settler: Settler = {
    networks: [NETWORK],
    reserve: settling.reserve ?? (async () => undefined),
    settle: settling.settle ?? (async () => EVIDENCE),
    wait: settling.wait ?? (async () => undefined),
    missing: settling.missing ?? (() => []),
    ...(settling.refusal === undefined ? {} : { refusal: settling.refusal }),
    [Symbol.asyncDispose]: async () => undefined,
  };
  const parts: StageParts = {
    verifier,
    ledger,
    settlers: new Map([[NETWORK, settler]]),
    payers: new UnpaidLimit(OPTIONS.unpaidPerPayer, { clock }),
    clock,
    log: silentLog,
    metrics: noMetrics,
    faults: noFaults,
    stopping: stopping.signal,
  };
  const active = new Map<SettlementId, ActiveClaim>();
  const resolver = new OutcomeResolver(OPTIONS, { ...parts, copies: new CopyLimit(OPTIONS.maxWaitingCopies) });
  const verifying = new VerifyStep(OPTIONS, parts);
  const claiming = new ClaimStep(OPTIONS, { ...parts, verifying, resolver, active });
  const settle = new SettleStep(OPTIONS, { ...parts, resolver });
  const admit = (
    payment = paymentOf(),
    refusal?: PaymentRefusal,
    signal = new AbortController().signal,
  ): Promise<Admission> =>
    claiming.admit(
      { request: REQUEST, payment, signal, finish: () => undefined },
      { options: [OPTION], refusal: () => refusal },
    );
  return { asked, bend, clock, stopping, parts, active, resolver, verifying, settle, settler, admit };
}

const codeOf = (admission: Admission): string => (admission.kind === "refused" ? admission.code : admission.kind);
const unavailable = (): Promise<never> => Promise.reject(new AppError("LEDGER_UNAVAILABLE"));

suite("join", () => {
  test("copies wait for the first one's outcome, and never become a run of their own", async () => {
    const joined = new JoinedPayments(new CopyLimit(10));
    const name = joinName(paymentOf(), HASH);
    const { promise, resolve } = Promise.withResolvers<EarlierAdmission>();
    assert.equal(joined.join(name), undefined, "nothing is under way");
    joined.begin(name, promise);
    const copies = [joined.join(name), joined.join(name)];
    joined.end(name);
    assert.equal(joined.join(name), undefined, "what comes later asks the ledger");
    resolve({ kind: "outcome", outcome: { kind: "released", code: "DEADLINE_EXCEEDED" } });
    for (const copy of copies) assert.equal((await copy)?.kind, "outcome");
  });

  test("one payment for two requests has two names", () => {
    assert.notEqual(joinName(paymentOf(), HASH), joinName(paymentOf(), new Uint8Array(32)));
  });

  test("64 copies of one payment wait, and no more than may over all payments; a failure frees their places", async () => {
    const { promise, reject } = Promise.withResolvers<EarlierAdmission>();
    const joined = new JoinedPayments(new CopyLimit(100));
    joined.begin("a", promise);
    const copies = Array.from({ length: 65 }, () => joined.join("a"));
    const full = { kind: "refused", ok: false, code: "PAYMENT_IN_PROGRESS" };
    assert.deepEqual(await copies[64], full);
    joined.begin("b", promise);
    const more = Array.from({ length: 37 }, () => joined.join("b"));
    assert.deepEqual(await more[36], full, "100 wait");
    reject(new AppError("LEDGER_UNAVAILABLE"));
    const ends = await Promise.allSettled([...copies, ...more]);
    assert.equal(ends.filter(({ status }) => status === "rejected").length, 100);
    joined.begin("c", Promise.resolve({ kind: "refused", ok: false, code: "PAYMENT_EXPIRED" }));
    assert.equal(codeOf((await joined.join("c")) as Admission), "PAYMENT_EXPIRED");
  });

  test("a name that begins anew is not taken away by the end of the one before", async () => {
    const joined = new JoinedPayments(new CopyLimit(10));
    const first = Promise.withResolvers<EarlierAdmission>();
    joined.begin("a", first.promise);
    joined.end("a");
    joined.begin("a", new Promise(() => undefined));
    first.resolve({ kind: "refused", ok: false, code: "PAYMENT_EXPIRED" });
    await nextTurn();
    assert.notEqual(joined.join("a"), undefined);
  });
});

suite("verify", () => {
  test("a chain that does not answer is a refusal, and any other fault is thrown", async () => {
    const { bend, verifying } = rig();
    const { signal } = new AbortController();
    bend.chain = new AppError("SETTLEMENT_UNAVAILABLE");
    const { result } = await verifying.verify(paymentOf(), signal, true);
    assert.deepEqual(result, { ok: false, code: "SETTLEMENT_UNAVAILABLE" });
    bend.chain = new AppError("INTERNAL");
    await assert.rejects(verifying.verify(paymentOf(), signal, true), { code: "INTERNAL" });
  });

  test("a payer without tokens is refused before the chain is asked, unless the signature may be a third party's", async () => {
    const { asked, bend, parts, verifying } = rig();
    const { signal } = new AbortController();
    const name = `${NETWORK} ${PAYER}`;
    for (let times = 0; times < 2; times++) assert.ok(parts.payers.begin(name).ok);
    assert.deepEqual(await verifying.verify(paymentOf(), signal, true), {
      result: { ok: false, code: "PAYMENT_RATE_LIMITED", retryAfterSeconds: 1 },
      isPayer: true,
    });
    assert.deepEqual(asked.splice(0), ["free"]);
    assert.equal((await verifying.verify(paymentOf(), signal, false)).result.ok, true, "verified for it before");
    bend.signer = "unknown";
    assert.equal((await verifying.verify(paymentOf(), signal, true)).result.ok, true);
  });
});

suite("claim", () => {
  test("what may not be sold is neither claimed nor served", async () => {
    const refused: PaymentRefusal = { ok: false, code: "PAYMENT_SIGNATURE_INVALID" };
    const cases: readonly (readonly [
      string,
      string,
      () => ReturnType<typeof rig>,
      DecodedPayment?,
      PaymentRefusal?,
    ])[] = [
      ["no supplier", "SERVICE_UNAVAILABLE", rig, paymentOf(), { ok: false, code: "SERVICE_UNAVAILABLE" }],
      ["free check", refused.code, () => withBend({ free: refused })],
      ["chain", "PAYMENT_NONCE_USED", () => withBend({ chain: { ok: false, code: "PAYMENT_NONCE_USED" } })],
      ["no chain", "SETTLEMENT_UNAVAILABLE", () => withBend({ chain: new AppError("SETTLEMENT_UNAVAILABLE") })],
      ["no settler", "SETTLEMENT_UNAVAILABLE", () => rig({}, { missing: () => ["relayer key"] })],
      ["too late", "PAYMENT_EXPIRED", rig, paymentOf(CHAIN_SECONDS + 10)],
      [
        "cost",
        "SETTLEMENT_UNPROFITABLE",
        () => rig({}, { refusal: () => ({ ok: false, code: "SETTLEMENT_UNPROFITABLE" }) }),
      ],
    ];
    for (const [name, code, make, payment, refusal] of cases) {
      const { admit, asked, active } = make();
      assert.equal(codeOf(await admit(payment, refusal)), code, name);
      assert.ok(!asked.includes("claim"), name);
      assert.equal(active.size, 0, name);
    }
  });

  test("only what the ledger has claimed is served, by its deadline", async () => {
    const { admit, active, clock } = rig();
    const admission = await admit(paymentOf(CHAIN_SECONDS + 15));
    assert.ok(admission.kind === "paid");
    assert.equal(admission.paid.settlementId, "stl_1");
    assert.equal(admission.paid.deadlineMs, clock.monotonicMs() + 5_000, "its window less the margin to settle");
    assert.equal(active.get(admission.paid.settlementId)?.record.id, "stl_1");
    const other = { payloadDigest: new Uint8Array(32).fill(9) };
    const results: readonly (readonly [ClaimResult, string])[] = [
      [{ kind: "exists", record: recordOf(other) }, "PAYMENT_CONFLICT"],
      [{ kind: "exists", record: recordOf({ requestHash: new Uint8Array(32) }) }, "PAYMENT_CONFLICT"],
      [{ kind: "identifier", record: recordOf({ requestHash: new Uint8Array(32) }) }, "PAYMENT_IDENTIFIER_CONFLICT"],
      [{ kind: "exists", record: recordOf({ state: "settled" }) }, "outcome"],
      [{ kind: "insufficient", unsettled: false }, "PAYMENT_INSUFFICIENT_FUNDS"],
      [{ kind: "blocked" }, "PAYMENT_PAYER_BLOCKED"],
    ];
    for (const [claimed, code] of results) {
      const here = rig({ claim: async () => claimed, answer: async () => ANSWER });
      assert.equal(codeOf(await here.admit()), code, claimed.kind);
      assert.equal(here.active.size, 0, claimed.kind);
    }
  });

  test("a claim whose outcome the ledger does not say is not served, and costs its payer no token", async () => {
    const { admit, active, parts } = rig({ claim: unavailable });
    for (let times = 0; times < 5; times++) await assert.rejects(admit(), { code: "LEDGER_UNAVAILABLE" });
    assert.equal(active.size, 0);
    assert.equal(parts.payers.waitSeconds(`${NETWORK} ${PAYER}`), 0);
  });

  test("attack: a payer that has as many claims under way as it may waits, and is not served", async () => {
    const { admit, asked } = rig();
    assert.equal(codeOf(await admit()), "paid");
    assert.equal(codeOf(await admit()), "paid");
    asked.length = 0;
    assert.equal(codeOf(await admit()), "PAYMENT_RATE_LIMITED");
    assert.deepEqual(asked, ["free", "find"]);
  });

  test("attack: a payment refused for funds after waiting gets the stored answer if another gateway sold it meanwhile", async () => {
    // Between the first look and the end of the wait another gateway claims the very payment, and settles it.
    let isSettled = false;
    const stop = new AbortController();
    const { admit, asked } = rig({
      claim: async () => ({ kind: "insufficient", unsettled: true }),
      find: async () => (isSettled ? recordOf({ state: "settled", evidence: EVIDENCE }) : undefined),
      answer: async () => ANSWER,
    });
    const admitted = admit(paymentOf(), undefined, stop.signal);
    while (asked.filter((what) => what === "claim").length < 2) await nextTurn();
    isSettled = true;
    stop.abort();
    const admission = await admitted;
    assert.equal(codeOf(admission), "outcome", "told that funds are missing, it would sign again, and pay twice");
    assert.ok(admission.kind === "outcome" && admission.outcome.kind === "settled");
  });

  test("attack: a contract wallet refused for funds after waiting gets the outcome of its payment identifier if another gateway sold it", async () => {
    let isSettled = false;
    const stop = new AbortController();
    const { admit, asked, bend } = rig({
      claim: async () => ({ kind: "insufficient", unsettled: true }),
      findByIdentifier: async () => (isSettled ? recordOf({ state: "settled", evidence: EVIDENCE }) : undefined),
      answer: async () => ANSWER,
    });
    bend.signer = "unknown";
    const admitted = admit({ ...paymentOf(), identifier: "order-1" }, undefined, stop.signal);
    while (asked.filter((what) => what === "claim").length < 2) await nextTurn();
    isSettled = true;
    stop.abort();
    assert.equal(codeOf(await admitted), "outcome", "told that funds are missing, it would pay the order twice");
  });

  test("attack: an identifier is not looked up for a signature that the chain did not find to be the payer's", async () => {
    const { admit, asked, bend } = withBend({
      signer: "unknown",
      chain: { ok: false, code: "PAYMENT_SIGNATURE_INVALID" },
    });
    assert.equal(bend.signer, "unknown");
    assert.equal(codeOf(await admit({ ...paymentOf(), identifier: "order-1" })), "PAYMENT_SIGNATURE_INVALID");
    assert.deepEqual(asked, ["free", "chain", "find"]);
  });
});

suite("settle", () => {
  const settleWith = async (
    settling: Partial<Settler>,
    over: Partial<Ledger> = {},
  ): Promise<{ readonly outcome: Outcome; readonly asked: readonly string[] }> => {
    const { settle, settler, asked, stopping } = rig(over, settling);
    const outcome = await settle.settle(recordOf(), settler, ANSWER);
    stopping.abort();
    await settle[Symbol.asyncDispose]();
    return { outcome, asked };
  };

  test("what its settler has committed is sold with this answer, without asking the ledger", async () => {
    const { outcome, asked } = await settleWith({});
    assert.ok(outcome.kind === "settled");
    assert.deepEqual(outcome.answer, ANSWER);
    assert.deepEqual(asked, []);
  });

  test("what was not committed is released: nothing is charged, and nothing is sold", async () => {
    for (const [code, as] of [
      ["PAYMENT_SIMULATION_FAILED", "PAYMENT_SIMULATION_FAILED"],
      ["OVERLOADED", "SETTLEMENT_UNAVAILABLE"],
    ] as const) {
      const { outcome, asked } = await settleWith({ settle: () => Promise.reject(new AppError(code)) });
      assert.deepEqual(outcome, { kind: "released", code: as });
      assert.deepEqual(asked, ["release"]);
    }
  });

  test("one whose settler says that it was not committed, and the ledger that it was, is pending and never free", async () => {
    const signed = recordOf({ state: "signed" });
    const { outcome } = await settleWith(
      { settle: () => Promise.reject(new AppError("OVERLOADED")) },
      { release: async () => false, newest: async () => signed },
    );
    assert.equal(outcome.kind, "pending");
  });

  test("a settler that ends without evidence is not believed: the ledger says how the payment stands", async () => {
    const nothing = { settle: async () => undefined };
    const claimed = await settleWith(nothing, { newest: async () => recordOf() });
    assert.deepEqual(claimed.outcome, { kind: "released", code: "SETTLEMENT_UNAVAILABLE" });
    assert.deepEqual(claimed.asked, ["newest", "release"]);
    const signed = await settleWith(nothing, { newest: async () => recordOf({ state: "signed" }) });
    assert.equal(signed.outcome.kind, "pending");
    const failed = await settleWith(nothing, { newest: async () => recordOf({ state: "failed" }) });
    assert.equal(failed.outcome.kind, "failed");
  });

  test("attack: a newer claim of the payment has its own answer, and not the one of this call", async () => {
    const newer = recordOf({ id: "stl_2" as SettlementId, state: "settled", evidence: EVIDENCE });
    const theirs = { contentType: "text/plain", body: utf8ToBytes("theirs") };
    const { outcome } = await settleWith(
      { settle: async () => undefined },
      { newest: async () => newer, answer: async () => theirs },
    );
    assert.ok(outcome.kind === "settled");
    assert.deepEqual(outcome.answer, theirs);
    const other = { ...newer, requestHash: new Uint8Array(32) };
    const elsewhere = await settleWith({ settle: async () => undefined }, { newest: async () => other });
    assert.equal(elsewhere.outcome.kind, "released", "for another request: this one was not paid for");
  });

  test("a ledger that does not answer leaves the outcome open, and the claim is given up until it hears of that", async () => {
    let refusals = 2;
    let released: () => void = () => undefined;
    const done = new Promise<void>((resolve) => {
      released = resolve;
    });
    const { settle, settler, stopping } = rig(
      {
        newest: unavailable,
        async release() {
          if (refusals-- > 0) throw new AppError("LEDGER_UNAVAILABLE");
          released();
          return true;
        },
      },
      { settle: async () => undefined },
    );
    assert.equal((await settle.settle(recordOf(), settler, ANSWER)).kind, "pending");
    await done;
    stopping.abort();
    await settle[Symbol.asyncDispose]();
  });
});

suite("resolve", () => {
  const refusal: PaymentRefusal = { ok: false, code: "PAYMENT_EXPIRED" };

  test("a byte-equal payment for the same request gets its outcome, whatever refuses it now", async () => {
    const settled = recordOf({ state: "settled", evidence: EVIDENCE });
    const { resolver } = rig({ find: async () => settled, answer: async () => ANSWER });
    const found = await resolver.earlier({ requestHash: HASH }, paymentOf(), refusal);
    assert.ok(found.kind === "outcome" && found.outcome.kind === "settled");
    assert.deepEqual(found.outcome.answer, ANSWER);
  });

  test("attack: an answer goes to no other request, no other payload and no payment that was given up", async () => {
    const settled = recordOf({ state: "settled", evidence: EVIDENCE });
    const ask = (record: PaymentRecord, requestHash = HASH) => {
      const { resolver, asked } = rig({ find: async () => record, answer: async () => ANSWER });
      return resolver.earlier({ requestHash }, paymentOf(), refusal).then((found) => [codeOf(found), asked.at(-1)]);
    };
    assert.deepEqual(await ask(settled, new Uint8Array(32)), ["PAYMENT_CONFLICT", "answer"]);
    const other = { ...settled, payloadDigest: new Uint8Array(32) };
    assert.deepEqual(await ask(other), ["PAYMENT_EXPIRED", "find"]);
    assert.deepEqual(await ask(recordOf({ state: "released" })), ["PAYMENT_EXPIRED", "find"]);
  });

  test("attack: without an answer key an answer is handed out for a short time, then refused as one of another request is", async () => {
    const settled = recordOf({ state: "settled", evidence: EVIDENCE });
    const limits: (number | undefined)[] = [];
    const { resolver, asked } = rig({
      find: async () => settled,
      answer: async (_id, settledWithinMs) => {
        limits.push(settledWithinMs);
        return settledWithinMs === undefined ? ANSWER : undefined;
      },
    });
    const codeFor = async (hasAnswerKey: boolean, requestHash = HASH): Promise<readonly (string | undefined)[]> => {
      asked.length = 0;
      const admission = await resolver.earlier({ requestHash }, { ...paymentOf(), hasAnswerKey }, refusal);
      return [codeOf(admission), ...asked];
    };
    assert.deepEqual(await codeFor(true), ["outcome", "find", "answer"]);
    const refused = ["PAYMENT_CONFLICT", "find", "answer"];
    assert.deepEqual(await codeFor(false), refused);
    assert.deepEqual(await codeFor(false, new Uint8Array(32)), refused, "with the same reads");
    assert.deepEqual(limits, [undefined, OPTIONS.keylessAnswerMs, OPTIONS.keylessAnswerMs]);
  });

  test("attack: what failed or is owed stands so for every request: it confirms no guess", async () => {
    for (const state of ["failed", "owed", "disputed"] as const) {
      const { resolver } = rig({ find: async () => recordOf({ state, evidence: EVIDENCE }) });
      const [right, wrong] = [
        await resolver.earlier({ requestHash: HASH }, paymentOf(), refusal),
        await resolver.earlier({ requestHash: new Uint8Array(32) }, paymentOf(), refusal),
      ];
      assert.equal(codeOf(right), "outcome");
      assert.deepEqual(wrong, right);
    }
  });

  test("attack: an authorization that was claimed in other bytes gets nothing by a guessed identifier", async () => {
    const [copied, named] = [
      { ...recordOf({ state: "settled" }), payloadDigest: new Uint8Array(32) },
      recordOf({ state: "settled", evidence: EVIDENCE }),
    ];
    const payment = { ...paymentOf(), identifier: "order-1" };
    const { resolver } = rig({
      find: async () => copied,
      findByIdentifier: async () => named,
      answer: async () => ANSWER,
    });
    assert.equal(codeOf(await resolver.earlier({ requestHash: HASH }, payment, refusal, true)), "PAYMENT_EXPIRED");
    const used = rig({ findByIdentifier: async () => named, answer: async () => ANSWER });
    used.bend.chain = { ok: false, code: "PAYMENT_NONCE_USED" };
    assert.equal(codeOf(await used.admit(payment)), "PAYMENT_NONCE_USED");
    used.bend.chain = { ok: false, code: "PAYMENT_INSUFFICIENT_FUNDS" };
    assert.equal(codeOf(await used.admit(payment)), "outcome", "its payer's own, new one");
  });

  test("an identifier counts for the payer's own signature alone", async () => {
    const named = recordOf({ state: "settled", evidence: EVIDENCE });
    const payment = { ...paymentOf(), identifier: "order-1" };
    const { resolver, asked } = rig({ findByIdentifier: async () => named, answer: async () => ANSWER });
    assert.equal(codeOf(await resolver.earlier({ requestHash: HASH }, payment, refusal)), "PAYMENT_EXPIRED");
    assert.deepEqual(asked.splice(0), ["find"]);
    assert.equal(codeOf(await resolver.earlier({ requestHash: HASH }, payment, refusal, true)), "outcome");
  });

  test("a ledger that cannot be asked refuses without a word on the payment: it must not sign again", async () => {
    const { resolver } = rig({ find: unavailable });
    assert.equal(codeOf(await resolver.earlier({ requestHash: HASH }, paymentOf(), refusal)), "LEDGER_UNAVAILABLE");
    const later = rig({ newest: unavailable });
    assert.equal((await later.resolver.resolve(recordOf({ state: "signed" }))).kind, "pending");
  });

  test("one that is under way is waited for, and what it ends in is its outcome", async () => {
    const states = ["claimed", "signed", "settled"] as const;
    let at = 0;
    const { resolver, asked } = rig({
      newest: async () => recordOf({ state: states[++at] ?? "settled", evidence: EVIDENCE }),
      answer: async () => ANSWER,
    });
    const outcome = await resolver.resolve(recordOf());
    assert.equal(outcome.kind, "settled");
    assert.deepEqual(asked, ["newest", "newest", "answer"]);
  });

  test("where no more copies may wait it stands as the ledger has it: pending, and never refused", async () => {
    const { resolver, parts, asked } = rig({}, { wait: () => new Promise(() => undefined) });
    const signed = recordOf({ state: "signed" });
    for (let times = 0; times < OPTIONS.maxWaitingCopies; times++) void resolver.resolve(signed);
    assert.equal((await resolver.resolve(signed)).kind, "pending");
    assert.deepEqual(asked, []);
    assert.equal(parts.stopping.aborted, false);
  });
});

function withBend(bend: Partial<ReturnType<typeof rig>["bend"]>): ReturnType<typeof rig> {
  const made = rig();
  Object.assign(made.bend, bend);
  return made;
}
