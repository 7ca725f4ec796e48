import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { readText } from "../sources.ts";
import { BEYOND_QUICK, filesNamed, filesOf, isQuick, mayRunAgain, QUICK_END_TO_END, testFiles } from "./tiers.ts";

suite("tiers of tests", () => {
  test("every test is in the quick tier or beyond it, and never in both", () => {
    const all = testFiles();
    assert.ok(all.length > 400);
    assert.deepEqual([...filesOf("quick"), ...filesOf("beyond-quick")].sort(), [...all].sort());
    assert.deepEqual(filesOf("all"), all);
  });

  test("every file that the table names is there", () => {
    const all = new Set(testFiles());
    const named = [...Object.values(QUICK_END_TO_END), ...Object.keys(BEYOND_QUICK)];
    assert.deepEqual(
      named.filter((path) => !all.has(path)),
      [],
    );
  });

  test("nothing of the quick tier is skipped for want of a program", () => {
    const skip = /\bskip(?:: |\()(?:without|await |.* not installed)/;
    assert.deepEqual(
      filesOf("quick").filter((path) => skip.test(readText(path))),
      [],
    );
    assert.ok(skip.test(readText("packages/gateway/src/limits/redis-store.test.ts")));
    assert.ok(skip.test(readText("packages/devnet/src/testnet/comet-keys.test.ts")));
  });

  test("only files beyond the quick tier that are not of money may run again", () => {
    assert.ok(mayRunAgain("test/e2e/relay-hedging.test.ts"));
    assert.ok(!mayRunAgain("test/chaos/kill-matrix.test.ts"));
    assert.ok(!mayRunAgain("packages/payment/src/stage/stage.test.ts"));
    assert.deepEqual(filesOf("quick").filter(mayRunAgain), []);
    const pays = /\b(?:startGround|fundedPayer|newBuyer|startEconomy)\(|\["pay", /;
    assert.deepEqual(
      testFiles().filter((path) => mayRunAgain(path) && pays.test(readText(path))),
      [],
    );
  });

  test("a file is found by its folder, its path, or a part of it", () => {
    const [file] = filesNamed(["tools/test-runner/tiers.test.ts"]);
    assert.equal(file, "tools/test-runner/tiers.test.ts");
    assert.ok(filesNamed(["tools/test-runner"]).includes("tools/test-runner/report.test.ts"));
    assert.ok(filesNamed(["runner/tiers"]).includes("tools/test-runner/tiers.test.ts"));
    assert.deepEqual(filesNamed(["docs"]).slice(0, 1), ["test/e2e/relay-docs.test.ts"]);
    assert.deepEqual(filesNamed(["no-such-thing"]), []);
    assert.ok(isQuick("tools/test-runner/tiers.test.ts"));
  });
});
