import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { createHitFinder } from "./hits.ts";
import { snippetOf } from "./snippet.ts";

const termsOf = (words: readonly string[]) =>
  words.map((exact) => ({ forms: [exact], exact, isPhrase: false, isPrefix: false, documents: 1 }));
const snippet = (text: string, words: readonly string[], maxChars: number): string =>
  snippetOf(
    text,
    createHitFinder(termsOf(words), "en")(text).hits,
    words.map(() => 1),
    maxChars,
  );

const FILLER = "Nothing of note is said in this sentence. ".repeat(40);

test("the passage with most of the words is shown, from the start of its sentence", () => {
  const text = `${FILLER}A harbour alone. ${FILLER}The ships lie in the harbour at night. ${FILLER}Ships.`;
  const made = snippet(text, ["harbour", "ships"], 100);
  assert.match(made, /^…The ships lie in the harbour at night\. .*…$/u);
  assert.ok(made.length <= 100);
});

test("without a word in the text its start is shown; a short text is shown whole", () => {
  assert.match(snippet(`Begin. ${FILLER}`, ["harbour"], 60), /^Begin\. .*…$/u);
  assert.equal(snippet("All\n of  it.", ["harbour"], 60), "All of it.");
  assert.equal(snippet("", ["harbour"], 60), "");
});

test("control characters, invisible ones and halves of characters are not shown", () => {
  assert.equal(snippet("a\u0000b\u001b[0m\u202ec\u00add", ["x"], 60), "a b [0mcd");
  fc.assert(
    fc.property(
      fc.string({ unit: anyCodePoint, maxLength: 400 }),
      fc.integer({ min: 20, max: 120 }),
      (text, maxChars) => {
        const made = snippet(`${text} harbour ${text}`, ["harbour"], maxChars);
        assert.ok(made.length <= maxChars && made.isWellFormed(), made);
        assert.doesNotMatch(made, /[\p{Cc}\p{Cf}]/u);
      },
    ),
    { numRuns: 200 },
  );
  const faces = "😀".repeat(200);
  assert.match(snippet(faces, ["x"], 51), /^(?:😀)+…$/u);
});
