import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { StateReads } from "../src/state/overlay.ts";

/** A collection of the state, as the source declares it. */
export interface DeclaredCollection {
  /** Module and constant, such as `bank/balances`; of earlier versions of records with `by height` for their index. */
  readonly name: string;
  /** Bytes that all its keys begin with. */
  readonly prefix: Buffer;
}

const SOURCE = fileURLToPath(new URL("../src/", import.meta.url));
const COLLECTION =
  /const (\w+) = new Collection\(\{[^}]*?prefix: (?:Uint8Array\.of|prefix|utf8ToBytes)\((0x[\da-f]+|\d+|"\w+")\)/g;
const VERSIONS = /const (\w+) = new Versions\(\{[^}]*?prefixes: \[(\d+), (\d+)\]/g;
/** Collections that are declared outside of their module's folder. */
const OUTSIDE: ReadonlyMap<string, string> = new Map([["rules.ts", "upgrade"]]);

function start(module: string, prefix: string): Buffer {
  const own = prefix.startsWith('"') ? Buffer.from(prefix.slice(1, -1)) : Buffer.of(Number(prefix));
  return Buffer.concat([Buffer.from(`${module}/`), own]);
}

/** All collections of the chain's state, by the source of the modules: one that is declared in another form fails. */
export function declaredCollections(): DeclaredCollection[] {
  const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && basename(file) !== "versions.ts")
    .sort()
    .flatMap((file) => {
      const text = readFileSync(join(SOURCE, file), "utf8");
      const module = OUTSIDE.get(basename(file)) ?? basename(dirname(file));
      const collections = [...text.matchAll(COLLECTION)].map(([, name, prefix = ""]) => ({
        name: `${module}/${name}`,
        prefix: start(module, prefix),
      }));
      const versions = [...text.matchAll(VERSIONS)].map(([, name, entries = "", byHeight = ""]) => [
        { name: `${module}/${name}`, prefix: start(module, entries) },
        { name: `${module}/${name} by height`, prefix: start(module, byHeight) },
      ]);
      const declared = text.match(/new (Collection|Versions)\(/g)?.length ?? 0;
      assert.equal(collections.length + versions.length, declared, `declarations of ${file} that are not read`);
      return [...collections, ...versions.flat()];
    });
}

/** Entries of a collection, keys and values in hex. */
export function entriesOf(state: StateReads, { prefix }: DeclaredCollection): string[] {
  return Array.from(state.range({ prefix }), ([key, value]) => {
    const rest = Buffer.from(key).subarray(prefix.length);
    return `${rest.toString("hex")} ${Buffer.from(value).toString("hex")}`;
  });
}
