import assert from "node:assert/strict";
import { lstatSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { AppError, isAppError } from "@turnpike/base";
import { McpSession } from "@turnpike/mcp";
import { beginSession, openJournal } from "./journal.ts";

const BUYER = {
  gateway: "https://gateway.example",
  address: "0x00000000000000000000000000000000000000Aa",
  local: false,
};

const HOUR_MS = 3_600_000;

/** A payment that can no longer be taken. */
const expiredPayment = (nonce: string): string => {
  const authorization = { from: "0x", to: "0x", value: "5000", validBefore: "1", nonce };
  const accepted = { network: "eip155:84532", asset: "0x" };
  return Buffer.from(JSON.stringify({ accepted, payload: { authorization } })).toString("base64");
};

const folder = () => {
  const path = mkdtempSync(join(tmpdir(), "turnpike-mcp-journal-"));
  return {
    path,
    env: { XDG_STATE_HOME: path },
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
};

/** Spends in a journal, so that its sums tell. */
async function charge({ journal }: Awaited<ReturnType<typeof openJournal>>, microUsd: bigint): Promise<void> {
  const call = { service: "eth", requestHash: "a", microUsd, totalMicroUsd: undefined };
  const reservation = await journal.reserve(call);
  await reservation.signed("payment");
  await reservation.end("charged");
}

suite("the journal of turnpike mcp", () => {
  test("processes at once have journals of their own; a buyer's journal is found again", async () => {
    using state = folder();
    const one = await openJournal(undefined, BUYER, state.env);
    const two = await openJournal(undefined, BUYER, state.env);
    assert.notEqual(one.file, two.file);
    const other = await openJournal(undefined, { ...BUYER, address: "0x01" }, state.env);
    assert.ok(other.file !== one.file && other.file !== two.file);
    for (const { journal } of [one, two, other]) await journal[Symbol.asyncDispose]();
    const again = await openJournal(undefined, { ...BUYER, address: BUYER.address.toLowerCase() }, state.env);
    assert.equal(again.file, one.file);
    await again.journal[Symbol.asyncDispose]();
  });

  test("a journal that is named is that one, or none", async () => {
    using state = folder();
    const file = join(state.path, "mine.jsonl");
    const one = await openJournal(file, BUYER, state.env);
    await assert.rejects(openJournal(file, BUYER, state.env), (error) => isAppError(error, "SPEND_JOURNAL"));
    await one.journal[Symbol.asyncDispose]();
  });

  test("attack: damage is told, and is no way to a fresh budget", async () => {
    using state = folder();
    const one = await openJournal(undefined, BUYER, state.env);
    await charge(one, 5n);
    await one.journal[Symbol.asyncDispose]();
    writeFileSync(one.file, `garbage\n${readFileSync(one.file, "utf8")}`);
    await assert.rejects(openJournal(undefined, BUYER, state.env), (error) => isAppError(error, "SPEND_JOURNAL"));
  });

  test("attack: a session that was cut off goes on, with what it had spent, also where another journal is free", async () => {
    using state = folder();
    const first = await openJournal(undefined, BUYER, state.env);
    const cut = await openJournal(undefined, BUYER, state.env);
    const began = beginSession(cut, 0);
    assert.deepEqual([began.usedMicroUsd, began.since], [0n, undefined]);
    assert.equal(statSync(`${cut.file}.session`).mode & 0o077, 0);
    began.record(5n);
    for (const { journal } of [first, cut]) await journal[Symbol.asyncDispose]();
    const again = await openJournal(undefined, BUYER, state.env, HOUR_MS);
    assert.equal(again.file, cut.file);
    const resumed = beginSession(again, HOUR_MS);
    assert.equal(resumed.usedMicroUsd, 5n);
    assert.equal(resumed.since, "1970-01-01T00:00:00.000Z");
    await again.journal[Symbol.asyncDispose]();
  });

  test("attack: an end that the agent brings about does not renew the budget: the session goes on for an hour", async () => {
    using state = folder();
    const opened = await openJournal(undefined, BUYER, state.env);
    let nowMs = 0;
    for (const used of [5n, 7n, 9n]) {
      using session = beginSession(opened, nowMs);
      assert.ok(session.usedMicroUsd === used - 2n || used === 5n);
      session.record(used);
      nowMs += HOUR_MS - 1;
    }
    const nextSession = beginSession(opened, nowMs + HOUR_MS);
    assert.equal(nextSession.usedMicroUsd, 0n, "long after its end a new one begins");
    await opened.journal[Symbol.asyncDispose]();
  });

  test("attack: of several sessions that may go on, the one that spent most does: a restart gets no fresh budget", async () => {
    using state = folder();
    const all = [];
    for (const used of [1n, 9n, 5n]) {
      const opened = await openJournal(undefined, BUYER, state.env);
      beginSession(opened, 0).record(used);
      all.push(opened);
    }
    for (const { journal } of all) await journal[Symbol.asyncDispose]();
    const again = await openJournal(undefined, BUYER, state.env, 1);
    assert.equal(beginSession(again, 1).usedMicroUsd, 9n);
    await again.journal[Symbol.asyncDispose]();
  });

  test("attack: what a session used is written before it is signed for, and no sum that falls hides it", async () => {
    using state = folder();
    const opened = await openJournal(undefined, BUYER, state.env);
    const call = { service: "eth", microUsd: 5_000n, totalMicroUsd: undefined };
    const claimed = await opened.journal.reserve({ ...call, requestHash: "a" });
    await claimed.signed(expiredPayment("0x1"));
    await claimed.end("claimed");
    const began = beginSession(opened, 0);
    const budgets = { perCallMicroUsd: 5_000n, perSessionMicroUsd: 10_000n };
    const onUsed = began.record.bind(began);
    const session = new McpSession({ ...budgets, usedMicroUsd: began.usedMicroUsd, onUsed }, opened);
    await opened.journal.expired()[0]?.end("void");
    const { journal } = session.startCall("buy", { service: "eth", request: undefined });
    const reservation = await journal.reserve({ ...call, requestHash: "b" });
    assert.equal(beginSession(opened, 1).usedMicroUsd, 5_000n, "before it is signed");
    await reservation.signed(expiredPayment("0x2"));
    await reservation.end("charged");
    await opened.journal[Symbol.asyncDispose]();
    const again = await openJournal(undefined, BUYER, state.env, 1);
    assert.equal(beginSession(again, 1).usedMicroUsd, 5_000n);
    await again.journal[Symbol.asyncDispose]();
  });

  test("attack: a session that cannot be written down reserves nothing", async () => {
    using state = folder();
    const opened = await openJournal(undefined, BUYER, state.env);
    const onUsed = (): never => {
      throw new AppError("SPEND_JOURNAL");
    };
    const session = new McpSession({ perCallMicroUsd: 5n, perSessionMicroUsd: 5n, onUsed }, opened);
    const { journal } = session.startCall("buy", { service: "eth", request: undefined });
    const call = { service: "eth", requestHash: "a", microUsd: 5n, totalMicroUsd: undefined };
    await assert.rejects(journal.reserve(call), (error) => isAppError(error, "SPEND_JOURNAL"));
    assert.deepEqual([session.spending().usedMicroUsd, opened.journal.sums().openMicroUsd], [0n, 0n]);
    await opened.journal[Symbol.asyncDispose]();
  });

  test("attack: a payment that is open in another journal of the buyer is found, also when it ended normally", async () => {
    using state = folder();
    const one = await openJournal(undefined, BUYER, state.env);
    const two = await openJournal(undefined, BUYER, state.env);
    const call = { service: "eth", requestHash: "a", microUsd: 5n, totalMicroUsd: undefined };
    await (await two.journal.reserve(call)).signed(expiredPayment("0x1"));
    for (const { journal } of [two, one]) await journal[Symbol.asyncDispose]();
    const again = await openJournal(undefined, BUYER, state.env);
    assert.equal(again.journal.open().length, 1);
    assert.equal(again.journal.resume("a")?.open.payment, expiredPayment("0x1"));
    await again.journal[Symbol.asyncDispose]();
  });

  test("attack: a link in place of the session's record leads to no other file", async () => {
    using state = folder();
    const opened = await openJournal(undefined, BUYER, state.env);
    const victim = join(state.path, "victim");
    writeFileSync(victim, "text of the user");
    for (const suffix of ["", ".new"]) {
      symlinkSync(victim, `${opened.file}.session${suffix}`);
      beginSession(opened);
      assert.equal(readFileSync(victim, "utf8"), "text of the user", suffix);
      assert.ok(lstatSync(`${opened.file}.session`).isFile());
      rmSync(`${opened.file}.session`);
    }
    await opened.journal[Symbol.asyncDispose]();
  });

  test("a session of long ago, or a record that is damaged, is not continued", async () => {
    using state = folder();
    const opened = await openJournal(undefined, BUYER, state.env);
    const at = new Date().toISOString();
    for (const text of [
      "{",
      "[]",
      JSON.stringify({ startedAt: at, at: "2020-01-01T00:00:00.000Z", isEnded: false, usedMicroUsd: "0" }),
      JSON.stringify({ startedAt: at, at: "never", isEnded: false, usedMicroUsd: "0" }),
      JSON.stringify({ startedAt: at, at, isEnded: false, usedMicroUsd: "-1" }),
    ]) {
      writeFileSync(`${opened.file}.session`, text);
      assert.equal(beginSession(opened).since, undefined, text);
    }
    await opened.journal[Symbol.asyncDispose]();
  });
});
