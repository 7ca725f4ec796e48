import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isRecord } from "@turnpike/base";

/** A document, and a description of it by somebody who never saw this program. */
export interface KnownItem {
  readonly id: string;
  readonly url: string;
  readonly title: string;
  readonly text: string;
  readonly query: string;
}

const LEAST_TEXT = 300;
const LEAST_WORDS = 4;

function packagesIn(folder: string): readonly string[] {
  const entries = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return entries
    .flatMap(({ name }) =>
      name.startsWith("@")
        ? readdirSync(join(folder, name), { withFileTypes: true })
            .filter((entry) => entry.isDirectory())
            .map((entry) => `${name}/${entry.name}`)
        : [name],
    )
    .filter((name) => !name.startsWith("."))
    .toSorted();
}

function itemOf(folder: string, name: string): KnownItem | undefined {
  const home = join(folder, name);
  const readme = readdirSync(home).find((file) => /^readme(?:\.md)?$/iu.test(file));
  if (readme === undefined) return undefined;
  const manifest: unknown = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  const query = isRecord(manifest) && typeof manifest.description === "string" ? manifest.description : "";
  // what describes it must not stand in it word for word
  const text = readFileSync(join(home, readme), "utf8").replaceAll(query, "");
  if (query.split(/\s+/u).length < LEAST_WORDS || text.length < LEAST_TEXT) return undefined;
  return { id: name, url: `https://packages.test/${name}`, title: name, text, query };
}

/** READMEs of the installed packages, each to be found by its package's description, which is taken out of it. */
export function readKnownItems(): readonly KnownItem[] {
  const folder = join(import.meta.dirname, "..", "..", "node_modules");
  return packagesIn(folder).flatMap((name) => {
    try {
      return itemOf(folder, name) ?? [];
    } catch {
      // a folder that is no package
      return [];
    }
  });
}

/** Mean of 1 / rank of the known item among the first ten; 0 where it is not. */
export function meanReciprocalRank(items: readonly KnownItem[], find: (query: string) => readonly string[]): number {
  const sum = items.reduce((total, { id, query }) => {
    const at = find(query).slice(0, 10).indexOf(id);
    return at < 0 ? total : total + 1 / (at + 1);
  }, 0);
  return sum / items.length;
}
