import { basename } from "node:path";
import { files, isTestCode, ROOT, readText } from "./sources.ts";

/** A word that code and pages stop using, for a standard one (docs/GLOSSARY.md has both). */
export interface RetiredWord {
  /** Its row in the glossary's last table, and its key in `tools/retired-words.json`. */
  readonly word: string;
  /** Looked for in prose as {@link proseOf} makes it, where identifiers and file names are split into words. */
  readonly pattern: RegExp;
  readonly instead: string;
}

/** Words that have a plain meaning, too, are looked for by the form in which they are our own: a class, or a phrase. */
export const RETIRED_WORDS: readonly RetiredWord[] = [
  { word: "as X has it", pattern: /\bas (?:[^\s.;:()]+ ){1,5}has it\b/gi, instead: "per X, as in X" },
  { word: "books", pattern: /\bbooks\b/gi, instead: "ledger, journal, accounts" },
  { word: "desk", pattern: /\bdesks?\b/gi, instead: "request runner" },
  { word: "door", pattern: /\bdoors?\b/gi, instead: "listener, handler, entry" },
  { word: "Ending", pattern: /\bEnding\b/g, instead: "response summary, outcome" },
  {
    word: "forget",
    pattern: /\b(?:forget(?:s|ting)?|forgot(?:ten)?)\b/gi,
    instead: "purge, evict, discard, delete, prune",
  },
  { word: "forgive", pattern: /\bforg(?:ive[sn]?|iving|ave)\b/gi, instead: "reset the score" },
  { word: "front", pattern: /\bfront(?: door|\.ts)\b/gi, instead: "listener, entry" },
  { word: "house", pattern: /\bhouses?\b/gi, instead: "repository, code base" },
  { word: "Lane", pattern: /\blanes?\b/gi, instead: "relayer account, queue" },
  { word: "let go", pattern: /\b(?:lets?|letting) go\b/gi, instead: "release, close" },
  { word: "make good", pattern: /\bma(?:k(?:es?|ing)|de) (?:it |them |this )?good\b/gi, instead: "refund, compensate" },
  { word: "mend", pattern: /\bmend(?:s|ed|ing)?\b/gi, instead: "fix, repair, recover" },
  { word: "nobody", pattern: /(?!(?<=["`])nobody["`])\bnobody\b/gi, instead: "no client, no one, or the passive" },
  {
    word: "options of",
    pattern: /\/\*\* (?:The )?[Oo]ptions of [^.]*\. \*\//g,
    instead: "nothing, or what they decide",
  },
  { word: "pursuit", pattern: /\bpursui(?:t|ts)\b/gi, instead: "retrying request" },
  { word: "Quiet", pattern: /\bQuiet\b|\bquiet\./g, instead: "fault log throttle" },
  { word: "relay chain", pattern: /\brelay chains?\b/gi, instead: "chain, the protocol's chain" },
  { word: "stranger", pattern: /\bstrangers?\b/gi, instead: "client, third party, non-member; untrusted" },
  {
    word: "tell",
    pattern: /\b(?:tell(?:s|ing|er)?(?! the user\b)|told)\b/gi,
    instead: "report, return, notify, record, distinguish",
  },
  { word: "Trail", pattern: /\btrails?\b/gi, instead: "request context" },
  { word: "turns", pattern: /\bturns\b/gi, instead: "event loop queue; converts, alternates, becomes" },
  { word: "unsent", pattern: /\bunsent\b/gi, instead: "write buffer budget; not sent" },
  { word: "what is there", pattern: /\bwhat is there\b/gi, instead: "the name of the thing" },
  { word: "whoever", pattern: /\bwho(?:m)?ever\b/gi, instead: "the caller, the client, the owner" },
  {
    word: "word of",
    pattern: /\b(?:the word of the|at (?:its|their|his) word|tak(?:es?|ing|en) (?!the |a )[^\s.]+ word)\b/gi,
    instead: "report, claim, statement; trust",
  },
  { word: "Works", pattern: /\bWorks\b|\bworks\.(?=\w)/g, instead: "in-flight tracker" },
  {
    word: "works with",
    pattern: /\/\*\* What [^.;:]{1,60} works? with\b/g,
    instead: "nothing, or what each member is for",
  },
];

/** Where a retired word stands. */
export interface RetiredUse {
  readonly word: string;
  readonly path: string;
  readonly line: number;
}

/** Counts by group (a package, `turnpike` or `docs`) and word. */
export type RetiredCounts = Readonly<Record<string, Readonly<Record<string, number>>>>;

const LIST = "tools/retired-words.json";

/** A source in which each identifier is the words that it is made of. */
function proseOf(source: string): string {
  return source
    .replaceAll(/([a-z\d])([A-Z])/g, "$1 $2")
    .replaceAll(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .replaceAll("_", " ");
}

/** A source in one line, so that a phrase may stand over the end of one, and the line that a place of it came from. */
function unwrapped(source: string): { readonly text: string; readonly lineAt: (index: number) => number } {
  const starts: number[] = [0];
  let text = "";
  for (const [at, line] of source.split("\n").entries()) {
    const rest = at === 0 ? line : line.replace(/^\s*(?:\*(?!\/)|\/\/)?\s*/, "");
    if (at > 0) {
      text += " ";
      starts.push(text.length);
    }
    text += rest;
  }
  const lineAt = (index: number): number => {
    const line = starts.findIndex((start) => start > index);
    return line === -1 ? starts.length : line;
  };
  return { text, lineAt };
}

/** The retired words in a file: in its name, and in its identifiers, comments and texts. */
export function retiredUses(path: string, source: string): RetiredUse[] {
  const { text, lineAt } = unwrapped(proseOf(source));
  const name = basename(path).replaceAll(/-|\.[a-z]+$/g, " ");
  return RETIRED_WORDS.flatMap(({ word, pattern }) => [
    ...[...name.matchAll(new RegExp(pattern, "gi"))].map(() => ({ word, path, line: 0 })),
    ...[...text.matchAll(pattern)].map(({ index }) => ({ word, path, line: lineAt(index) })),
  ]);
}

/** The files of each group: code of the product and the testkit without what is generated, and the pages. */
export function retiredGroups(): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, string[]>();
  for (const path of files("packages/*/src/**/*.ts", "apps/*/src/**/*.ts")) {
    // Stop words are words of any text.
    const isOurs = !/\/generated\/|\.test\.ts$|\/stop-words\.ts$/.test(path);
    if (!isOurs || (isTestCode(path) && !path.startsWith("packages/testkit/"))) continue;
    const group = path.split("/")[1] ?? "";
    groups.set(group, [...(groups.get(group) ?? []), path]);
  }
  const pages = files("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md");
  groups.set(
    "docs",
    pages.filter((path) => path !== "docs/GLOSSARY.md"),
  );
  return groups;
}

/** Every use of a retired word in the repository, by group. */
export function allRetiredUses(): ReadonlyMap<string, readonly RetiredUse[]> {
  return new Map(
    [...retiredGroups()].map(([group, paths]) => [group, paths.flatMap((path) => retiredUses(path, readText(path)))]),
  );
}

/** How often each word stands in each group. */
export function countsOf(uses: ReadonlyMap<string, readonly RetiredUse[]>): RetiredCounts {
  const counts = [...uses].map(([group, own]) => {
    const words = RETIRED_WORDS.map(({ word }) => [word, own.filter((use) => use.word === word).length] as const);
    return [group, Object.fromEntries(words.filter(([, count]) => count > 0))] as const;
  });
  return Object.fromEntries(counts.filter(([, words]) => Object.keys(words).length > 0));
}

/** What the list allows. */
export function allowedCounts(): RetiredCounts {
  return JSON.parse(readText(LIST)) as RetiredCounts;
}

/** What was found, but nowhere more than was allowed. */
export function lowered(allowed: RetiredCounts, found: RetiredCounts): RetiredCounts {
  const groups = Object.entries(allowed).map(([group, words]) => {
    const counts = Object.entries(words).map(
      ([word, most]) => [word, Math.min(most, found[group]?.[word] ?? 0)] as const,
    );
    return [group, Object.fromEntries(counts.filter(([, count]) => count > 0))] as const;
  });
  return Object.fromEntries(groups.filter(([, words]) => Object.keys(words).length > 0));
}

/** Text of `tools/retired-words.json`, lowered to what is left; it never grows by a run of the generator. */
export function retiredWordsDocument(): string {
  return `${JSON.stringify(lowered(allowedCounts(), countsOf(allRetiredUses())), null, 2)}\n`;
}

/** What is wrong: words that came back, with every place of theirs in that group, and counts that were not lowered. */
export function retiredFaults(
  allowed: RetiredCounts,
  uses: ReadonlyMap<string, readonly RetiredUse[]>,
): readonly string[] {
  const found = countsOf(uses);
  const groups = new Set([...Object.keys(allowed), ...Object.keys(found)]);
  return [...groups].flatMap((group) =>
    RETIRED_WORDS.flatMap(({ word, instead }) => {
      const most = allowed[group]?.[word] ?? 0;
      const count = found[group]?.[word] ?? 0;
      if (count === most) return [];
      if (count < most) return [`${group}: "${word}" ${most} → ${count}: lower ${LIST} by npm run generate`];
      const own = (uses.get(group) ?? []).filter((use) => use.word === word);
      const places = own.map(({ path, line }) => `  ${path}${line === 0 ? " (its name)" : `:${line}`}`);
      return [`${group}: "${word}" ${most} → ${count}; say: ${instead}\n${places.join("\n")}`];
    }),
  );
}

// The one way to list what is left: node tools/retired-words.ts <group> [word]
if (process.argv[1] === `${ROOT}/tools/retired-words.ts`) {
  const [, , group = "", only] = process.argv;
  for (const { word, path, line } of allRetiredUses().get(group) ?? []) {
    if (only === undefined || only === word) process.stdout.write(`${path}:${line}: ${word}\n`);
  }
}
