import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { productSources, readText, withoutComments } from "./sources.ts";

/** Files that name an output of the process, and why what others wrote cannot reach a terminal by them. */
const OUTPUTS: Readonly<Record<string, string>> = {
  "apps/turnpike/src/cli/progress-line.ts": "moves the cursor itself, and escapes the text that it shows",
  "apps/turnpike/src/cli/question.ts": "asks a person, and escapes its question",
  "apps/turnpike/src/cli/terminal.ts": "the printer of foreign text",
  "apps/turnpike/src/commands/tx/action.ts": "asks for a yes, in a sentence of its own",
  "apps/turnpike/src/commands/up/action.ts": "listens for the streams' errors",
  "apps/turnpike/src/main.ts": "listens for the streams' errors",
  "packages/mcp/src/stdio.ts": "frames of the protocol, for a program",
};

/** Files that print as it is what a program or a file is to have byte by byte. */
const EXACT: Readonly<Record<string, string>> = {
  "apps/turnpike/src/cli/terminal.ts": "the printer itself",
  "apps/turnpike/src/commands/chain/action.ts": "a genesis file",
  "apps/turnpike/src/commands/config/action.ts": "a schema of ours",
  "apps/turnpike/src/commands/query/action.ts": "a card's bytes, with --raw",
};

/** Makers of what a model reads. */
const RESULTS: Readonly<Record<string, string>> = {
  "packages/mcp/src/result.ts": "separates and fences what others wrote",
};

const filesWith = (pattern: RegExp, folder = ""): string[] =>
  productSources().filter((path) => path.startsWith(folder) && pattern.test(withoutComments(readText(path))));

suite("what others wrote is printed and passed on in one place", () => {
  test("only the printers write to the process's outputs", () => {
    const pattern = /\bprocess\.(?:stdout|stderr)\b(?!\.(?:isTTY|columns)\b)|\bconsole\.[a-z]/;
    assert.deepEqual(filesWith(pattern), Object.keys(OUTPUTS));
  });

  test("nothing but files and bytes is printed as it is", () => {
    assert.deepEqual(filesWith(/\bprintExact\(/), Object.keys(EXACT));
  });

  test("only one function makes a tool's result", () => {
    const pattern = /\bcontent: \[|\bisError: |\bstructuredContent\b|"turnpike\/error"/;
    assert.deepEqual(filesWith(pattern, "packages/mcp/"), Object.keys(RESULTS));
  });

  test("no buyer's package has a rule of its own about characters that are not seen", () => {
    const pattern = /\\p\{(?:C|Z|M|Default_Ignorable)|\\u(?:200|202|206|feff|009f)/i;
    for (const folder of ["packages/client/", "packages/mcp/", "apps/"])
      assert.deepEqual(filesWith(pattern, folder), []);
  });
});
