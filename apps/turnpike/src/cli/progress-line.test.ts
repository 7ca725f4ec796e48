import assert from "node:assert/strict";
import { test } from "node:test";
import { virtualClock } from "@turnpike/testkit";
import { createProgressLine } from "./progress-line.ts";

function terminal(isTTY = true): {
  readonly written: string[];
  isTTY: boolean;
  columns: number;
  write(text: string): void;
} {
  const written: string[] = [];
  return { written, isTTY, columns: 20, write: (text) => void written.push(text) };
}

test("a line is shown, not too often, and taken away", () => {
  const stream = terminal();
  const clock = virtualClock();
  {
    using line = createProgressLine({ isShown: true }, stream, clock);
    line.show("one");
    clock.advance(99);
    line.show("two");
    clock.advance(1);
    line.show("three");
    line.clear();
    line.clear();
  }
  assert.deepEqual(stream.written, ["\r\u001b[Kone", "\r\u001b[Kthree", "\r\u001b[K"]);
});

test("it fits its terminal, and names in it cannot move the cursor", () => {
  const stream = terminal();
  using line = createProgressLine({ isShown: true }, stream);
  line.show(`a\u001b[2J\nb\u202e${"x".repeat(100)}`);
  assert.equal(stream.written[0], "\r\u001b[Ka\\u001b[2J b\\u202e…");
});

test("without a terminal, or with --json, nothing is written", () => {
  const stream = terminal(false);
  createProgressLine({ isShown: true }, stream).show("x");
  const shown = terminal();
  createProgressLine({ isShown: false }, shown).show("x");
  assert.deepEqual([stream.written, shown.written], [[], []]);
});
