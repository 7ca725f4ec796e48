import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { suite, test } from "node:test";
import { visibleText } from "@turnpike/base";
import { SELLER_MODES, startHostileSeller } from "@turnpike/testkit/hostile-seller";
import { runInProcess } from "../../../test/run-command.ts";
import { payCommandLine } from "./text.ts";

/** Arguments that a shell reads from a printed command, after `npx turnpike`. */
function argumentsOf(commandLine: string, env: Record<string, string> = {}): string[] {
  const script = `npx() { shift; for word in "$@"; do printf '%s\\0' "$word"; done; }\n${commandLine}\n`;
  const shell = ["--norc", "--noprofile", "-c", script];
  return execFileSync("bash", shell, { encoding: "utf8", env, stdio: ["ignore", "pipe", "inherit"] })
    .split("\0")
    .slice(0, -1);
}

/** Bodies with characters that are printed as escapes, or that a shell reads. */
const BODIES = [
  '{"query":"I \u2764\ufe0f ACME"}',
  '{"query":"\ud83d\udc69\u200d\ud83d\udcbb"}',
  '{"query":"10\u00a0000\u202f\u20ac"}',
  '{"query":"a\u0301\u0301\u0301\u0301\u0301\u0301"}',
  '{\n\t"query": "\u007f\u2028"\n}',
  '{"query":"it\'s \\u200d \\\\ \u200d0 $(date) `date` !! \\""}',
  '{"query":"it\'s plain"}',
];

suite("the printed command of a call", () => {
  test("attack: a shell reads each word as it was given, in any locale, and no terminal changes it", () => {
    for (const body of BODIES) {
      const line = payCommandLine("search", body, { keyFile: "/home/\ufe0fme/it's.key" });
      assert.equal(visibleText(line), line, "printed as it is");
      assert.doesNotMatch(line, /\n/);
      for (const env of [{}, { LC_ALL: "C" }]) {
        assert.deepEqual(argumentsOf(line, env), ["pay", "search", body, "--key-file", "/home/\ufe0fme/it's.key"]);
      }
    }
    assert.match(
      payCommandLine("search", '{"query":"Zürich 東京"}'),
      / '\{"query":"Zürich 東京"\}'$/,
      "readable where it may be",
    );
  });

  test("attack: the command that is printed after an open call names the same call and payment", async () => {
    const body = `{\n"query":"I \u2764\ufe0f ACME"}`;
    await using seller = await startHostileSeller(SELLER_MODES["answer-cut-gzip"]);
    const args = ["pay", "eth", body, "--gateway", seller.url, "--no-journal"];
    const open = await runInProcess(args, { TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}` });
    assert.equal(open.code, 5, open.err);
    const command = open.err.trim().split("\n").at(-1) ?? "";
    const payment = seller.presentations[0]?.header ?? "";
    assert.deepEqual(argumentsOf(command), [...args.slice(0, -1), "--payment", payment, "--no-journal"]);
  });
});
