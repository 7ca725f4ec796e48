import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { files, isTestCode, productSources, readText, withoutComments } from "./sources.ts";

/** What product code must not say, where, and what to do instead. What Biome can ban is banned in biome.json. */
interface Ban {
  readonly pattern: RegExp;
  readonly folders: readonly string[];
  readonly instead: string;
}

const BANS: readonly Ban[] = [
  { pattern: /\bthrow new Error\(/, folders: ["packages/", "apps/"], instead: "use AppError with a code" },
  {
    pattern: /\bDate\.now\b|\bnew Date\(\)/,
    folders: ["packages/payment/", "packages/protocol/"],
    instead: "use the Clock that is passed in",
  },
  {
    pattern: /\bMath\.random\b/,
    folders: ["packages/payment/", "packages/protocol/"],
    instead: "use the randomness that is passed in",
  },
];

/**
 * What tests and their helpers must not do. Those in `test/timing/` need real time, and chaos and soak, whose tests are read, pace
 * themselves by it.
 */
const TEST_BANS: readonly Ban[] = [
  {
    pattern:
      /(?<![.\w])setTimeout\(|\bsetTimeout as \w|globalThis\.setTimeout|\b(?:timers|scheduler)\.(?:setTimeout|wait)\(|promisify\(setTimeout|Atomics\.wait\(/,
    folders: ["packages/", "apps/", "test/", "tools/"],
    instead: "await an event, use `eventually` of the testkit, or move time by a virtual clock",
  },
  {
    pattern: /\b(?:performance|Date)\.now\(\) - [a-zA-Z]/,
    folders: ["packages/", "apps/", "test/", "tools/"],
    instead: "count the work: a comparison of elapsed time is a benchmark",
  },
  {
    pattern: /from "fast-check"/,
    folders: ["packages/", "apps/", "test/", "tools/"],
    instead: "import { fc } from @turnpike/testkit/property, which draws the same cases in each run",
  },
];

/** Every ban that a source breaks, with its line. */
function faultsOf(path: string, source: string, bans = BANS): string[] {
  // Comments give way to as many lines, so that the numbers stay right.
  const code = source.replaceAll(/\/\*[\s\S]*?\*\//g, (comment) => comment.replaceAll(/[^\n]/g, ""));
  return code.split("\n").flatMap((text, at) =>
    bans.flatMap(({ pattern, folders, instead }) => {
      const applies = folders.some((folder) => path.startsWith(folder)) && pattern.test(withoutComments(text));
      return applies ? [`${path}:${at + 1}: ${instead}`] : [];
    }),
  );
}

suite("bans", () => {
  test("code of the product throws coded errors, and payments own neither time nor chance", () => {
    const tools = files("packages/*/tools/**/*.ts").filter((path) => !isTestCode(path));
    const sources = [...productSources(), ...tools];
    assert.ok(sources.length > 100);
    assert.deepEqual(
      sources.flatMap((path) => faultsOf(path, readText(path))),
      [],
    );
  });

  test("tests neither wait for a time nor compare elapsed times", () => {
    const tests = files("packages/**/*.test.ts", "apps/**/*.test.ts", "test/**/*.test.ts", "tools/**/*.test.ts");
    const helpers = files(
      "packages/*/test/**/*.ts",
      "packages/testkit/src/**/*.ts",
      "apps/*/test/**/*.ts",
      "test/{e2e,interop,spec,support}/**/*.ts",
    );
    // The last two have what is banned as examples, and in the one place that may.
    const read = [...new Set([...tests, ...helpers])].filter(
      (path) =>
        !path.startsWith("test/timing/") && !["tools/bans.test.ts", "packages/testkit/src/property.ts"].includes(path),
    );
    assert.ok(tests.length > 300 && helpers.length > 100);
    for (const helper of ["test/e2e/economy-rig.ts", "test/support/payer.ts", "packages/testkit/src/eventually.ts"]) {
      assert.ok(read.includes(helper), helper);
    }
    assert.deepEqual(
      read.flatMap((path) => faultsOf(path, readText(path), TEST_BANS)),
      [],
    );
    for (const line of [
      "await new Promise((r) => setTimeout(r, 5));",
      "await new Promise((r) => globalThis.setTimeout(r, 5));",
      'import { setTimeout as delay } from "node:timers/promises";',
      "await timers.setTimeout(5);",
      "await scheduler.wait(5);",
      "await promisify(setTimeout)(5);",
      "Atomics.wait(cell, 0, 0, 5);",
      "assert.ok(performance.now() - start < 100);",
    ]) {
      assert.equal(faultsOf("test/e2e/x.test.ts", line, TEST_BANS).length, 1, line);
    }
  });

  test("the check itself sees each of them, and no comment", () => {
    const source = [
      "/* throw new Error(",
      "*/ // Date.now",
      'throw new Error("x");',
      "const a = Date.now();",
      "const b = Math.random() + new Date().getTime();",
      'throw new TypeError("y");',
    ].join("\n");
    assert.deepEqual(faultsOf("packages/payment/src/x.ts", source), [
      "packages/payment/src/x.ts:3: use AppError with a code",
      "packages/payment/src/x.ts:4: use the Clock that is passed in",
      "packages/payment/src/x.ts:5: use the Clock that is passed in",
      "packages/payment/src/x.ts:5: use the randomness that is passed in",
    ]);
    assert.deepEqual(faultsOf("packages/relay/src/x.ts", source), [
      "packages/relay/src/x.ts:3: use AppError with a code",
    ]);
    assert.deepEqual(faultsOf("bench/x.ts", source), []);
  });
});
