import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { inspect } from "node:util";
import {
  type Address,
  AppError,
  bytesToBase64,
  type Metrics,
  type NetworkId,
  noFaults,
  noMetrics,
  type RequestId,
  type ServiceId,
  silentLog,
  systemClock,
  utf8ToBytes,
} from "@turnpike/base";
import { mintParsed, mintRelayed, type PaidRequest, type ParsedRequest } from "@turnpike/protocol";
import { eventually } from "@turnpike/testkit";
import { openLedger, startTestServer, type TestServer } from "../../test/ledger-fixtures.ts";
import type { Ledger } from "../ledger-types.ts";
import { paymentAdmissionsTotal } from "../metrics.ts";
import type { Sale, Settler } from "../settler.ts";
import type {
  Evidence,
  Outcome,
  PaymentOption,
  PaymentRecord,
  PaymentRefusal,
  StoredAnswer,
  Verifier,
} from "../types.ts";
import type { PaymentStageOptions } from "./options.ts";
import { X402PaymentStage } from "./stage.ts";
import type { Admission, EarlierAdmission, Offer, PaymentStage } from "./types.ts";

const option: PaymentOption = {
  scheme: "exact",
  network: "eip155:84532" as NetworkId,
  amount: "5000",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  maxTimeoutSeconds: 600,
  extra: { name: "USDC", version: "2" },
};

let server: TestServer;
let ledger: Ledger;

before(async () => {
  server = await startTestServer();
  ledger = await openLedger(await server.database(), { poolSize: 8 });
});

