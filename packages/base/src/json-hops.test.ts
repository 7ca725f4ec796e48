import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { hopJsonMembers } from "./json-hops.ts";
import { jsonMemberSpans, jsonText, skipJsonSpace } from "./json-spans.ts";

const KEYS = ["jsonrpc", "id", "result", "error"];

/** Pieces of strings that look like JSON. */
const trap = fc
  .array(
    fc.constantFrom("{", "}", "[", "]", "},", "],", ":{", ",[", "1}", '"', '","', '":1}', "\\", "\\u", "id", "é", "x"),
    { maxLength: 6 },
  )
  .map((parts) => parts.join(""));
const { value: anyValue } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    trap,
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 5 }),
    fc.dictionary(fc.oneof(trap, fc.constantFrom("id", "error", "result")), tie("value"), { maxKeys: 5 }),
  ),
}));

/** The members of an answer in any order. */
const answer = fc
  .record({
    value: anyValue,
    name: fc.constantFrom("result", "error"),
    id: fc.oneof(fc.integer(), fc.constantFrom("a", "1")),
    order: fc.shuffledSubarray([0, 1, 2], { minLength: 3 }),
    indent: fc.constantFrom(undefined, undefined, 1),
    padding: fc.integer({ min: 0, max: 2_000 }),
  })
  .map(({ value, name, id, order, indent, padding }) => {
    const members = [
      ["jsonrpc", "2.0"],
      ["id", id],
      [name, [value, "x".repeat(padding)]],
    ] as const;
    const ordered = order.flatMap((at) => {
      const member = members[at];
      return member === undefined ? [] : [member];
    });
    return JSON.stringify(Object.fromEntries(ordered), undefined, indent);
  });

test("any answer: the very members that reading every byte finds, or none", () => {
  let found = 0;
  fc.assert(
    fc.property(answer, fc.constantFrom("", "\n", " "), (json, around) => {
      const text = jsonText(Buffer.from(around + json + around));
      const hopped = hopJsonMembers(Buffer.from(text, "latin1"), KEYS);
      if (hopped === undefined) return;
      found++;
      assert.deepEqual(hopped, jsonMemberSpans(text, skipJsonSpace(text, 0))?.members);
    }),
    { numRuns: 3_000 },
  );
  assert.ok(found > 300, String(found));
});

const block = (transactions: number): string =>
  JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    result: {
      hash: `0x${"ab".repeat(32)}`,
      transactions: Array.from({ length: transactions }, (_, at) => ({
        hash: `0x${"cd".repeat(32)}`,
        accessList: at % 2 === 0 ? [] : [{ address: `0x${"01".repeat(20)}`, storageKeys: [`0x${"ef".repeat(32)}`] }],
        input: `0x${"00".repeat(at)}`,
        yParity: null,
        index: at,
        isLast: at === transactions - 1,
      })),
    },
  });

test("a usual large answer is read by its brackets", () => {
  const text = block(100);
  const hopped = hopJsonMembers(Buffer.from(text, "latin1"), KEYS);
  assert.ok(hopped !== undefined);
  assert.deepEqual(hopped, jsonMemberSpans(text, 0)?.members);
});

test("no beginning of an answer is taken for whole", () => {
  for (const text of [block(6), block(0), '{"jsonrpc":"2.0","result":[[{"a":[]},{}],[]],"id":1}']) {
    for (let cut = 0; cut < text.length; cut++) {
      assert.equal(hopJsonMembers(Buffer.from(text.slice(0, cut), "latin1"), KEYS), undefined, text.slice(0, cut));
    }
  }
});

test("other keys, repeated keys, escaped keys, wrong brackets and what follows are doubt", () => {
  const filler = `"${"x".repeat(3_000)}"`;
  for (const text of [
    `{"id":1,"id":2,"result":${filler}}`,
    `{"id":1,"more":2,"result":${filler}}`,
    `{"\\u0069d":1,"result":${filler}}`,
    `{"id":1,"result":[${filler}}}`,
    `{"id":1,"result":[${filler}]}}`,
    `{"id":1,"result":[${filler}]} {}`,
    `{"id":1,"result":[${filler}],}`,
    `{"id":1,"result":[${filler}]`,
    `[${filler}]`,
    "",
    `{"id":1,"result":${"[".repeat(129)}${filler}${"]".repeat(129)}}`,
  ]) {
    assert.equal(hopJsonMembers(Buffer.from(text, "latin1"), KEYS), undefined, text.slice(0, 40));
  }
  assert.ok(hopJsonMembers(Buffer.from(`{"id":1,"result":[${filler}]}`, "latin1"), KEYS) !== undefined);
});
