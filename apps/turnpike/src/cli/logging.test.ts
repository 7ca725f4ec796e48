import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { suite, test } from "node:test";
import { pathToFileURL } from "node:url";

const LOGGING = pathToFileURL(`${import.meta.dirname}/logging.ts`).href;

/** Runs code with a log in a process of its own; resolves with the lines of its error output. */
function linesOf(code: string): Promise<readonly string[]> {
  const source = `import { createLog } from ${JSON.stringify(LOGGING)};\nconst log = createLog({ level: "info", name: "t" });\n${code}`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", source], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  child.stderr.on("data", (part) => {
    text += String(part);
  });
  return new Promise((resolve) => {
    child.on("close", () => resolve(text.split("\n").filter((line) => line !== "")));
  });
}

const indexes = (lines: readonly string[]): unknown[] =>
  lines.filter((line) => line.startsWith("{")).map((line) => (JSON.parse(line) as { at?: unknown }).at);

suite("the log", () => {
  const many = "for (let at = 0; at < 2000; at++) log.info({ at }, 'a line');";
  const all = Array.from({ length: 2_000 }, (_, at) => at);

  test("every line is written, in order, when the process ends, is ended, or fails", async () => {
    const [ends, ended, fails] = await Promise.all([
      linesOf(many),
      linesOf(`${many} process.exit(1);`),
      linesOf(`${many} throw new Error("a fault");`),
    ]);
    assert.deepEqual(indexes(ends), all);
    assert.deepEqual(indexes(ended), all);
    assert.deepEqual(indexes(fails), all);
    assert.ok(fails.some((line) => line.includes("a fault")));
  });

  test("the caller does not wait for the writing", async () => {
    const code = `
      import fs from "node:fs";
      const real = fs.writeSync;
      let sync = 0;
      fs.writeSync = (...args) => { sync++; return real(...args); };
      const { createLog: create } = await import(${JSON.stringify(LOGGING)});
      const other = create({ level: "info", name: "t" });
      for (let at = 0; at < 50; at++) other.info({ at }, "a line");
      real(2, "sync=" + sync + "\\n");`;
    assert.ok((await linesOf(code)).includes("sync=0"));
  });

  test("blots out what is named like a secret", async () => {
    const [line = ""] = await linesOf(`log.info({ privateKey: "0xabc", inner: { signature: "0xdef" } }, "x");`);
    assert.match(line, /"privateKey":"\[redacted\]".*"signature":"\[redacted\]"/);
  });

  test("attack: no text of others acts on the terminal that shows the log", async () => {
    const text = "\\u001b]52;c;AA\\u0007\\u009b2J\\u202e";
    const [line = ""] = await linesOf(`log.info({ text: "${text}" }, "${text}");`);
    assert.doesNotMatch(line, /[\p{C}\p{Zl}\p{Zp}]/u);
    assert.equal((JSON.parse(line) as { text: string }).text, "\u001b]52;c;AA\u0007\u009b2J\u202e");
  });

  test("tells an error by its message and its stack, under both names that errors have", async () => {
    const lines = await linesOf(`
      const fault = new TypeError("outer", { cause: new Error("inner") });
      log.error({ cause: fault }, "x");
      log.error({ error: fault }, "x");
      log.error({ error: "a text" }, "x");`);
    for (const line of lines.slice(0, 2)) assert.match(line, /"type":"TypeError","message":"outer".*"message":"inner"/);
    assert.match(lines[2] ?? "", /"error":"a text"/);
  });
});
