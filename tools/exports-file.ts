import { basename, dirname, join } from "node:path";
import { files, readPackage, readText, withoutComments } from "./sources.ts";

/** Names that an entry of a package, such as its `index.ts`, exports; types as `type Name`. */
export function exportsOf(source: string): string[] {
  const code = withoutComments(source);
  const lists = [...code.matchAll(/\bexport\s+(type\s+)?\{([^}]*)\}/g)].flatMap(([, type, list = ""]) =>
    list
      .split(",")
      .map((item) => item.trim().replace(/^(type\s+)?\S+\s+as\s+/, "$1"))
      .filter((item) => item !== "")
      .map((item) => (type === undefined || item.startsWith("type ") ? item : `type ${item}`)),
  );
  const own = [
    ...code.matchAll(/\bexport\s+(?:(?:async\s+)?function\*?|const|class)\s+(\w+)/g),
    ...code.matchAll(/\bexport\s+(?:interface|type)\s+(\w+)/g),
  ].map(([text, name = ""]) => (/export\s+(interface|type)/.test(text) ? `type ${name}` : name));
  return [...lists, ...own].map((item) => item.replace(/\s+/g, " ")).sort();
}

/** Text of `tools/exports.json`: what each package exports, by the path that others import. */
export function exportsDocument(): string {
  const entries = files("packages/*/package.json").flatMap((path) => {
    const name = basename(dirname(path));
    return Object.entries(readPackage(path).exports ?? {}).map(([entry, source]) => [
      join(name, entry),
      exportsOf(readText(join(dirname(path), source))),
    ]);
  });
  return `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`;
}