after(async () => {
  await ledger?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

/** Stands in for the chain: says what the test wants of every payment. */
class StandInVerifier implements Verifier {
  balance = 1_000_000n;
  refusal: PaymentRefusal | undefined;
  /** Whose signatures are. */
  signer: "payer" | "unknown" = "payer";
  /** Free checks of payments. */
  looks = 0;
  /** What asking the chain rejects with. */
  fault: AppError | undefined;
  aheadSeconds = 0;
  checks = 0;
  async checkFree() {
    this.looks++;
    return this.refusal ?? { ok: true as const, signer: this.signer };
  }
  async checkChain(payment: Parameters<Verifier["checkChain"]>[0]) {
    this.checks++;
    if (this.fault !== undefined) throw this.fault;
    if (this.balance < 5_000n) return { ok: false as const, code: "PAYMENT_INSUFFICIENT_FUNDS" as const };
    return {
      ok: true as const,
      payment,
      kind: "eoa" as const,
      balance: this.balance,
      blockNumber: 1n,
      chainTimeSeconds: Date.now() / 1000 + this.aheadSeconds,
    };
  }
  /** Nothing of what is in flight has left the balance. */
  async readFunds(_account: unknown, nonces: readonly string[]) {
    return { balance: this.balance, used: nonces.map(() => false) };
  }
}

/** Stands in for the settlement engine: commits, and settles when the test says so. */
class StandInSettler implements Settler {
  readonly networks = [option.network];
  settled = 0;
  /** `evidence`: as at once, and it tells the evidence that it has committed. */
  mode: "at once" | "evidence" | "held" | "refuses" = "at once";
  /** What every sale is refused with, as by the rule for what costs more than it brings. */
  refused: PaymentRefusal | undefined;
  asked: Sale | undefined;
  refusal(sale: Sale) {
    this.asked = sale;
    return this.refused;
  }
  /** Runs in place of a settlement, which then ends without a commit: as when its time was up first. */
  instead: ((payment: PaymentRecord) => Promise<void>) | undefined;
  /** Runs before a claim is served; the result refuses it. */
  reserving: Settler["reserve"] | undefined;
  reserve: Settler["reserve"] = async (payment, waitMs, signal) => this.reserving?.(payment, waitMs, signal);
  readonly #held = new Map<string, () => void>();
  async settle(payment: PaymentRecord, answer: StoredAnswer, signal: AbortSignal) {
    if (this.mode === "refuses") throw new Error("not committed");
    if (this.instead !== undefined) {
      await this.instead(payment);
      return undefined;
    }
    await ledger.journalSubmission(payment.id, answer);
    if (this.mode === "held") {
      await this.wait(payment, signal);
      return undefined;
    }
    const evidence = await this.finish(payment);
    return this.mode === "evidence" ? evidence : undefined;
  }
  async finish(payment: Pick<PaymentRecord, "id">): Promise<Evidence> {
    this.settled++;
    const evidence: Evidence = {
      transaction: `0x${randomBytes(32).toString("hex")}`,
      blockNumber: 2n,
      blockHash: `0x${randomBytes(32).toString("hex")}`,
      logIndex: 0,
    };
    await ledger.settled(payment.id, evidence);
    this.#held.get(payment.id)?.();
    return evidence;
  }
  wait(payment: PaymentRecord, signal: AbortSignal): Promise<void> {
    // The commit before it may have taken longer than the wait.
    if (signal.aborted) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held.set(payment.id, resolve);
    signal.addEventListener("abort", () => resolve(), { once: true });
    return promise;
  }
  missing() {
    return [];
  }
  async [Symbol.asyncDispose]() {}
}

interface Bench {
  readonly stage: PaymentStage;
  readonly verifier: StandInVerifier;
  readonly settler: StandInSettler;
  /** Results of admissions, as the metric has them. */
  readonly admissions: string[];
  /** May be changed between calls. */
  readonly options: { -readonly [Key in keyof PaymentStageOptions]: PaymentStageOptions[Key] };
}

function stageOf(settleWaitMs = 60_000, change: Partial<PaymentStageOptions> = {}, payments = ledger): Bench {
  const verifier = new StandInVerifier();
  const settler = new StandInSettler();
  const admissions: string[] = [];
  const metrics: Metrics = {
    ...noMetrics,
    count(spec, labels) {
      if (spec === paymentAdmissionsTotal) admissions.push(labels?.result ?? "");
    },
  };
  const options = {
    upstreamTimeoutMs: 60_000,
    settleMarginMs: 4_000,
    settleWaitMs,
    retryAfterSeconds: 2,
    pollMs: 20,
    maxWaitingCopies: 1_000,
    keylessAnswerMs: 30_000,
    networks: [{ ...option, name: option.extra.name, version: option.extra.version, decimals: 6 }],
    unpaidPerPayer: () => ({ burst: 1_000, perSecond: 1 }),
    ...change,
  };
  const stage = new X402PaymentStage(options, {
    verifier,
    ledger: payments,
    settlers: [settler],
    clock: systemClock,
    log: silentLog,
    metrics,
    faults: noFaults,
  });
  return { stage, verifier, settler, admissions, options };
}

/** For a test in which a fault would wait for an hour. */
const HANGS = { timeout: 60_000 };

const newPayer = (): Address => `0x${randomBytes(20).toString("hex")}`;

interface HeaderChange {
  readonly nonce?: string;
  readonly resource?: string;
  readonly identifier?: string;
  readonly accepted?: Readonly<Record<string, unknown>>;
}

function header(from: Address, change: HeaderChange = {}): string {
  const now = Math.floor(Date.now() / 1000);
  const payload = {
    x402Version: 2,
    resource: { url: change.resource ?? "http://gw.example/v1/eth" },
    accepted: change.accepted ?? option,
    payload: {
      signature: `0x${randomBytes(64).toString("hex")}1b`,
      authorization: {
        from,
        to: option.payTo,
        value: option.amount,
        validAfter: String(now - 600),
        validBefore: String(now + 600),
        nonce: change.nonce ?? `0x${randomBytes(32).toString("hex")}`,
      },
    },
    ...(change.identifier === undefined
      ? {}
      : {
          extensions: {
            "payment-identifier": { info: { required: false, id: change.identifier }, schema: {} },
          },
        }),
  };
  return bytesToBase64(utf8ToBytes(JSON.stringify(payload)));
}

function request(body = "a"): ParsedRequest {
  return mintParsed({
    requestId: "r" as RequestId,
    client: "c",
    serviceId: "eth" as ServiceId,
    call: {
      rpcType: "json_rpc",
      operation: "eth_blockNumber",
      verb: "POST",
      path: "",
      body: utf8ToBytes(body),
      id: "1",
      params: [],
    },
    requestHash: new Uint8Array(32).fill(body.charCodeAt(0)),
  });
}

const offerOf = (offered: PaymentOption, isServed = true): Offer => ({
  options: [offered],
  refusal: () => (isServed ? undefined : { ok: false, code: "SERVICE_UNAVAILABLE" }),
});

async function present(
  { stage }: Bench,
  signed: string,
  body = "a",
  offered = option,
  isServed = true,
): Promise<Admission> {
  const decoded = stage.decode(signed);
  assert.ok(decoded.ok, inspect(decoded));
  return stage.admit(request(body), decoded.payment, offerOf(offered, isServed), new AbortController().signal);
}

const answer = (text: string): StoredAnswer => ({ contentType: "application/json", body: utf8ToBytes(text) });

async function settle({ stage }: Bench, paid: PaidRequest, text = "{}"): Promise<Outcome> {
  const relayed = mintRelayed({
    ok: true,
    request: paid,
    status: 200,
    body: utf8ToBytes(text),
    contentType: "application/json",
    schemaCheck: "passed",
    operator: "node",
  });
  return stage.settle(paid, relayed, answer(text));
}

function paidOf(admission: Admission): PaidRequest {
  assert.equal(admission.kind, "paid", inspect(admission));
  return (admission as Extract<Admission, { kind: "paid" }>).paid;
}

function outcomeOf(admission: Admission): Outcome {
  assert.equal(admission.kind, "outcome", inspect(admission));
  return (admission as Extract<Admission, { kind: "outcome" }>).outcome;
}

function answerOf(outcome: Outcome): string {
  assert.equal(outcome.kind, "settled", inspect(outcome));
  return Buffer.from((outcome as Extract<Outcome, { kind: "settled" }>).answer.body).toString();
}

const codeOf = (admission: Admission): string => (admission.kind === "refused" ? admission.code : admission.kind);

test("ten copies of one payment at once: one upstream run, one settlement, ten equal answers", async () => {
  const bench = stageOf();
  const signed = header(newPayer());
  let runs = 0;
  const outcomes = await Promise.all(
    Array.from({ length: 10 }, async () => {
      const admission = await present(bench, signed);
      if (admission.kind !== "paid") return outcomeOf(admission);
      runs++;
      return settle(bench, admission.paid, `{"run":${runs}}`);
    }),
  );
  assert.equal(runs, 1);
  assert.equal(bench.settler.settled, 1);
  assert.deepEqual([...new Set(outcomes.map(answerOf))], ['{"run":1}']);
  assert.equal(bench.verifier.checks, 1);
});

test("a settlement that its settler has committed is answered as its copies are, without asking the ledger again", async () => {
  let asked = 0;
  const newest: Ledger["newest"] = (id) => {
    asked++;
    return ledger.newest(id);
  };
  const bench = stageOf(60_000, {}, { ...ledger, newest });
  bench.settler.mode = "evidence";
  const signed = header(newPayer());
  const outcome = await settle(bench, paidOf(await present(bench, signed)), '"a"');
  assert.equal(asked, 0);
  const copy = outcomeOf(await present(bench, signed));
  assert.equal(answerOf(outcome), answerOf(copy));
  assert.deepEqual({ ...outcome, answer: undefined }, { ...copy, answer: undefined });
});

test("a sale that its settlement costs more than is refused before anything is claimed or run for it", async () => {
  const bench = stageOf(60_000, { unpaidPerPayer: () => ({ burst: 1, perSecond: 0.000001 }) });
  bench.settler.refused = { ok: false, code: "SETTLEMENT_UNPROFITABLE", retryAfterSeconds: 30 };
  const [payer, nonce] = [newPayer(), `0x${randomBytes(32).toString("hex")}` as const];
  const signed = header(payer, { nonce });
  for (let round = 0; round < 3; round++) {
    const admission = await present(bench, signed);
    assert.deepEqual(admission, { kind: "refused", ...bench.settler.refused });
  }
  const key = { network: option.network, asset: option.asset.toLowerCase() as Address, from: payer, nonce };
  assert.equal(await ledger.find(key), undefined, "nothing is claimed");
  // The window is 600 seconds, 60 of which are the call's.
  const { kind, value, spareMs } = bench.settler.asked ?? assert.fail();
  assert.deepEqual([kind, value], ["eoa", 5_000n]);
  assert.ok(spareMs > 530_000 && spareMs <= 540_000, String(spareMs));
  bench.settler.refused = undefined;
  const paid = paidOf(await present(bench, signed));
  assert.equal(answerOf(await settle(bench, paid, '{"n":1}')), '{"n":1}', "the same signature is good, and uncounted");
  bench.settler.refused = { ok: false, code: "SETTLEMENT_UNPROFITABLE" };
  assert.equal(
    answerOf(outcomeOf(await present(bench, signed))),
    '{"n":1}',
    "a paid answer is returned, whatever the fee is",
  );
});

test("a fee that rises after the claim withholds no answer from a payer who was served", async () => {
  const bench = stageOf();
  const paid = paidOf(await present(bench, header(newPayer())));
  bench.settler.refused = { ok: false, code: "SETTLEMENT_UNPROFITABLE" };
  assert.equal(answerOf(await settle(bench, paid, '{"n":2}')), '{"n":2}');
});

test("copies at two gateways: the ledger decides who runs, both give the same answer", async () => {
  const [one, two] = [stageOf(), stageOf()];
  const signed = header(newPayer());
  const first = paidOf(await present(one, signed));
  const second = present(two, signed);
  await settle(one, first, '{"from":"one"}');
  assert.equal(answerOf(outcomeOf(await second)), '{"from":"one"}');
  assert.equal(one.settler.settled + two.settler.settled, 1);
});

test("the same signature later gets the stored answer, also after its window", async () => {
  const bench = stageOf();
  const signed = header(newPayer());
  await settle(bench, paidOf(await present(bench, signed)), '{"n":1}');
  assert.equal(answerOf(outcomeOf(await present(bench, signed))), '{"n":1}');
  bench.verifier.refusal = { ok: false, code: "PAYMENT_EXPIRED" };
  assert.equal(answerOf(outcomeOf(await present(bench, signed))), '{"n":1}');
});

test("one payment for another request is refused while it runs and after", async () => {
  const bench = stageOf();
  const signed = header(newPayer());
  const paid = paidOf(await present(bench, signed));
  assert.equal(codeOf(await present(bench, signed, "b")), "PAYMENT_CONFLICT");
  await settle(bench, paid);
  assert.equal(codeOf(await present(bench, signed, "b")), "PAYMENT_CONFLICT");
  bench.verifier.refusal = { ok: false, code: "PAYMENT_NONCE_USED" };
  assert.equal(codeOf(await present(bench, signed, "b")), "PAYMENT_CONFLICT");
});

test("a forged copy of a settled payment never gets its answer", async () => {
  const bench = stageOf();
  const [payer, nonce] = [newPayer(), `0x${randomBytes(32).toString("hex")}`];
  await settle(bench, paidOf(await present(bench, header(payer, { nonce }))));
  // Right payer and nonce, other signature: the verifier of the product says one of these two.
  for (const code of ["PAYMENT_SIGNATURE_INVALID", "PAYMENT_NONCE_USED"] as const) {
    bench.verifier.refusal = { ok: false, code };
    assert.equal(codeOf(await present(bench, header(payer, { nonce }))), code);
  }
  bench.verifier.refusal = undefined;
  assert.equal(codeOf(await present(bench, header(payer, { nonce }))), "PAYMENT_CONFLICT");
});

test("a failed upstream charges nothing, and the same signature may be used again", async () => {
  const bench = stageOf();
  const signed = header(newPayer());
  const first = paidOf(await present(bench, signed));
  const copy = present(bench, signed);
  assert.deepEqual(await bench.stage.release(first, "SUPPLIERS_FAILED"), {
    kind: "released",
    code: "SUPPLIERS_FAILED",
  });
  assert.deepEqual(outcomeOf(await copy), { kind: "released", code: "SUPPLIERS_FAILED" });
  assert.equal(bench.settler.settled, 0);
  assert.equal(answerOf(await settle(bench, paidOf(await present(bench, signed)), '"second"')), '"second"');
  assert.equal(bench.settler.settled, 1);
});

test("a balance for one and ten fresh nonces: one upstream run", async () => {
  const bench = stageOf();
  bench.verifier.balance = 5_000n;
  const payer = newPayer();
  const admissions = await Promise.all(Array.from({ length: 10 }, () => present(bench, header(payer))));
  assert.deepEqual(admissions.map(codeOf).sort(), [
    ...Array.from({ length: 9 }, () => "PAYMENT_INSUFFICIENT_FUNDS"),
    "paid",
  ]);
});

test("an unresolved settlement is pending, never refused; the same signature gets the answer once it resolves", async () => {
  const bench = stageOf(50);
  bench.settler.mode = "held";
  const signed = header(newPayer());
  const paid = paidOf(await present(bench, signed));
  const outcome = await settle(bench, paid, '{"late":true}');
  assert.equal(outcome.kind, "pending");
  assert.equal(outcome.kind === "pending" && outcome.receipt.errorReason, "settlement_pending");
  assert.equal(outcomeOf(await present(bench, signed)).kind, "pending");
  assert.equal((await bench.stage.status(paid.settlementId))?.status, "pending");
  await bench.settler.finish({ id: paid.settlementId });
  assert.equal(answerOf(outcomeOf(await present(bench, signed))), '{"late":true}');
  assert.equal((await bench.stage.status(paid.settlementId))?.answerAvailable, true);
});

test("while a settlement is open no way in says 402: not a short window, not another offer, not a silent chain", async () => {
  const bench = stageOf(50);
  bench.settler.mode = "held";
  const signed = header(newPayer());
  const paid = paidOf(await present(bench, signed));
  await settle(bench, paid, '{"late":true}');
  const ways: readonly (readonly [string, () => Promise<Admission>])[] = [
    [
      "its window is nearly over",
      () => {
        bench.verifier.aheadSeconds = 598;
        return present(bench, signed);
      },
    ],
    ["the price has changed", () => present(bench, signed, "a", { ...option, amount: "6000" })],
    [
      "the chain is silent",
      () => {
        bench.verifier.fault = new AppError("SETTLEMENT_UNAVAILABLE");
        return present(bench, signed);
      },
    ],
  ];
  for (const [name, way] of ways) assert.equal(outcomeOf(await way()).kind, "pending", name);
  assert.equal(codeOf(await present(bench, header(newPayer()))), "SETTLEMENT_UNAVAILABLE", "nobody else gets it");
  await bench.settler.finish({ id: paid.settlementId });
  for (const [name, way] of ways) assert.equal(answerOf(outcomeOf(await way())), '{"late":true}', name);
});

test("a payment identifier gets the stored outcome also when there is no balance for a second payment", async () => {
  const bench = stageOf();
  const identifier = `pay_${randomBytes(16).toString("hex")}`;
  const payer = newPayer();
  await settle(bench, paidOf(await present(bench, header(payer, { identifier }))), '{"first":1}');
  bench.verifier.balance = 0n;
  assert.equal(answerOf(outcomeOf(await present(bench, header(payer, { identifier })))), '{"first":1}');
  assert.equal(codeOf(await present(bench, header(payer))), "PAYMENT_INSUFFICIENT_FUNDS");
});

test("copies beyond what may wait are told to come back, not to sign again", async () => {
  const bench = stageOf();
  const signed = header(newPayer());
  const paid = paidOf(await present(bench, signed));
  const copies = Array.from({ length: 70 }, () => present(bench, signed));
  await settle(bench, paid);
  const codes = (await Promise.all(copies)).map(codeOf);
  assert.equal(codes.filter((code) => code === "outcome").length, 64);
  assert.equal(codes.filter((code) => code === "PAYMENT_IN_PROGRESS").length, 6);
});

test("a copy of a payment that was reported as pending waits shortly, not as long as the first", HANGS, async () => {
  const bench = stageOf(50);
  bench.settler.mode = "held";
  const signed = header(newPayer());
  const paid = paidOf(await present(bench, signed));
  assert.equal((await settle(bench, paid)).kind, "pending");
  bench.options.settleWaitMs = 3_600_000;
  for (let copy = 0; copy < 3; copy++) assert.equal(outcomeOf(await present(bench, signed)).kind, "pending");
});

test("copies of all payments together are bounded: each holds a request open", HANGS, async () => {
  const bench = stageOf(3_600_000, { maxWaitingCopies: 4 });
  const signed = Array.from({ length: 3 }, () => header(newPayer()));
  const paid = await Promise.all(signed.map(async (one) => paidOf(await present(bench, one))));
  const copies = Array.from({ length: 12 }, (_, at) => present(bench, String(signed[at % 3])));
  const refused = await Promise.all(copies.slice(4));
  assert.deepEqual(new Set(refused.map(codeOf)), new Set(["PAYMENT_IN_PROGRESS"]));
  await Promise.all(paid.map((one) => settle(bench, one, '{"n":1}')));
  assert.deepEqual(new Set((await Promise.all(copies.slice(0, 4))).map(outcomeOf).map(answerOf)), new Set(['{"n":1}']));
  // The places are free again.
  assert.equal(answerOf(outcomeOf(await present(bench, String(signed[0])))), '{"n":1}');
});

test("without room for a waiting copy the ledger answers at once", HANGS, async () => {
  const bench = stageOf(50, { maxWaitingCopies: 0 });
  bench.settler.mode = "held";
  const signed = header(newPayer());
  const paid = paidOf(await present(bench, signed));
  await settle(bench, paid, '{"n":1}');
  bench.options.settleWaitMs = 3_600_000;
  const other = stageOf(3_600_000, { maxWaitingCopies: 0 });
  assert.equal(outcomeOf(await present(other, signed)).kind, "pending");
  await bench.settler.finish({ id: paid.settlementId });
  assert.equal(answerOf(outcomeOf(await present(other, signed))), '{"n":1}');
});

test("what no supplier serves is not claimed, while an earlier payment still gets its outcome", async () => {
  const bench = stageOf();
  const [paid, payer, nonce] = [header(newPayer()), newPayer(), `0x${randomBytes(32).toString("hex")}` as const];
  await settle(bench, paidOf(await present(bench, paid)), '{"n":1}');
  const { checks } = bench.verifier;
  const refused = await present(bench, header(payer, { nonce }), "a", option, false);
  assert.equal(codeOf(refused), "SERVICE_UNAVAILABLE");
  const key = { network: option.network, asset: option.asset.toLowerCase() as Address, from: payer, nonce };
  assert.equal(await ledger.find(key), undefined, "no row was written");
  assert.equal(bench.verifier.checks, checks, "the chain was not asked");
  assert.equal(answerOf(outcomeOf(await present(bench, paid, "a", option, false))), '{"n":1}');
  assert.equal(codeOf(await present(bench, header(payer, { nonce }))), "paid");
});

test("a payer whose claims are released again and again is refused for a while; one that pays is not", async () => {
  const bench = stageOf(60_000, { unpaidPerPayer: () => ({ burst: 4, perSecond: 0.001 }) });
  const [wasteful, shared] = [newPayer(), newPayer()];
  const release = async (signed: string, reason: "DEADLINE_EXCEEDED" | "OVERLOADED" | "ANSWER_TOO_LARGE") =>
    bench.stage.release(paidOf(await present(bench, signed)), reason);
  const again = header(wasteful);
  // The same authorization, and a new one: both cost a call.
  await release(again, "DEADLINE_EXCEEDED");
  await release(again, "ANSWER_TOO_LARGE");
  await release(header(wasteful), "DEADLINE_EXCEEDED");
  const { checks } = bench.verifier;
  const refused = await present(bench, again);
  assert.equal(codeOf(refused), "PAYMENT_RATE_LIMITED");
  assert.ok(refused.kind === "refused" && (refused.retryAfterSeconds ?? 0) >= 1);
  assert.equal(bench.verifier.checks, checks, "the chain was not asked");
  for (let call = 0; call < 20; call++) await settle(bench, paidOf(await present(bench, header(shared))));
  for (let call = 0; call < 20; call++) await release(header(shared), "OVERLOADED");
  assert.equal(codeOf(await present(bench, header(shared))), "paid");
});

test("a payer that is refused for a while still gets the answer that it paid for", async () => {
  const bench = stageOf(50, { unpaidPerPayer: () => ({ burst: 1, perSecond: 0.001 }) });
  bench.settler.mode = "held";
  const payer = newPayer();
  const signed = header(payer);
  const paid = paidOf(await present(bench, signed));
  await settle(bench, paid, '{"late":true}');
  assert.equal(codeOf(await present(bench, header(payer))), "PAYMENT_RATE_LIMITED");
  await bench.settler.finish({ id: paid.settlementId });
  assert.equal(answerOf(outcomeOf(await present(bench, signed))), '{"late":true}');
  // It has paid after all.
  assert.equal(codeOf(await present(bench, header(payer))), "paid");
});

test("a third party cannot have a payer refused: what is not a claim of its own does not count for it", async () => {
  const bench = stageOf(60_000, { unpaidPerPayer: () => ({ burst: 2, perSecond: 0.001 }) });
  const payer = newPayer();
  for (const code of ["PAYMENT_SIGNATURE_INVALID", "PAYMENT_NONCE_USED", "PAYMENT_EXPIRED"] as const) {
    bench.verifier.refusal = { ok: false, code };
    for (let call = 0; call < 5; call++) assert.equal(codeOf(await present(bench, header(payer))), code);
  }
  bench.verifier.refusal = undefined;
  assert.equal(codeOf(await present(bench, header(payer))), "paid");
});

test("a settlement that fails for good is refused, with a receipt that says so, and stays so", async () => {
  const bench = stageOf(50);
  bench.settler.mode = "held";
  const signed = header(newPayer());
  const paid = paidOf(await present(bench, signed));
  await settle(bench, paid);
  await ledger.failed(paid.settlementId, "PAYMENT_NONCE_USED");
  const outcome = outcomeOf(await present(bench, signed));
  assert.equal(outcome.kind, "failed");
  assert.equal(outcome.kind === "failed" && outcome.receipt.success, false);
});

test("attack: a claim does not stay behind when it is settled with the answer to another request", HANGS, async () => {
  const bench = stageOf();
  const signed = header(newPayer());
  const paid = paidOf(await present(bench, signed));
  const copy = present(bench, signed);
  const other = paidOf(await present(bench, header(newPayer())));
  const relayed = mintRelayed({
    ok: true,
    request: other,
    status: 200,
    body: utf8ToBytes("{}"),
    contentType: "application/json",
    schemaCheck: "passed",
    operator: "node",
  });
  assert.deepEqual(await bench.stage.settle(paid, relayed, answer("{}")), { kind: "released", code: "INTERNAL" });
  assert.equal((await ledger.get(paid.settlementId))?.state, "released");
  assert.deepEqual(outcomeOf(await copy), { kind: "released", code: "INTERNAL" });
  assert.equal(bench.settler.settled, 0);
});

test("attack: a claim does not stay behind when its settler returns without a commit", HANGS, async () => {
  const bench = stageOf();
  const signed = header(newPayer());
  const paid = paidOf(await present(bench, signed));
  bench.settler.instead = async () => undefined;
  assert.deepEqual(await settle(bench, paid), { kind: "released", code: "SETTLEMENT_UNAVAILABLE" });
  assert.equal((await ledger.get(paid.settlementId))?.state, "released");
  bench.settler.instead = undefined;
  assert.equal(answerOf(await settle(bench, paidOf(await present(bench, signed)), '"second"')), '"second"');
  assert.equal(bench.settler.settled, 1);
});

test("a claim does not stay behind when the ledger cannot say how it stands after its settlement", HANGS, async () => {
  let fails = false;
  const shaky: Ledger = {
    ...ledger,
    newest: (id) => (fails ? Promise.reject(new AppError("LEDGER_UNAVAILABLE")) : ledger.newest(id)),
  };
  const bench = stageOf(60_000, {}, shaky);
  const paid = paidOf(await present(bench, header(newPayer())));
  bench.settler.instead = async () => {
    fails = true;
  };
  assert.equal((await settle(bench, paid)).kind, "pending");
  await eventually("it is released", async () => (await ledger.get(paid.settlementId))?.state === "released");
});

test("what could not be committed is released, and may be presented again", async () => {
  const bench = stageOf();
  bench.settler.mode = "refuses";
  const signed = header(newPayer());
  const outcome = await settle(bench, paidOf(await present(bench, signed)));
  assert.deepEqual(outcome, { kind: "released", code: "SETTLEMENT_UNAVAILABLE" });
  bench.settler.mode = "at once";
  assert.equal((await settle(bench, paidOf(await present(bench, signed)))).kind, "settled");
});

test("payment-identifier: same request, stored outcome; other request, 409; other payer, independent", async () => {
  const bench = stageOf();
  const identifier = `pay_${randomBytes(16).toString("hex")}`;
  const payer = newPayer();
  await settle(bench, paidOf(await present(bench, header(payer, { identifier }))), '{"first":1}');
  assert.equal(answerOf(outcomeOf(await present(bench, header(payer, { identifier })))), '{"first":1}');
  assert.equal(bench.settler.settled, 1);
  assert.equal(codeOf(await present(bench, header(payer, { identifier }), "b")), "PAYMENT_IDENTIFIER_CONFLICT");
  assert.equal(codeOf(await present(bench, header(newPayer(), { identifier }))), "paid");
});

test("attack: an identifier whose payment failed buys again with the new payment that its payer was asked for", async () => {
  const bench = stageOf(50);
  bench.settler.mode = "held";
  const identifier = `pay_${randomBytes(16).toString("hex")}`;
  const payer = newPayer();
  const paid = paidOf(await present(bench, header(payer, { identifier })));
  await settle(bench, paid);
  await ledger.failed(paid.settlementId, "PAYMENT_NONCE_USED");
  bench.settler.mode = "at once";
  assert.equal(
    answerOf(await settle(bench, paidOf(await present(bench, header(payer, { identifier }))), '"new"')),
    '"new"',
  );
  assert.equal(answerOf(outcomeOf(await present(bench, header(payer, { identifier })))), '"new"');
});

test("an option that is not offered is refused before anything else", async () => {
  const bench = stageOf();
  const decoded = bench.stage.decode(header(newPayer()));
  assert.ok(decoded.ok);
  for (const changed of [{ amount: "1" }, { payTo: option.payTo.toLowerCase() }, { network: "eip155:1" }]) {
    const payment = { ...decoded.payment, accepted: { ...option, ...changed } };
    const admission = await bench.stage.admit(request(), payment, offerOf(option), new AbortController().signal);
    assert.equal(codeOf(admission), "PAYMENT_OPTION_UNKNOWN");
  }
});

/** Takes a claim away, as a crash of its holder would, and lets another gateway sell for the same signature. */
async function soldElsewhere(id: PaymentRecord["id"], signed: string, body: string, text: string): Promise<void> {
  assert.equal(await ledger.release(id, "SERVICE_UNAVAILABLE"), true);
  const other = stageOf();
  assert.equal(answerOf(await settle(other, paidOf(await present(other, signed, body)), text)), text);
}

test("attack: a claim lost while it is settled, and claimed anew for another request, sells nothing twice", async () => {
  const bench = stageOf();
  const signed = header(newPayer());
  bench.settler.instead = ({ id }) => soldElsewhere(id, signed, "b", '"b"');
  const outcome = await settle(bench, paidOf(await present(bench, signed, "a")), '"a"');
  assert.equal(outcome.kind, "released", "the payment was for b: a is neither sold nor charged");
});

test("attack: a claim lost before it is given up never gets the answer of another request", async () => {
  const bench = stageOf();
  const signed = header(newPayer());
  const paid = paidOf(await present(bench, signed, "a"));
  const copy = present(bench, signed, "a");
  await soldElsewhere(paid.settlementId, signed, "b", '"b"');
  assert.deepEqual(await bench.stage.release(paid, "SUPPLIERS_FAILED"), { kind: "released", code: "SUPPLIERS_FAILED" });
  assert.equal(outcomeOf(await copy).kind, "released");
  bench.settler.mode = "refuses";
  const other = header(newPayer());
  const second = paidOf(await present(bench, other, "a"));
  await soldElsewhere(second.settlementId, other, "b", '"b"');
  assert.equal((await settle(bench, second)).kind, "released", "nor when its settlement was refused");
});

test("attack: a claim lost and claimed anew for the same request has one answer: the one that was sold", async () => {
  for (const way of ["settled", "given up"] as const) {
    const bench = stageOf();
    const signed = header(newPayer());
    const paid = paidOf(await present(bench, signed));
    if (way === "settled") bench.settler.instead = ({ id }) => soldElsewhere(id, signed, "a", '"sold"');
    else await soldElsewhere(paid.settlementId, signed, "a", '"sold"');
    const outcome =
      way === "settled" ? await settle(bench, paid, '"ours"') : await bench.stage.release(paid, "SUPPLIERS_FAILED");
    assert.equal(answerOf(outcome), '"sold"', way);
  }
});

/** Asks as for a request that is not sold any more. */
function presentUnsold({ stage }: Bench, signed: string, body = "a"): Promise<EarlierAdmission | undefined> {
  const decoded = stage.decode(signed);
  assert.ok(decoded.ok, inspect(decoded));
  return stage.earlierOutcome(request(body).requestHash, decoded.payment, new AbortController().signal);
}

const keyOf = (from: Address, nonce: `0x${string}`) => ({
  network: option.network,
  asset: option.asset.toLowerCase() as Address,
  from,
  nonce,
});

test("attack: for what is not sold any more a payment gets the answer that it paid for, also at another gateway, and nothing else", async () => {
  const [bench, other] = [stageOf(), stageOf()];
  const [payer, nonce] = [newPayer(), `0x${randomBytes(32).toString("hex")}` as const];
  const signed = header(payer, { nonce });
  await settle(bench, paidOf(await present(bench, signed)), '{"n":1}');
  for (const one of [bench, other]) {
    const found = await presentUnsold(one, signed);
    assert.ok(found !== undefined);
    assert.equal(answerOf(outcomeOf(found)), '{"n":1}');
    assert.equal(await presentUnsold(one, signed, "b"), undefined, "another request");
    assert.equal(await presentUnsold(one, header(payer, { nonce })), undefined, "another signature");
    assert.equal(await presentUnsold(one, header(newPayer())), undefined, "a stranger's");
  }
  assert.deepEqual([bench.settler.settled, other.settler.settled, other.verifier.checks], [1, 0, 0]);
  assert.ok(!other.admissions.includes("PAYMENT_OPTION_UNKNOWN"), "what is not sold is no admission");
});

test("attack: for what is not sold any more a payment signed again with the same identifier gets the answer, claims nothing, and is the payer's alone", async () => {
  const [bench, other] = [stageOf(), stageOf()];
  const payer = newPayer();
  const identifier = `pay_${randomBytes(16).toString("hex")}`;
  await settle(bench, paidOf(await present(bench, header(payer, { identifier }))), '{"n":1}');
  const { checks } = bench.verifier;
  for (const one of [bench, other]) {
    const nonce = `0x${randomBytes(32).toString("hex")}` as const;
    const again = header(payer, { identifier, nonce });
    for (let copies = 0; copies < 2; copies++) {
      const found = await presentUnsold(one, again);
      assert.ok(found !== undefined);
      assert.equal(answerOf(outcomeOf(found)), '{"n":1}');
    }
    assert.equal(await ledger.find(keyOf(payer, nonce)), undefined, "nothing is claimed");
    assert.equal(await presentUnsold(one, header(payer, { identifier }), "b"), undefined, "another request");
    assert.equal(await presentUnsold(one, header(payer)), undefined, "no identifier");
    assert.equal(await presentUnsold(one, header(payer, { identifier: `${identifier}0` })), undefined, "another one");
    assert.equal(await presentUnsold(one, header(newPayer(), { identifier })), undefined, "another payer");
  }
  assert.deepEqual([bench.settler.settled, other.settler.settled], [1, 0]);
  assert.deepEqual(
    [bench.verifier.checks, other.verifier.checks],
    [checks, 0],
    "no chain is asked for a key's own signature",
  );
});

test("attack: for what is not sold any more who signs with another key, out of time or for another token learns nothing of an identifier", async () => {
  const [bench, other] = [stageOf(), stageOf()];
  const payer = newPayer();
  const identifier = `pay_${randomBytes(16).toString("hex")}`;
  await settle(bench, paidOf(await present(bench, header(payer, { identifier }))), '{"n":1}');
  const { verifier } = other;
  const unsold = (accepted: Readonly<Record<string, unknown>> = { ...option }): Promise<EarlierAdmission | undefined> =>
    presentUnsold(other, header(payer, { identifier, accepted }));
  verifier.refusal = { ok: false, code: "PAYMENT_EXPIRED" };
  assert.equal(await unsold(), undefined);
  verifier.refusal = { ok: false, code: "OVERLOADED" };
  await assert.rejects(unsold(), { code: "OVERLOADED" });
  verifier.refusal = undefined;
  verifier.signer = "unknown";
  verifier.balance = 0n;
  assert.equal(await unsold(), undefined, "the chain refuses it");
  assert.equal(verifier.checks, 1);
  verifier.fault = new AppError("SETTLEMENT_UNAVAILABLE");
  for (const one of [identifier, "pay_that_was_never_seen"]) {
    await assert.rejects(presentUnsold(other, header(payer, { identifier: one })), { code: "SETTLEMENT_UNAVAILABLE" });
  }
  verifier.fault = undefined;
  const { looks } = verifier;
  const forged: readonly Readonly<Record<string, unknown>>[] = [
    { ...option, payTo: payer },
    { ...option, asset: payer },
    { ...option, extra: { name: "USDC", version: "3" } },
    { ...option, amount: "0" },
    { ...option, amount: 5000 },
    { ...option, amount: "1e3" },
    { ...option, network: "eip155:1" },
  ];
  for (const accepted of forged) assert.equal(await unsold(accepted), undefined, JSON.stringify(accepted));
  assert.equal(verifier.looks, looks, "of another token not even the signature is looked at");
  verifier.balance = 1_000_000n;
  const wallet = await unsold({ ...option, amount: "7000" });
  assert.ok(wallet !== undefined);
  assert.equal(
    answerOf(outcomeOf(wallet)),
    '{"n":1}',
    "a wallet's, for whose signature the chain speaks, at an old price",
  );
  assert.ok(!other.admissions.includes("PAYMENT_OPTION_UNKNOWN"));
});

test("attack: for what is not sold any more the very payment gets its answer although nothing can be verified", async () => {
  const [bench, other] = [stageOf(), stageOf()];
  const payer = newPayer();
  const signed = header(payer, { identifier: `pay_${randomBytes(16).toString("hex")}` });
  await settle(bench, paidOf(await present(bench, signed)), '{"n":1}');
  const { verifier } = other;
  const expectAnswer = async (why: string): Promise<void> => {
    const found = await presentUnsold(other, signed);
    assert.ok(found !== undefined, why);
    assert.equal(answerOf(outcomeOf(found)), '{"n":1}', why);
  };
  verifier.refusal = { ok: false, code: "OVERLOADED" };
  await expectAnswer("too many signatures are checked");
  verifier.refusal = undefined;
  verifier.signer = "unknown";
  verifier.fault = new AppError("SETTLEMENT_UNAVAILABLE");
  await expectAnswer("the chain that speaks for a wallet is out of reach");
  assert.deepEqual([verifier.looks, verifier.checks], [0, 0], "nothing is verified for it");
});

test("attack: for what is not sold any more nothing is claimed, and verified only with an identifier, so that the authorization stays good", async () => {
  const bench = stageOf();
  const [payer, nonce] = [newPayer(), `0x${randomBytes(32).toString("hex")}` as const];
  const signed = header(payer, { nonce, identifier: "a-payment-identifier" });
  assert.equal(await presentUnsold(bench, signed), undefined);
  assert.equal(await ledger.find(keyOf(payer, nonce)), undefined);
  assert.equal(bench.verifier.checks, 0);
  await bench.stage.release(paidOf(await present(bench, signed, "b")), "SERVICE_UNAVAILABLE");
  assert.equal(await presentUnsold(bench, signed, "b"), undefined, "what was released has no outcome");
  paidOf(await present(bench, signed, "c"));
});

test(
  "for what is not sold any more a payment under way is waited for, pending where it stays so, and failed as it stands",
  HANGS,
  async () => {
    const bench = stageOf(50);
    bench.settler.mode = "held";
    const signed = header(newPayer());
    const paid = paidOf(await present(bench, signed));
    const here = presentUnsold(bench, signed);
    const other = stageOf(50);
    const kindOf = async (found: Promise<EarlierAdmission | undefined>): Promise<string> => {
      const one = await found;
      return one === undefined ? "none" : outcomeOf(one).kind;
    };
    assert.equal(await kindOf(presentUnsold(other, signed)), "pending", "claimed by another gateway");
    assert.equal((await settle(bench, paid, '{"n":1}')).kind, "pending");
    assert.equal(await kindOf(here), "pending", "it has waited for the one that is under way here");
    await bench.settler.finish({ id: paid.settlementId });
    assert.equal(await kindOf(presentUnsold(other, signed)), "settled");

    const failing = header(newPayer());
    const lost = paidOf(await present(bench, failing));
    await settle(bench, lost);
    await ledger.failed(lost.settlementId, "PAYMENT_NONCE_USED");
    assert.equal(await kindOf(presentUnsold(other, failing)), "failed");
  },
);

test("for what is not sold any more a ledger that cannot be asked is 503, and says nothing of the payment", async () => {
  const away: Ledger = { ...ledger, find: () => Promise.reject(new AppError("LEDGER_UNAVAILABLE")) };
  const found = await presentUnsold(stageOf(60_000, {}, away), header(newPayer()));
  assert.deepEqual(found, { kind: "refused", ok: false, code: "LEDGER_UNAVAILABLE" });
});

test("attack: a claim whose settlement gets no place is never served, and is released for the same signature to come again", async () => {
  const bench = stageOf(60_000, { unpaidPerPayer: () => ({ burst: 4, perSecond: 0.001 }) });
  const payer = newPayer();
  const signed = header(payer);
  const refusal: PaymentRefusal = { ok: false, code: "PAYMENT_SIMULATION_FAILED", retryAfterSeconds: 60 };
  bench.settler.reserving = async () => refusal;
  const [first, copy] = await Promise.all([present(bench, signed), present(bench, signed)]);
  assert.deepEqual(first, { kind: "refused", ...refusal });
  assert.deepEqual(copy, first, "a copy is not served in its place");
  bench.settler.reserving = async () => {
    throw new AppError("LEDGER_UNAVAILABLE");
  };
  for (let call = 0; call < 3; call++) {
    assert.equal(codeOf(await present(bench, signed)), "LEDGER_UNAVAILABLE", "our fault costs the payer no token");
  }
  const states: string[] = [];
  bench.settler.reserving = async (payment) => {
    states.push((await ledger.get(payment.id))?.state ?? "");
    return undefined;
  };
  const paid = paidOf(await present(bench, signed));
  assert.deepEqual(states, ["claimed"], "once, between the claim and the call");
  assert.equal(answerOf(await settle(bench, paid, '"sold"')), '"sold"');
});

test("a wait for a place has half of the call's time at most, and ends with the gateway", HANGS, async () => {
  const waits: number[] = [];
  const bench = stageOf(60_000, { upstreamTimeoutMs: 20_000 });
  bench.settler.reserving = (_, waitMs, signal) => {
    waits.push(waitMs);
    const { promise, resolve } = Promise.withResolvers<PaymentRefusal>();
    const end = (): void => resolve({ ok: false, code: "SETTLEMENT_UNAVAILABLE" });
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    return promise;
  };
  const decoded = bench.stage.decode(header(newPayer()));
  assert.ok(decoded.ok);
  const stopping = new AbortController();
  const admission = bench.stage.admit(request(), decoded.payment, offerOf(option), stopping.signal);
  await eventually("it waits", () => waits.length === 1);
  stopping.abort();
  assert.equal(codeOf(await admission), "SETTLEMENT_UNAVAILABLE");
  assert.ok((waits[0] ?? 0) > 9_000 && (waits[0] ?? 0) <= 10_000, String(waits[0]));
});

test("a request for which a payment is not good, and one whose answer is not handed out any more, get one refusal, with the payment's receipt", async () => {
  const bench = stageOf();
  const [payer, nonce] = [newPayer(), `0x${randomBytes(32).toString("hex")}`];
  const signed = header(payer, { nonce });
  const paid = paidOf(await present(bench, signed));
  const early = await present(bench, signed, "b");
  assert.ok(early.kind === "refused" && early.code === "PAYMENT_CONFLICT");
  assert.deepEqual([early.receipt?.success, early.receipt?.errorReason], [false, "settlement_pending"]);
  await settle(bench, paid);
  const other = await present(bench, signed, "b");
  const status = await bench.stage.status(paid.settlementId);
  assert.deepEqual([status?.answerAvailable, status?.answerStored], [true, true]);
  bench.options.keylessAnswerMs = 0;
  const late = await present(bench, signed);
  assert.deepEqual(late, other);
  assert.ok(late.kind === "refused" && late.code === "PAYMENT_CONFLICT");
  const { success, transaction, extensions } = late.receipt ?? assert.fail();
  assert.deepEqual([success, extensions?.settlement], [true, { id: paid.settlementId, status: "settled" }]);
  assert.equal(transaction, status?.transaction);
  const later = await bench.stage.status(paid.settlementId);
  assert.deepEqual([later?.answerAvailable, later?.answerStored], [false, true], "as a payment without a key gets it");
  const forged = await present(bench, header(payer, { nonce }));
  assert.ok(forged.kind === "refused" && forged.code === "PAYMENT_CONFLICT");
  assert.equal(forged.receipt, undefined, "other bytes learn nothing of it");
});
