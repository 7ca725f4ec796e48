import assert from "node:assert/strict";
import { dirname, join, normalize } from "node:path";
import { suite, test } from "node:test";
import { cyclicImports, importGraph, listedCycles } from "./import-cycles.ts";
import { files, importsOf, isTestCode, productSources, readPackage, readText, withoutComments } from "./sources.ts";

/** Ranks of packages; of some, and of the app, the ranks of the folders of `src/` as well, where `.` has the files beside them. */
const LAYERS = JSON.parse(readText("tools/layers.json")) as {
  readonly packages: Readonly<Record<string, number>>;
  readonly folders: Readonly<Record<string, Readonly<Record<string, number>>>>;
};
const SCOPE = "@turnpike/";

/** The files that may call each function that makes a stage of a request. */
const MINTS: Readonly<Record<string, readonly string[]>> = {
  mintParsed: ["packages/gateway/src/edge/pipeline.ts", "packages/gateway/src/free/relay-calls.ts"],
  mintPaid: ["packages/payment/src/stage/claim.ts"],
  mintFree: ["packages/gateway/src/free/relay-calls.ts"],
  mintRelayed: ["packages/relay/src/engine/relay-engine.ts"],
};

/** What tests may use beside what their package declares. */
const FOR_TESTS = new Set(["testkit", "localnet"]);

const rankOf = (name: string): number => {
  const rank = LAYERS.packages[name];
  assert.ok(rank !== undefined, `packages/${name} has no rank in tools/layers.json`);
  return rank;
};

const packages = files("packages/*/package.json").map((path) => {
  const folder = dirname(path);
  const json = readPackage(path);
  return {
    short: folder.slice("packages/".length),
    folder,
    json,
    declared: new Set([...Object.keys(json.dependencies ?? {}), ...Object.keys(json.optionalDependencies ?? {})]),
    sources: files(`${folder}/{src,test}/**/*.ts`),
  };
});

/** What `exports` of the packages let others import: a package's name, or one of its entries. */
const ENTRIES = new Set(
  packages.flatMap(({ json }) => Object.keys(json.exports ?? {}).map((entry) => join(json.name ?? "", entry))),
);

/** `@scope/name` or `name` of an import; undefined for relative and built-in ones. */
function packageOf(specifier: string): string | undefined {
  if (specifier.startsWith(".") || specifier.startsWith("node:")) return undefined;
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** Everything wrong with one import. */
function importFault(pkg: (typeof packages)[number], path: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) {
    const target = normalize(join(dirname(path), specifier));
    return target.startsWith(`${pkg.folder}/`) ? undefined : `leaves its package: ${specifier}`;
  }
  const name = packageOf(specifier);
  if (name === undefined) return undefined;
  if (name === "turnpike") return "imports an app";
  const short = name.startsWith(SCOPE) ? name.slice(SCOPE.length) : undefined;
  if (short !== undefined && !ENTRIES.has(specifier)) return `goes past the entries of ${name}: ${specifier}`;
  if (short === pkg.short) return "imports its own package by name";
  if (isTestCode(path)) {
    if (short === undefined || FOR_TESTS.has(short) || pkg.declared.has(name)) return undefined;
    return rankOf(short) < rankOf(pkg.short) ? undefined : `imports upward: ${name}`;
  }
  if (short === "testkit") return `imports ${name}, which is for tests`;
  if (!pkg.declared.has(name)) return `imports ${name}, which ${pkg.folder}/package.json does not declare`;
  if (short !== undefined && rankOf(short) >= rankOf(pkg.short)) return `imports upward: ${name}`;
  return undefined;
}

/** Pairs of folders of a package's `src/` of which each imports the other, by whatever way; files beside them (`.`) count for none. */
function mutualFolders(imports: readonly (readonly [from: string, to: string, path?: string])[]): readonly string[] {
  const reached = new Map<string, Set<string>>();
  for (const [from, to] of imports)
    if (from !== "." && to !== ".") reached.set(from, (reached.get(from) ?? new Set()).add(to));
  for (let hasGrown = true; hasGrown; ) {
    hasGrown = false;
    for (const own of reached.values()) {
      const { size } = own;
      for (const one of own) for (const next of reached.get(one) ?? []) own.add(next);
      hasGrown ||= own.size > size;
    }
  }
  const pairs = [...reached].flatMap(([from, own]) =>
    [...own].filter((to) => from < to && reached.get(to)?.has(from) === true).map((to) => `${from} and ${to}`),
  );
  return pairs.toSorted();
}

