import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { exportsDocument, exportsOf } from "./exports-file.ts";
import { readText } from "./sources.ts";

suite("exports", () => {
  test("every package lets out what tools/exports.json says (changed on purpose: npm run generate)", () => {
    const wanted = JSON.parse(readText("tools/exports.json")) as Record<string, string[]>;
    const found = JSON.parse(exportsDocument()) as Record<string, string[]>;
    assert.deepEqual(found, wanted);
    assert.ok(found.base?.includes("AppError") && found.base.includes("type Metrics"));
  });

  test("no name is let out twice", () => {
    for (const [name, names] of Object.entries(JSON.parse(exportsDocument()) as Record<string, string[]>)) {
      assert.deepEqual(names, [...new Set(names)], name);
    }
  });

  test("the reading sees lists, types, other names and declarations", () => {
    const source = [
      'export { a, type B, c as d } from "./x.ts";',
      'export type { E, F as G } from "./y.ts";',
      "export const h = 1;",
      "export async function i() {}",
      "export interface J {}",
      "/** export { k } */",
      'export {\n  l,\n  type M as N,\n} from "./z.ts";',
    ].join("\n");
    assert.deepEqual(exportsOf(source), ["a", "d", "h", "i", "l", "type B", "type E", "type G", "type J", "type N"]);
  });
});
