import { dirname, join, normalize } from "node:path";
import { files, readPackage, readText, withoutComments } from "./sources.ts";

/** Names that a source takes from another: `*` for all of it. */
interface Import {
  readonly from: string;
  readonly names: readonly string[];
}

const LISTED = /\b(?:import|export)\b\s*(?:type\b\s*)?(?:[\w$]+\s*,\s*)?\{([^}]*)\}\s*from\s*["']([^"']+)["']/g;
const WHOLE = /\b(?:import|export)\b\s*(?:type\b\s*)?\*(?:\s*as\s+[\w$]+)?\s*from\s*["']([^"']+)["']/g;
const DYNAMIC = /\bimport\(\s*["']([^"']+)["']\s*\)/g;

function originals(list: string): string[] {
  return list
    .split(",")
    .map((item) =>
      item
        .trim()
        .replace(/^type\s+/, "")
        .replace(/\s+as\s+.*$/s, ""),
    )
    .filter((item) => item !== "");
}

/** What a source imports and re-exports by name. Of a module that is loaded while the program runs, all is taken as used. */
export function namedImports(source: string): Import[] {
  const code = withoutComments(source);
  return [
    ...[...code.matchAll(LISTED)].map(([, list = "", from = ""]) => ({ from, names: originals(list) })),
    ...[...code.matchAll(WHOLE)].map(([, from = ""]) => ({ from, names: ["*"] })),
    ...[...code.matchAll(DYNAMIC)].map(([, from = ""]) => ({ from, names: ["*"] })),
  ];
}

/** Values that a source declares and exports; types are left out, as declarations of others need them. */
export function exportedValues(source: string): string[] {
  const declared = /^export\s+(?:(?:async\s+)?function\*?|const|let|abstract\s+class|class)\s+([\w$]+)/gm;
  return [...withoutComments(source).matchAll(declared)].map(([, name = ""]) => name);
}

/** Values among the names that an entry of a package lets out. */
function entryValues(source: string): string[] {
  return [...withoutComments(source).matchAll(/\bexport\s*\{([^}]*)\}/g)].flatMap(([, list = ""]) =>
    list
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== "" && !item.startsWith("type "))
      .map((item) => item.replace(/^\S+\s+as\s+/, "")),
  );
}

/** Every value that a package or app exports and no other file imports, as `path name`; entries of packages included. */
export function unusedExports(): string[] {
  const entries = new Map(
    files("packages/*/package.json").flatMap((path) => {
      const { name = "", exports = {} } = readPackage(path);
      return Object.entries(exports).map(
        ([entry, source]) => [join(name, entry), join(dirname(path), source)] as const,
      );
    }),
  );
  const used = new Map<string, Set<string>>();
  const readers = files("{packages,apps,test,bench,tools}/**/*.{ts,js,mjs}").filter(
    (path) => !path.includes("/generated/"),
  );
  for (const path of readers) {
    for (const { from, names } of namedImports(readText(path))) {
      const target = from.startsWith(".") ? normalize(join(dirname(path), from)) : entries.get(from);
      if (target === undefined) continue;
      const own = used.get(target) ?? new Set();
      for (const name of names) own.add(name);
      used.set(target, own);
    }
  }
  const isEntry = new Set(entries.values());
  return files("packages/*/src/**/*.ts", "apps/*/src/**/*.ts")
    .filter((path) => !path.includes("/generated/") && !path.endsWith(".test.ts"))
    .flatMap((path) => {
      const own = used.get(path);
      if (own?.has("*") === true) return [];
      const source = readText(path);
      const values = [...exportedValues(source), ...(isEntry.has(path) ? entryValues(source) : [])];
      return values.filter((name) => own?.has(name) !== true).map((name) => `${path} ${name}`);
    });
}

const LIST = "tools/unused-exports.json";

/** Text of `tools/unused-exports.json`: what is left of it; a run of the generator never adds to it. */
export function unusedExportsDocument(): string {
  const found = new Set(unusedExports());
  const left = (JSON.parse(readText(LIST)) as readonly string[]).filter((one) => found.has(one));
  return `${JSON.stringify(left, null, 2)}\n`;
}