/** The imports of product code between folders of a package's `src/`; `.` has the files beside them. */
function folderImports(root: string): readonly (readonly [from: string, to: string, path: string])[] {
  const folderOf = (path: string): string =>
    path.startsWith(root) ? dirname(path.slice(root.length)).split("/", 1).join() : "";
  return files(`${root}**/*.ts`)
    .filter((path) => !isTestCode(path))
    .flatMap((path) => {
      const from = folderOf(path);
      const targets = importsOf(readText(path)).filter((specifier) => specifier.startsWith("."));
      const folders = targets.map((specifier) => folderOf(normalize(join(dirname(path), specifier))));
      return folders.filter((to) => to !== from).map((to) => [from, to, path] as const);
    });
}

/** Imports that do not lead from a folder to one of a lower rank, and folders that have none. */
function folderFaults(
  ranks: Readonly<Record<string, number>>,
  imports: readonly (readonly [from: string, to: string, path: string])[],
): readonly string[] {
  return imports.flatMap(([from, to, path]) => {
    const [upper, lower] = [ranks[from], ranks[to]];
    if (upper === undefined || lower === undefined) return [`${path}: ${upper === undefined ? from : to} has no rank`];
    return upper > lower ? [] : [`${path}: ${from} (${upper}) imports ${to} (${lower})`];
  });
}

