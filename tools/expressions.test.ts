import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, suite, test } from "node:test";
import { expressionKey } from "./expressions/check.ts";
import type { Exception } from "./expressions/exceptions.ts";
import { lintExpressions } from "./expressions/lint.ts";

// In this process: the checker's own, which is quicker for a thousand expressions, would outlive the tests.
process.env.RECHECK_BACKEND = "pure";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "turnpike-expressions-")));
after(() => rmSync(folder, { recursive: true, force: true }));

let projects = 0;

/** A project of files, and the lint of it. */
function project(sources: Readonly<Record<string, string>>) {
  const root = join(folder, `p${projects++}`);
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  const compilerOptions = { noEmit: true, noResolve: true, noLib: true, types: [] };
  write("tsconfig.json", JSON.stringify({ compilerOptions, include: ["src/**/*.ts"] }));
  for (const [path, text] of Object.entries(sources)) write(path, text);
  const linearFile = join(root, "linear.json");
  return {
    write,
    list: () => JSON.parse(readFileSync(linearFile, "utf8")) as readonly string[],
    setList: (keys: readonly string[]) => writeFileSync(linearFile, JSON.stringify(keys)),
    faults: async (more: Partial<Parameters<typeof lintExpressions>[0]> = {}): Promise<readonly string[]> => {
      const files = { root, paths: Object.keys(sources), config: "tsconfig.json" };
      const lint = { exceptions: [], otherConstructors: {}, files, linearFile, all: false, write: true, ...more };
      return (await lintExpressions(lint)).faults;
    },
  };
}

const SLOW = "^(a|a)*$";
const slowIn = (name: string): string => `export const ${name} = /${SLOW}/;\n`;
const exceptionFor = (file: string, source = SLOW): Exception => ({ file, source, reason: "a test" });

suite("the lint of regular expressions", () => {
  test("finds each that is not linear with its place, wherever its pattern is written", async () => {
    const { faults } = project({
      "src/a.ts": `export const good = /^[a-z]+$/;\n\n${slowIn("slow")}`,
      "src/b.ts": `export const ID_PATTERN = "^(a+)+$";\nexport const schema = { pattern: "^(b|b)*$" };\n`,
      "src/c.ts": 'export const one = new RegExp("^(c*)*$", "g");\nexport const other = RegExp(`(d+)+$`);\n',
      "src/d.ts": 'const part = "(e+)+";\nexport const made = new RegExp("^" + part + "$");\n',
    });
    assert.deepEqual(
      (await faults()).map((fault) => fault.replace(/ is .*$/s, " is …")),
      [
        `src/a.ts:3: /${SLOW}/ is …`,
        "src/b.ts:1: /^(a+)+$/u is …",
        "src/b.ts:2: /^(b|b)*$/u is …",
        "src/c.ts:1: /^(c*)*$/g is …",
        "src/c.ts:2: /(d+)+$/ is …",
        "src/d.ts:2: /^(e+)+$/ is …",
      ],
    );
  });

  test("says how much more than linear it is, and for which text", async () => {
    const { faults } = project({ "src/a.ts": "export const slow = /checkpoint .* not found/;\n" });
    assert.match((await faults())[0] ?? "", /^src\/a\.ts:1: \/.*\/ is 2nd degree polynomial, such as for .*checkpoint/);
  });

  test("a constructor whose pattern is not known when the file is loaded is refused, unless its file is named", async () => {
    const { faults } = project({
      "src/a.ts": "export const of = (text: string): RegExp => new RegExp(text);\n",
    });
    assert.deepEqual(await faults(), [
      "src/a.ts:1: construct the expression when the file is loaded, so that its pattern can be checked",
    ]);
    assert.deepEqual(await faults({ otherConstructors: { "src/a.ts": "a test" } }), []);
  });

  test("an exception is of one expression in one file, and is refused when nothing needs it", async () => {
    const { faults } = project({ "src/a.ts": slowIn("slow") });
    assert.deepEqual(await faults({ exceptions: [exceptionFor("src/a.ts")] }), []);
    for (const exception of [exceptionFor("src/b.ts"), exceptionFor("src/a.ts", "^(a|a)")]) {
      const all = await faults({ exceptions: [exception] });
      const needless = `${exception.file}: the exception for /${exception.source}/ is not needed`;
      assert.deepEqual([all.length, all.includes(needless)], [2, true]);
      assert.ok(all.some((fault) => fault.startsWith(`src/a.ts:1: /${SLOW}/ is `)));
    }
  });

  test("an expression that changes is checked again, and the list has those that passed and are there", async () => {
    const here = project({ "src/a.ts": "export const one = /^[a-z]+$/;\n" });
    assert.deepEqual([await here.faults(), here.list().length], [[], 1]);
    const [first] = here.list();
    here.write("src/a.ts", slowIn("one"));
    assert.deepEqual([(await here.faults()).length, here.list()], [1, []]);
    // Its flags are a part of it.
    here.write("src/a.ts", "export const one = /^[a-z]+$/i;\n");
    assert.deepEqual(await here.faults(), []);
    assert.equal(here.list().length, 1);
    assert.notEqual(here.list()[0], first);
    here.write("src/a.ts", "export const one = /^[a-z]+$/;\n");
    assert.deepEqual([await here.faults({ write: false }), here.list().includes(String(first))], [[], false]);
  });

  test("what the list has is not checked again, but for --all, and what is in no source leaves it", async () => {
    const here = project({ "src/a.ts": slowIn("slow") });
    const listed = expressionKey({ source: SLOW, flags: "" });
    here.setList([listed, "0".repeat(32)]);
    assert.deepEqual([await here.faults(), here.list()], [[], [listed]]);
    assert.deepEqual([(await here.faults({ all: true })).length, here.list()], [1, []]);
  });
});
