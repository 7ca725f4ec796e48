import { dirname, join, normalize } from "node:path";
import { files, importsOf, isTestCode, readText } from "./sources.ts";

/** What each file imports, by path. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>;

/** Imports between files of product code, types included: who reads a type reads its file. */
export function importGraph(): ImportGraph {
  const paths = files("packages/*/src/**/*.ts", "apps/*/src/**/*.ts").filter(
    (path) => !isTestCode(path) && !path.includes("/generated/"),
  );
  return new Map(
    paths.map((path) => {
      const relative = importsOf(readText(path)).filter((specifier) => specifier.startsWith("."));
      return [path, relative.map((specifier) => normalize(join(dirname(path), specifier)))];
    }),
  );
}

function reachedFrom(start: string, graph: ImportGraph): ReadonlySet<string> {
  const reached = new Set<string>();
  const open = [start];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    for (const next of graph.get(path) ?? []) {
      if (reached.has(next)) continue;
      reached.add(next);
      open.push(next);
    }
  }
  return reached;
}

/** Imports that are part of a cycle, as `importer → imported`, sorted. */
export function cyclicImports(graph: ImportGraph): string[] {
  const reached = new Map([...graph.keys()].map((path) => [path, reachedFrom(path, graph)]));
  return [...graph]
    .flatMap(([from, targets]) =>
      [...new Set(targets)]
        .filter((to) => to === from || reached.get(to)?.has(from) === true)
        .map((to) => `${from} → ${to}`),
    )
    .toSorted();
}

const LIST = "tools/import-cycles.json";

/** The cyclic imports of today; there must be no others. */
export function listedCycles(): readonly string[] {
  return JSON.parse(readText(LIST)) as readonly string[];
}

/** Text of `tools/import-cycles.json`: what is left of it; a run of the generator never adds to it. */
export function importCyclesDocument(): string {
  const found = new Set(cyclicImports(importGraph()));
  return `${JSON.stringify(
    listedCycles().filter((one) => found.has(one)),
    null,
    2,
  )}\n`;
}