suite("layers", () => {
  test("every package has a rank, and declares only packages below it", () => {
    assert.ok(packages.length >= 10);
    for (const { short, json } of packages) {
      assert.equal(json.name, `${SCOPE}${short}`);
      for (const name of Object.keys({ ...json.dependencies, ...json.devDependencies, ...json.optionalDependencies })) {
        assert.notEqual(name, "turnpike", `${short} depends on an app`);
        if (!name.startsWith(SCOPE)) continue;
        const other = name.slice(SCOPE.length);
        assert.ok(
          rankOf(other) < rankOf(short),
          `${short} (${rankOf(short)}) depends upward on ${other} (${rankOf(other)})`,
        );
      }
    }
  });

  test("every import of a package is declared, and goes down to an entry of a package", () => {
    const faults = packages.flatMap((pkg) =>
      pkg.sources.flatMap((path) =>
        importsOf(readText(path)).flatMap((specifier) => {
          const fault = importFault(pkg, path, specifier);
          return fault === undefined ? [] : [`${path} ${fault}`];
        }),
      ),
    );
    assert.deepEqual(faults, []);
  });

  test("every dependency that a package declares is named by its code, and not by its tests alone", () => {
    const unused = packages.flatMap(({ folder, json }) => {
      // A package for tests is test code as a whole.
      const sources = files(`${folder}/src/**/*.ts`).filter(
        (path) => folder === "packages/testkit" || !isTestCode(path),
      );
      const code = sources.map((path) => withoutComments(readText(path)));
      // Some are resolved at run time, and not imported.
      const isNamed = (name: string): boolean =>
        code.some((text) => [`"${name}"`, `"${name}/`].some((quoted) => text.includes(quoted)));
      const names = Object.keys(json.dependencies ?? {});
      return names.filter((name) => !isNamed(name)).map((name) => `${folder} does not use ${name}`);
    });
    assert.deepEqual(unused, []);
  });

  test("no two folders of the relay, nor of the chain, import each other", () => {
    for (const [name, from, to] of [
      ["relay", "engine", "cache"],
      ["chain", "tx", "state"],
    ] as const) {
      const imports = folderImports(`packages/${name}/src/`);
      assert.ok(imports.some((edge) => edge[0] === from && edge[1] === to));
      assert.deepEqual(mutualFolders(imports), [], name);
    }
    const cycle = [
      ["a", "b"],
      ["b", "c"],
      ["c", "a"],
      ["c", "d"],
    ] as const;
    assert.deepEqual(mutualFolders(cycle), ["a and b", "a and c", "b and c"]);
  });

  test("imports between the folders of a package lead to lower ranks", () => {
    for (const [short, ranks] of Object.entries(LAYERS.folders)) {
      // Files beside the folders have a rank where all of them are on top: elsewhere some are shared types, and some put the parts together.
      const imports = folderImports(`${short in LAYERS.packages ? "packages" : "apps"}/${short}/src/`).filter(
        ([from, to]) => "." in ranks || (from !== "." && to !== "."),
      );
      const known = new Set(imports.flatMap(([from, to]) => [from, to]));
      assert.deepEqual(Object.keys(ranks).sort(), [...known].sort(), `folders of ${short} in tools/layers.json`);
      assert.deepEqual(folderFaults(ranks, imports), []);
    }
    const faults = folderFaults({ ".": 2, a: 1, b: 1 }, [
      [".", "a", "1.ts"],
      ["a", ".", "2.ts"],
      ["a", "b", "3.ts"],
      ["b", "c", "4.ts"],
    ]);
    assert.deepEqual(faults, ["2.ts: a (1) imports . (2)", "3.ts: a (1) imports b (1)", "4.ts: c has no rank"]);
  });

  test("no import is part of a cycle of files, but those of the list, which may only shrink", () => {
    const found = cyclicImports(importGraph());
    assert.deepEqual(
      found.filter((one) => !listedCycles().includes(one)),
      [],
      "a cycle of imports: move what both files need into a third",
    );
    assert.deepEqual(
      listedCycles().filter((one) => !found.includes(one)),
      [],
      "no longer part of a cycle: lower tools/import-cycles.json by npm run generate",
    );
    const graph = new Map([
      ["a", ["b", "d"]],
      ["b", ["c"]],
      ["c", ["a", "d"]],
      ["d", ["e"]],
      ["e", ["e"]],
    ]);
    assert.deepEqual(cyclicImports(graph), ["a → b", "b → c", "c → a", "e → e"]);
  });

  test("every package has one entry, some more, and what they export has names", () => {
    const more: Readonly<Record<string, readonly string[]>> = {
      // Tests load what they need of the testkit, and no more.
      testkit: [
        "arbitrary",
        "chain",
        "chain-relays",
        "chance",
        "cometbft",
        "embedded-node",
        "fixtures",
        "hostile-seller",
        "later-program",
        "property",
        "servers",
      ],
      // Commands read what runs here without loading what runs it, and a chain's commands load nothing of up's.
      devnet: ["files", "ports", "up"],
    };
    for (const { short, folder, json } of packages) {
      const entries = more[short] ?? [];
      const exported = Object.fromEntries(entries.map((name) => [`./${name}`, `./src/${name}.ts`]));
      assert.deepEqual(json.exports, { ".": "./src/index.ts", ...exported }, short);
      assert.doesNotMatch(withoutComments(readText(`${folder}/src/index.ts`)), /export\s+\*|export\s+default/, short);
    }
  });

  test("each stage of a request is made by its owner alone", () => {
    const defined = [...readText("packages/protocol/src/stages.ts").matchAll(/export function (mint\w+)/g)];
    assert.deepEqual(
      defined.map(([, name]) => name),
      Object.keys(MINTS),
    );
    for (const [mint, allowed] of Object.entries(MINTS)) {
      const callers = productSources().filter(
        (path) =>
          !path.startsWith("packages/protocol/") && new RegExp(`\\b${mint}\\b`).test(withoutComments(readText(path))),
      );
      assert.deepEqual(callers, allowed, `files that call ${mint}`);
    }
  });

  test("no code of the product imports code that is for tests", () => {
    const faults = productSources().flatMap((path) =>
      importsOf(readText(path))
        .filter((specifier) => specifier.startsWith(".") && isTestCode(normalize(join(dirname(path), specifier))))
        .map((specifier) => `${path} imports ${specifier}`),
    );
    assert.deepEqual(faults, []);
  });

  test("no code of the product asserts as tests do: what tests share is in a package's test/, or in testkit", () => {
    const forTests = new Set(["node:test", "node:assert", "node:assert/strict"]);
    const faults = productSources().filter((path) => importsOf(readText(path)).some((name) => forTests.has(name)));
    assert.deepEqual(faults, []);
  });

  test("every test has the ending that the runner looks for", () => {
    assert.deepEqual(files("{packages,apps,test,tools}/**/*.{spec,tests}.ts"), []);
  });

  test("the check itself sees an upward, an undeclared, a deep and an app's import", () => {
    const relay = packages.find(({ short }) => short === "relay");
    assert.ok(relay !== undefined);
    const path = `${relay.folder}/src/x.ts`;
    const code = [
      'import { a } from "@turnpike/gateway";',
      'import type { b } from "@turnpike/base/src/errors.ts";',
      'import "turnpike";',
      'export { c } from "../../base/src/index.ts";',
      'import {\n  d,\n} from "@turnpike/protocol";',
      '/** import { e } from "@turnpike/gateway"; */',
      'const f = await import("left-pad");',
    ].join("\n");
    const faults = importsOf(code).map((specifier) => importFault(relay, path, specifier));
    assert.deepEqual(faults, [
      "imports @turnpike/gateway, which packages/relay/package.json does not declare",
      "goes past the entries of @turnpike/base: @turnpike/base/src/errors.ts",
      "leaves its package: ../../base/src/index.ts",
      undefined,
      "imports an app",
      "imports left-pad, which packages/relay/package.json does not declare",
    ]);
  });
});
