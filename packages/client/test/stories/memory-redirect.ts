import { registerHooks } from "node:module";

const CLIENT_SOURCES = new URL("../../src/", import.meta.url).href;
const REPLACEMENTS: ReadonlyMap<string, string> = new Map([
  ["node:fs/promises", new URL("memory-files.ts", import.meta.url).href],
  ["node:sqlite", new URL("memory-locks.ts", import.meta.url).href],
]);

/** A change of one source of the client's: a mistake that stories have to notice. */
export interface SourceChange {
  /** Name of the file in `packages/client/src`. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

function changed(source: string, { file, from, to }: SourceChange): string {
  if (!source.includes(from)) throw new Error(`${file} has no ${JSON.stringify(from)}: adapt the change to it`);
  return source.replace(from, () => to);
}

/**
 * Gives the client's journal a disk in memory instead of the machine's, from its next import on: its code stays as it is, and
 * each of its reads and writes becomes a point at which a simulated process can end. `changes` are made to its sources.
 */
export function redirectJournalToMemory(changes: readonly SourceChange[] = []): void {
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const isOfClient = context.parentURL?.startsWith(CLIENT_SOURCES) === true;
      return nextResolve((isOfClient ? REPLACEMENTS.get(specifier) : undefined) ?? specifier, context);
    },
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      const ofFile = changes.filter(({ file }) => url === `${CLIENT_SOURCES}${file}`);
      if (ofFile.length === 0) return loaded;
      const { source } = loaded;
      const text = typeof source === "string" ? source : Buffer.from((source ?? "") as Uint8Array).toString("utf8");
      return { ...loaded, source: ofFile.reduce(changed, text) };
    },
  });
}
