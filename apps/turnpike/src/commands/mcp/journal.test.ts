import assert from "node:assert/strict";
import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { beginSession, openJournal } from "./journal.ts";

const BUYER = {
  gateway: "https://gateway.example",
  address: "0x00000000000000000000000000000000000000Aa",
  local: false,
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
    await charge(cut, 7n);
    const began = beginSession(cut);
    assert.deepEqual([began.usedMicroUsd, began.since], [0n, undefined]);
    assert.equal(statSync(`${cut.file}.session`).mode & 0o077, 0);
    await charge(cut, 5n);
    for (const { journal } of [first, cut]) await journal[Symbol.asyncDispose]();
    const again = await openJournal(undefined, BUYER, state.env);
    assert.equal(again.file, cut.file);
    const goes = beginSession(again);
    assert.equal(goes.usedMicroUsd, 5n);
    assert.ok(goes.since !== undefined);
    goes[Symbol.dispose]();
    assert.equal(existsSync(`${cut.file}.session`), false);
    const fresh = beginSession(again);
    assert.deepEqual([fresh.usedMicroUsd, fresh.since], [0n, undefined]);
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
    for (const text of [
      "{",
      "[]",
      JSON.stringify({ startedAt: "2020-01-01T00:00:00.000Z", chargedMicroUsd: "0" }),
      JSON.stringify({ startedAt: "never", chargedMicroUsd: "0" }),
      JSON.stringify({ startedAt: new Date().toISOString(), chargedMicroUsd: "-1" }),
    ]) {
      writeFileSync(`${opened.file}.session`, text);
      assert.equal(beginSession(opened).since, undefined, text);
    }
    await opened.journal[Symbol.asyncDispose]();
  });
});
