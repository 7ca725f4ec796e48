import { dirname } from "node:path";
import { files, readText, withoutComments } from "./sources.ts";

/** Names that a door (`index.ts`) lets out; types as `type Name`. */
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

/** Text of `tools/exports.json`: what each package lets out. */
export function exportsDocument(): string {
  const doors = files("packages/*/src/index.ts").map((path) => [
    dirname(dirname(path)).slice("packages/".length),
    exportsOf(readText(path)),
  ]);
  return `${JSON.stringify(Object.fromEntries(doors), null, 2)}\n`;
}
