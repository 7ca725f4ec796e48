import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { type EventQuery, matchesEvents, parseEventQuery } from "./query.ts";

function fault(text: string): string | undefined {
  const parsed = parseEventQuery(text);
  return parsed.ok ? undefined : parsed.fault;
}

function query(text: string): EventQuery {
  const parsed = parseEventQuery(text);
  assert.ok(parsed.ok, `${text}: ${parsed.ok ? "" : parsed.fault}`);
  return parsed.query;
}

const EVENTS = new Map([
  ["tm.event", ["Tx"]],
  ["tx.height", ["103"]],
  ["transfer.amount", ["8upokt", "15.50upokt"]],
  ["transfer.recipient", ["pokt1a", "pokt1b"]],
  ["pocket.application.EventApplicationStaked.session_end_height", ['"110"']],
  ["day.date", ["2021-05-03"]],
  ["day.time", ["2021-05-03T14:45:00.5+02:00"]],
]);

test("faults are CometBFT's, with offsets in bytes", () => {
  assert.equal(fault("nonsense"), "offset 8: EOF");
  assert.equal(fault("x"), "offset 1: EOF");
  assert.equal(fault(""), "offset 0: EOF");
  assert.equal(fault("tm.event='Tx"), "offset 9: EOF");
  assert.equal(fault("tm.event='Tx' tx.height=1"), "offset 14: got tag, want AND operator");
  assert.equal(fault("tx.height='"), "offset 10: EOF");
  assert.equal(fault("tx.height>'5'"), "offset 10: got string, wanted number, timestamp or datestamp");
  assert.equal(fault("tx.height CONTAINS 5"), "offset 19: got number, wanted string");
  assert.equal(fault("5=5"), "offset 0: got number, wanted tag");
  assert.equal(fault("é!"), "offset 2: invalid input ! at offset 3");
  assert.equal(
    fault("a b"),
    "offset 2: got tag, wanted <= operator, >= operator, < operator, > operator, = operator, CONTAINS operator or EXISTS operator",
  );
  assert.match(fault("a=DATE 2021-02-30") ?? "", /^offset 2: invalid DATE value/);
  assert.equal(fault("a=DATE 1800-01-01"), "offset 2: datestamp year 1800 out of range");
  assert.equal(fault(`a='${"x".repeat(512)}'`), "maximum query length exceeded");
});

test("a text that breaks off after AND's place is read as far as it goes", () => {
  assert.equal(query("a=1 'open").conditions.length, 1);
});

test("conditions are met by any value of their key", () => {
  for (const text of [
    "tm.event='Tx'",
    "tm.event = 'Tx' AND transfer.recipient='pokt1b'",
    "tx.height=103 AND tx.height>=103 AND tx.height<103.5 AND tx.height > 102",
    "transfer.amount=8",
    "transfer.amount=15.5",
    "transfer.amount>15.4 AND transfer.amount<9",
    "transfer.recipient CONTAINS '1b'",
    "pocket.application.EventApplicationStaked.session_end_height EXISTS",
    "pocket.application.EventApplicationStaked EXISTS",
    "day.date=DATE 2021-05-03",
    "day.date<DATE 2021-05-04",
    "day.time>TIME 2021-05-03T12:45:00Z AND day.time<TIME 2021-05-03T12:45:01Z",
  ]) {
    assert.equal(matchesEvents(query(text), EVENTS), true, text);
  }
  for (const text of [
    "tm.event='NewBlock'",
    "tm.event='Tx' AND transfer.recipient='pokt1c'",
    "tx.height>103",
    "tx.height='0103'",
    "transfer.sender EXISTS",
    "pocket.application EXISTS",
    "pocket.application.EventApplicationStaked.session_end_height=110",
    "day.date=TIME 2021-05-03T00:00:00Z",
  ]) {
    assert.equal(matchesEvents(query(text), EVENTS), false, text);
  }
});

test("numbers of many digits are compared exactly", () => {
  const events = new Map([["a.b", ["340282366920938463463374607431768211457"]]]);
  assert.equal(matchesEvents(query("a.b=340282366920938463463374607431768211457"), events), true);
  assert.equal(matchesEvents(query("a.b=340282366920938463463374607431768211456"), events), false);
  assert.equal(matchesEvents(query("a.b>=0"), new Map([["a.b", ["9".repeat(1_000_000)]]])), false);
});

test("any text is read or refused", () => {
  const words = fc.constantFrom(
    "a.b",
    "=",
    "<",
    ">=",
    "AND",
    "EXISTS",
    "CONTAINS",
    "'s'",
    "1.",
    "TIME ",
    "DATE ",
    "2021-05-03",
    "é",
    "'",
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.array(words).map((all) => all.join(" ")),
      ),
      (text) => {
        const parsed = parseEventQuery(text);
        if (parsed.ok) matchesEvents(parsed.query, EVENTS);
        else assert.notEqual(parsed.fault, "");
      },
    ),
    { numRuns: 500 },
  );
});
