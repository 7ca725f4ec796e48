import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { SearchSource } from "./configs.ts";

/** The product's own folder: four levels above this file. */
const HOME = new URL("../../../../", import.meta.url);

/**
 * What the local index of `turnpike up` is made of, so that a first search finds real documents without the internet:
 * the product's documentation, and what its npm packages ship. What is not there is left out.
 */
export function localSources(): readonly SearchSource[] {
  const sources: readonly SearchSource[] = [
    { kind: "folder", target: fileURLToPath(new URL("docs", HOME)) },
    { kind: "folder", target: fileURLToPath(new URL("README.md", HOME)) },
    { kind: "packages", target: fileURLToPath(new URL("node_modules", HOME)) },
  ];
  return sources.filter(({ target }) => existsSync(target));
}
