import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { askYes } from "./question.ts";

test("only a yes is one; another line and the end of the input are a no", async () => {
  for (const [line, expected] of [
    ["y\n", true],
    [" YES \n", true],
    ["n\n", false],
    ["\n", false],
    ["yes, please\n", false],
    ["", false],
  ] as const) {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const asking = askYes("Pay?", { input, output });
    input.end(line);
    assert.equal(await asking, expected, JSON.stringify(line));
    assert.match(String(output.read()), /^Pay\? \[y\/N\] /);
  }
});

test("attack: a signal while a person is asked ends the question with a no", async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const controller = new AbortController();
  const asking = askYes("Pay?", { input, output, signal: controller.signal });
  controller.abort();
  assert.equal(await asking, false);
  assert.equal(await askYes("Pay?", { input, output, signal: controller.signal }), false, "aborted before");
});
