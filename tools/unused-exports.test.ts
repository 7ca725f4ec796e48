import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { readText } from "./sources.ts";
import { exportedValues, namedImports, unusedExports } from "./unused-exports.ts";

suite("unused exports", () => {
  test("every value that a file exports is imported by another, but those of the list, which may only shrink", () => {
    const listed = new Set(JSON.parse(readText("tools/unused-exports.json")) as readonly string[]);
    const found = new Set(unusedExports());
    assert.deepEqual(
      [...found].filter((one) => !listed.has(one)),
      [],
      "exported, and imported by no other file: remove `export`, or the code",
    );
    assert.deepEqual(
      [...listed].filter((one) => !found.has(one)),
      [],
      "no longer unused: lower tools/unused-exports.json by npm run generate",
    );
  });

  test("the reading sees declarations, lists, other names, whole modules and lazy ones", () => {
    const source = [
      "export const a = 1;",
      "export async function b() {}",
      "export abstract class C {}",
      "export interface D {}",
      "export type E = 1;",
      "/* export const f = 1; */",
      "const g = 1;",
    ].join("\n");
    assert.deepEqual(exportedValues(source), ["a", "b", "C"]);
    const imports = [
      'import h, { i, type J, k as l } from "./a.ts";',
      'import type { M } from "./b.ts";',
      'export {\n  n,\n  o as p,\n} from "./c.ts";',
      'import * as q from "./d.ts";',
      'const { r } = await import("./e.ts");',
      '// import { s } from "./f.ts";',
    ].join("\n");
    assert.deepEqual(namedImports(imports), [
      { from: "./a.ts", names: ["i", "J", "k"] },
      { from: "./b.ts", names: ["M"] },
      { from: "./c.ts", names: ["n", "o"] },
      { from: "./d.ts", names: ["*"] },
      { from: "./e.ts", names: ["*"] },
    ]);
  });
});
