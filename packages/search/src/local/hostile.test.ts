import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { silentLog } from "@turnpike/base";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { documentOf, temporaryFolder } from "../../test/local/index.ts";
import { IndexSearcher } from "./searcher.ts";
import { openIndexWriter } from "./writer.ts";

const WORDS = [
  "harbour",
  "ships",
  "东京大学",
  "Häuser",
  "данные",
  "مدينة",
  "near",
  "and",
  "or",
  "not",
  "title",
  "body",
  "select",
  "c++",
];

function index(): Disposable & { readonly searcher: IndexSearcher } {
  const owned = new DisposableStack();
  const file = join(owned.use(temporaryFolder()).path, "index.sqlite");
  const writer = owned.use(openIndexWriter({ file }, { log: silentLog }));
  writer.put(
    Array.from({ length: 60 }, (_, n) =>
      documentOf({
        url: `https://a.test/${n}`,
        title: WORDS[n % WORDS.length] ?? "",
        text: `${WORDS.slice(n % 5).join(" ")} ${n}`,
        language: ["en", "de", "ru", "ar", "zh", "fr", "tr", "fi"][n % 8],
      }),
    ),
  );
  const searcher = owned.use(new IndexSearcher({ file, maxSnippetChars: 120 }));
  return { searcher, [Symbol.dispose]: () => owned.dispose() };
}

function ask(searcher: IndexSearcher, query: string): number {
  const hits = searcher.search(query, 10, performance.now() + 60_000);
  for (const { url, snippet, title } of hits) {
    assert.match(url, /^https:/u);
    assert.ok(snippet.isWellFormed() && title.isWellFormed() && snippet.length <= 120);
  }
  return hits.length;
}

const KIB16 = 16_384;
const HOSTILE: Readonly<Record<string, string>> = {
  "nothing but quotes": '"'.repeat(KIB16),
  "quotes with words": '"harbour '.repeat(KIB16 / 9),
  "an open quote": `"${"harbour ".repeat(2_000)}`,
  parentheses: `${"(".repeat(KIB16 / 2)}${")".repeat(KIB16 / 2)}`,
  "operators of FTS5": "NEAR(harbour ships, 5) AND NOT OR title: {body} : ^harbour* + -ships * ) ( NOT",
  "only operators": "AND OR NOT NEAR",
  "a column that is not there": 'nosuchcolumn : "harbour"',
  SQL: `'; drop table documents; -- " or 1=1 /* */ union select sql from sqlite_master`,
  "NUL and control characters": "har\0bour \u0001\u001b[31m ships\0",
  "right-to-left marks and zero widths": "\u202e\u200fhar\u200bbour\u2066\ufeff \u202dships\u061c",
  "only marks": "\u0301\u0302\u200d\ufe0f".repeat(4_000),
  "very many words": Array.from({ length: 4_000 }, (_, n) => `w${n}`).join(" "),
  "very many exclusions": Array.from({ length: 3_000 }, (_, n) => `-w${n}`).join(" "),
  "very many phrases": Array.from({ length: 1_500 }, (_, n) => `"harbour ${n}"`).join(" "),
  "one endless word": "a".repeat(KIB16),
  "an endless word without spaces": "漢".repeat(KIB16 / 3),
  "a tower of accents": `a${"\u0301".repeat(KIB16 / 2)}`,
  hyphens: "-".repeat(KIB16),
  stars: "* ".repeat(KIB16 / 2),
  "letters that grow": "ﷺ".repeat(5_000),
  "flags and families": "👨‍👩‍👧‍👦🇩🇪".repeat(600),
  "lone surrogates": "\ud800\udc00\ud800 harbour \udfff",
  "names of an object": "__proto__ constructor toString hasOwnProperty valueOf",
  nothing: "",
};

test("hostile queries are answered, within time", async (t) => {
  using made = index();
  for (const [name, query] of Object.entries(HOSTILE)) await t.test(name, () => void ask(made.searcher, query));
});

test("operators, signs and invisible characters do not keep words from being found", () => {
  using made = index();
  for (const query of [
    "harbour AND",
    "NEAR(harbour)",
    "^harbour*",
    "{title}:harbour",
    '"harbour',
    "har\u200bbour",
    "\u202eharbour",
    "ha\u00adrbour",
    "'harbour' --",
    "HARBOUR!",
    `${"( ".repeat(3_000)}harbour`,
  ]) {
    assert.ok(ask(made.searcher, query) > 0, query);
  }
});

test("any string is a query", () => {
  using made = index();
  const sign = fc.constantFrom(
    '"',
    "(",
    ")",
    "*",
    "^",
    ":",
    "-",
    "+",
    "{",
    "}",
    "'",
    " ",
    "\0",
    "\u202e",
    "AND ",
    " NOT ",
    "NEAR(",
    '-"',
  );
  const part = fc.oneof(
    fc.string({ unit: anyCodePoint }),
    fc.string({ unit: "grapheme" }),
    sign,
    fc.constantFrom(...WORDS),
  );
  const query = fc.oneof(
    fc.array(part, { maxLength: 40 }).map((parts) => parts.join("")),
    fc.string({ unit: anyCodePoint, maxLength: 400 }),
  );
  fc.assert(
    fc.property(query, (text) => void ask(made.searcher, text)),
    { numRuns: 600 },
  );
});

test("any text can be indexed, in any language, and its first word is found", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using writer = openIndexWriter({ file }, { log: silentLog });
  using searcher = new IndexSearcher({ file, maxSnippetChars: 120 });
  const language = fc.constantFrom(
    ..."ar hy eu ca cs da nl en fi fr de hu it ga no pt ro ru es sl sv ta tr zh xx".split(" "),
  );
  const text = fc.oneof(
    fc.string({ unit: anyCodePoint, maxLength: 300 }),
    fc.string({ unit: "grapheme", maxLength: 300 }),
  );
  fc.assert(
    fc.property(text, text, language, (title, body, code) => {
      writer.put([documentOf({ url: "https://a.test/", title, text: `wordfirst ${body}`, language: code })]);
      assert.equal(ask(searcher, "wordfirst"), 1);
      ask(searcher, body);
    }),
    { numRuns: 400 },
  );
});

test("a search past its time ends by itself with an error", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "index.sqlite");
  using writer = openIndexWriter({ file }, { log: silentLog });
  writer.put(Array.from({ length: 3_000 }, (_, n) => documentOf({ url: `https://a.test/${n}`, text: "harbour" })));
  using searcher = new IndexSearcher({ file, maxSnippetChars: 120 });
  assert.throws(() => searcher.search("harbour", 10, performance.now() - 1), { code: "SEARCH_ENGINE_FAILED" });
  assert.equal(searcher.search("harbour", 10, performance.now() + 60_000).length, 1);
});
