import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  allowedCounts,
  allRetiredUses,
  countsOf,
  lowered,
  RETIRED_WORDS,
  type RetiredUse,
  retiredFaults,
  retiredGroups,
  retiredUses,
} from "./retired-words.ts";
import { readText } from "./sources.ts";

const wordsIn = (source: string, path = "packages/x/src/x.ts"): string[] =>
  retiredUses(path, source).map(({ word, line }) => `${word} ${line}`);

suite("retired words", () => {
  test("no package gets more of them, and the list has no more than there are", () => {
    const groups = retiredGroups();
    assert.ok(groups.size > 20 && (groups.get("relay")?.length ?? 0) > 50 && (groups.get("docs")?.length ?? 0) > 30);
    const faults = retiredFaults(allowedCounts(), allRetiredUses());
    assert.deepEqual(faults, [], faults.join("\n"));
  });

  test("the glossary's last table has each of them, and what to say instead", () => {
    const [, table = ""] = readText("docs/GLOSSARY.md").split("## Retired words\n");
    const rows = [...table.matchAll(/^\| ([^|]+) \| [^|]+ \|$/gm)].map(([, word = ""]) => word);
    assert.deepEqual(
      rows.slice(1),
      RETIRED_WORDS.map(({ word }) => word),
    );
  });

  test("they are seen in identifiers, file names, comments, texts, and over the end of a line", () => {
    const source = [
      "const createWebSocketDoor = () => supplierDESK;",
      "/**",
      " * Reads the value as the chain",
      " * has it; whoever",
      " * asks.",
      " */",
      'log.warn({}, "nobody answers");',
      "const SOME_BOOKS = 1;",
      "// what is",
      "// there",
      "quiet.fails();",
      "/** What {@link X} works with. */",
      "/** Options of {@link X}. */",
    ].join("\n");
    assert.deepEqual(wordsIn(source).toSorted(), [
      "Quiet 11",
      "as X has it 3",
      "books 8",
      "desk 1",
      "door 1",
      "nobody 7",
      "options of 13",
      "what is there 9",
      "whoever 4",
      "works with 12",
    ]);
    assert.deepEqual(wordsIn("", "packages/x/src/http/web-socket-door.ts"), ["door 0"]);
  });

  test("the plain meanings of such words are not", () => {
    const source = [
      "const isOutdoor = doorbell;",
      'for (const name of ["postgres", "nobody"]) {}',
      "// see that `anvil --version` works.",
      "if (options.isQuiet === true) args.push('--quiet');",
      "/** A proxy in front of a node; the ending of a file's name. */",
      "// For one word of the state: trailing zeros.",
      "// He said that, as the caller wrote: it has it all.",
    ].join("\n");
    assert.deepEqual(
      wordsIn(source).filter((found) => !found.startsWith("Quiet")),
      [],
    );
  });

  test("a count that grew and one that was not lowered are faults, and the generator lowers alone", () => {
    const use = (word: string): RetiredUse => ({ word, path: "packages/a/src/a.ts", line: 3 });
    const uses = new Map([["a", [use("door"), use("door"), use("tell")]]]);
    assert.deepEqual(countsOf(uses), { a: { door: 2, tell: 1 } });
    assert.deepEqual(retiredFaults({ a: { door: 2, tell: 1 } }, uses), []);
    const faults = retiredFaults({ a: { door: 1, tell: 2 }, b: { desk: 1 } }, uses);
    assert.deepEqual(
      faults.map((fault) => fault.split(/[:;] /, 2).join(": ")),
      ['a: "door" 1 → 2', 'a: "tell" 2 → 1', 'b: "desk" 1 → 0'],
    );
    assert.match(faults[0] ?? "", /listener.*\n {2}packages\/a\/src\/a\.ts:3\n/);
    assert.deepEqual(lowered({ a: { door: 1, tell: 2 }, b: { desk: 1 } }, countsOf(uses)), { a: { door: 1, tell: 1 } });
  });
});
