import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { buildPdf } from "../../test/extract/pdf.ts";
import type { Extracted } from "../types.ts";
import { extractPage } from "./extract-page.ts";

const LIMITS = { maxTextChars: 100_000, maxLinks: 100 };
const URL_ = "https://docs.example/guide/page";
const LONG = "The ledger keeps every receipt until its settlement is confirmed, and then archives it. ".repeat(6);

interface Options {
  readonly url?: string;
  readonly type?: string | undefined;
  readonly modified?: string;
}

async function extract(body: string | Uint8Array, options: Options = {}): Promise<Extracted> {
  const page = {
    url: options.url ?? URL_,
    contentType: "type" in options ? options.type : "text/html",
    body: typeof body === "string" ? Buffer.from(body) : body,
    modified: options.modified,
  };
  return extractPage(page, LIMITS, () => {});
}

async function page(body: string | Uint8Array, options: Options = {}): Promise<Extracted & { ok: true }> {
  const extracted = await extract(body, options);
  assert.ok(extracted.ok, `not extracted: ${JSON.stringify(extracted)}`);
  return extracted;
}

const reason = async (body: string | Uint8Array, options: Options = {}): Promise<string> => {
  const extracted = await extract(body, options);
  return extracted.ok ? `ok: ${extracted.text.slice(0, 80)}` : extracted.reason;
};

const html = (head: string, body: string, attributes = ""): string =>
  `<!doctype html><html${attributes}><head>${head}</head><body>${body}</body></html>`;

describe("HTML", () => {
  it("gives the main text without what stands around it", async () => {
    const { text, title } = await page(
      html(
        "<title>Ledger</title><style>.a{color:red}</style>",
        `<nav><a href="/">Home</a> Products</nav><div><h1>Ledger</h1><h2>Receipts</h2><p>${LONG}</p><p>Second <b>bold</b> paragraph.</p></div>
        <script>var secret = "never";</script><footer>Copyright</footer>`,
      ),
    );
    assert.equal(title, "Ledger");
    assert.match(text, /every receipt/);
    assert.match(text, /Receipts\n/);
    assert.match(text, /Second bold paragraph\./);
    assert.doesNotMatch(text, /Products|Copyright|secret|color/);
  });

  it("keeps all sections and headings of a documentation page", async () => {
    const sections = Array.from(
      { length: 8 },
      (_, i) =>
        `<section><h2>Option ${i}</h2><ul><li><a href="#o${i}">see option ${i}</a></li></ul><pre>run --o${i}\n  next</pre></section>`,
    ).join("");
    const { text } = await page(html("", `<aside>menu</aside><main><h1>Options</h1><p>${LONG}</p>${sections}</main>`));
    for (let i = 0; i < 8; i++) assert.match(text, new RegExp(`Option ${i}\\n`));
    assert.match(text, /run --o7\nnext/);
    assert.doesNotMatch(text, /menu/);
  });

  it("falls back to what is visible", async () => {
    assert.equal(
      (await page("<p>Short</p><p>page</p><div hidden>no</div><p style='display: none'>no</p>")).text,
      "Short\npage",
    );
    assert.equal((await page(html("<title>T</title>", "<nav><a href=/a>Only</a> links</nav>"))).text, "Only links");
  });

  it("takes the description of a page that scripts fill", async () => {
    const shell = html(
      '<title>App</title><meta name=description content="What it does">',
      "<div id=root></div><script>x</script>",
    );
    assert.equal((await page(shell)).text, "What it does");
  });

  it("titles by og:title, then title, then h1, then the address", async () => {
    const og = '<meta property="og:title" content="Og &amp; co">';
    assert.equal((await page(html(`${og}<title>T</title>`, "<h1>H</h1>x"))).title, "Og & co");
    assert.equal(
      (await page(html("<title> T\n t </title>", "<h1>H</h1>x<svg><title>icon</title></svg>"))).title,
      "T t",
    );
    assert.equal((await page(html("", "<h1><a href=#><b>H</b> i</a></h1>x"))).title, "H i");
    assert.equal((await page(html("", "x"), { url: "https://a.example/b/c%20d.html" })).title, "c d.html");
    assert.equal((await page(html("", "x"), { url: "https://a.example/" })).title, "a.example");
  });

  it("finds the language", async () => {
    assert.equal((await page(html("", "x", " lang='de-AT'"))).language, "de");
    assert.equal((await page(html("<meta http-equiv=Content-Language content=fr>", "x"))).language, "fr");
    assert.equal((await page(html("", "x", " lang=english"))).language, undefined);
  });

  it("finds the date", async () => {
    const meta = (name: string, at: string): string => `<meta property="${name}" content="${at}">`;
    const dated = async (head: string, body = "x", modified?: string): Promise<string | undefined> =>
      (await page(html(head, body), modified === undefined ? {} : { modified })).date;
    assert.equal(await dated(meta("article:published_time", "2024-02-03T04:05:06+01:00")), "2024-02-03T03:05:06.000Z");
    assert.equal(await dated(meta("article:modified_time", "2024-02-04")), "2024-02-04");
    assert.equal(await dated("", '<time datetime="2023-05-06">May</time>'), "2023-05-06");
    const json =
      '<script type="application/ld+json">{"@graph":[{"@type":"WebSite"},{"datePublished":"2022-01-02"}]}</script>';
    assert.equal(await dated(json), "2022-01-02");
    assert.equal(await dated('<script type="application/ld+json">{"datePublished": 5, "broken</script>'), undefined);
    assert.equal(
      await dated(meta("article:published_time", "2024-02-31"), "x", "2021-01-01T00:00:00Z"),
      "2021-01-01T00:00:00.000Z",
    );
    assert.equal(await dated("", "x", "Tue, 15 Nov 1994 12:45:26 GMT"), "1994-11-15T12:45:26.000Z");
  });

  it("lists links: absolute, each once, without fragments and nofollow", async () => {
    const { links, canonical } = await page(
      html(
        '<base href="/base/"><link rel="canonical" href="../canon#x">',
        `<a href="a#one">1</a><a href="a#two">2</a><a href="//b.example/?q=1&amp;r=2">3</a><a href="mailto:x@y">4</a>
        <a href="javascript:alert(1)">5</a><a rel="noopener NoFollow" href="no">6</a><a href="http://u:p@c.example">7</a>
        <a href="https://[bad">8</a><div hidden><a href="menu">9</a></div><a>10</a>`,
      ),
    );
    assert.deepEqual(links, [
      "https://docs.example/base/a",
      "https://b.example/?q=1&r=2",
      "http://c.example/",
      "https://docs.example/base/menu",
    ]);
    assert.equal(canonical, "https://docs.example/canon");
  });

  it("obeys robots meta tags", async () => {
    const robots = async (head: string): Promise<string> => {
      const { noIndex, noFollow } = await page(html(head, "text"));
      return `${noIndex} ${noFollow}`;
    };
    assert.equal(await robots(""), "false false");
    assert.equal(await robots('<meta name="ROBOTS" content="NoIndex, follow">'), "true false");
    assert.equal(await robots('<meta name="robots" content="none">'), "true true");
    assert.equal(
      await robots('<meta name="robots" content="all"><meta name="TurnpikeBot" content="nofollow">'),
      "false true",
    );
    assert.equal(await robots('<meta name="otherbot" content="none">'), "false false");
  });

  it("reads XHTML", async () => {
    const xhtml = `<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x">
      <html xmlns="http://www.w3.org/1999/xhtml" xml:lang="nl"><head><title>X</title><script src="a.js"/></head><body><p>Een<br/>twee&nbsp;drie</p></body></html>`;
    for (const type of ["application/xhtml+xml", "application/xml", "text/xml; charset=utf-8"]) {
      const { title, text, language } = await page(xhtml, { type });
      assert.deepEqual([title, text, language], ["X", "Een\ntwee drie", "nl"]);
    }
    assert.equal(await reason("<?xml version='1.0'?><rss></rss>", { type: "application/xml" }), "unsupported");
  });
});

describe("encodings", () => {
  const latin = (text: string): Uint8Array => Buffer.from(text, "latin1");

  it("follows labels that are right", async () => {
    const greek = Buffer.concat([Buffer.from("<p>"), Uint8Array.from([0xe1, 0xe2, 0xe3])]);
    assert.equal((await page(greek, { type: "text/html; charset=iso-8859-7" })).text, "αβγ");
    assert.equal((await page(Buffer.concat([Buffer.from("<meta charset=windows-1253>"), greek]))).text, "αβγ");
    const xml = Buffer.concat([Buffer.from('<?xml version="1.0" encoding="ISO-8859-7"?><html><body>'), greek]);
    assert.equal((await page(xml, { type: "application/xhtml+xml" })).text, "αβγ");
    const japanese = Uint8Array.from([0x3c, 0x70, 0x3e, 0x93, 0xfa, 0x96, 0x7b]);
    assert.equal((await page(japanese, { type: "text/html; charset=Shift_JIS" })).text, "日本");
  });

  it("does not follow labels that are wrong", async () => {
    assert.equal((await page("<p>naïve – 日本", { type: "text/html; charset=iso-8859-1" })).text, "naïve – 日本");
    assert.equal((await page("<p>naïve", { type: "text/html; charset=utf-16le" })).text, "naïve");
    assert.equal((await page(latin("<p>caf\xe9 cr\xe8me"), { type: "text/html; charset=utf-8" })).text, "café crème");
    for (const label of ["bogus", "utf-99", "x".repeat(5_000), '"', "../../etc/passwd"])
      assert.equal((await page(latin("<p>caf\xe9"), { type: `text/html; charset=${label}` })).text, "café");
  });

  it("reads UTF-16 with and without a byte order mark", async () => {
    const text = html("<title>Wide</title>", "<p>sixteen bits é</p>");
    const little = Buffer.from(text, "utf16le");
    for (const bytes of [little, Buffer.from(little).swap16()])
      for (const type of ["text/html", "text/html; charset=utf-8", undefined])
        assert.equal((await page(bytes, { type })).text, "sixteen bits é");
    assert.equal((await page(Buffer.from(`\ufeff${text}`, "utf16le"))).title, "Wide");
    assert.equal((await page(`\ufeff${text}`)).title, "Wide");
  });

  it("drops NUL bytes and other controls", async () => {
    const { text, title } = await page(html("<title>N\0ul</title>", "<p>a\0b\u0007c\u009bd</p>"));
    assert.doesNotMatch(text + title, /\p{Cc}/u);
    assert.match(text, /a.?b c d/);
  });

  it("keeps good UTF-8 that is damaged in one place", async () => {
    const body = Buffer.concat([
      Buffer.from("<p>日本語のテキストです。"),
      Uint8Array.from([0xff]),
      Buffer.from("続き"),
    ]);
    assert.match((await page(body)).text, /^日本語のテキストです。.続き$/);
  });
});

describe("kinds", () => {
  it("knows HTML that is served as text", async () => {
    for (const type of ["text/plain", undefined, "application/octet-stream", "application/pdf"]) {
      const { title, text } = await page(`<!-- a --><?x y?>\n${html("<title>T</title>", "<p>t")}`, { type });
      assert.deepEqual([title, text], ["T", "t"]);
    }
    assert.equal((await page("if a < b and <html> then", { type: "text/plain" })).text, "if a < b and <html> then");
  });

  it("knows a PDF that is served as something else", async () => {
    const pdf = buildPdf("Settlement report", { title: "Report", date: "D:20240131120000+01'00'" });
    for (const type of ["application/pdf", "application/octet-stream", "text/html", undefined]) {
      const { title, text, date } = await page(pdf, { type });
      assert.deepEqual([title, text, date], ["Report", "Settlement report", "2024-01-31T11:00:00.000Z"]);
    }
  });

  it("knows Markdown that is served as text", async () => {
    const { title, text } = await page("# Title\n\nsome *words*", {
      type: "text/plain",
      url: "https://a.example/x.md?raw=1",
    });
    assert.deepEqual([title, text], ["Title", "Title\nsome words"]);
  });

  it("does not take what is not text", async () => {
    const noise = Uint8Array.from({ length: 4_096 }, (_, i) => (i * 7_919) % 256);
    assert.equal(await reason(noise, { type: undefined }), "unsupported");
    assert.equal(await reason(gzipSync("x"), { type: "text/html" }), "unsupported");
    assert.equal(await reason(Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 13, 10]), { type: "text/html" }), "unsupported");
    for (const type of ["application/json", "text/css", "image/svg+xml", "text/javascript", "nonsense"])
      assert.equal(await reason("hello", { type }), "unsupported");
    assert.equal(await reason("  \n ", { type: "text/plain" }), "empty");
    assert.equal(await reason("<html></html>"), "empty");
    assert.equal(await reason("no pdf at all", { type: "application/pdf" }), "broken");
  });
});

describe("PDF", () => {
  it("calls broken and encrypted files broken", async () => {
    const pdf = buildPdf("Text");
    assert.equal(await reason("%PDF-1.7\ngarbage", { type: "application/pdf" }), "broken");
    assert.equal(await reason(pdf.subarray(0, 60), { type: "application/pdf" }), "broken");
    assert.equal(await reason(buildPdf("Text", { encrypt: true }), { type: "application/pdf" }), "broken");
  });
});

describe("Markdown", () => {
  const markdown = (source: string, url = "https://a.example/docs/x.md") =>
    page(source, { type: "text/markdown", url });

  it("keeps words, code and tables, and drops badges, comments and link targets", async () => {
    const { title, text, links } = await markdown(`<!-- hidden
comment -->
<h1 align="center">Real Title</h1>

[![Build](https://ci.example/badge.svg)](https://ci.example) ![logo](logo.png)

## Install

Run \`npm i\` &amp; see **[the guide](../guide.md#top)** for\tmore &lt;info&gt;.

\`\`\`sh
npm install thing  # comment
\`\`\`

| Name | Use |
| --- | --- |
| a | \`b\` |

- one
  - two
- [x] three

> quoted <b>bold</b> text<br>next

[ref]: https://ref.example "Ref"
`);
    assert.equal(title, "Real Title");
    assert.equal(
      text,
      [
        "Real Title",
        "Install",
        "Run npm i & see the guide for more <info>.",
        "npm install thing # comment",
        "Name Use",
        "a b",
        "one",
        "two",
        "three",
        "quoted bold text",
        "next",
      ].join("\n"),
    );
    assert.deepEqual(links, ["https://ci.example/", "https://a.example/guide.md"]);
  });

  it("reads front matter", async () => {
    const found = await markdown(
      '---\ntitle: "Front: page"\ndate: 2024-05-06\nlang: en-GB\ntags: [a]\n---\n# Other\n\nbody',
    );
    assert.deepEqual([found.title, found.date, found.language], ["Front: page", "2024-05-06", "en"]);
    assert.equal(found.text, "Other\nbody");
    assert.equal((await markdown("---\njust text between rules\n---\nmore")).text, "just text between rules\nmore");
    assert.equal((await markdown("---\ntitle: x")).title, "x.md");
  });

  it("reads MDX", async () => {
    const { text } = await markdown(
      "import X from './x'\nexport const a = 1\n\n# Hi\n\n<Tabs name=\"n\">\n\ninside\n\n</Tabs>\n\n```js\nimport kept from 'kept'\n```\n",
      "https://a.example/x.mdx",
    );
    assert.equal(text, "Hi\ninside\nimport kept from 'kept'");
  });

  it("prefers the first top heading, else the first", async () => {
    assert.equal((await markdown("## Sub\n\n# Top\n\n# Later")).title, "Top");
    assert.equal((await markdown("Title `x`\n===\n\ntext")).title, "Title x");
    assert.equal((await markdown("### Sub\n\ntext")).title, "Sub");
    assert.equal((await markdown("only text")).title, "x.md");
  });
});

describe("plain text", () => {
  it("reads text and reStructuredText", async () => {
    const plain = await page("First line\n\nbody  text\r\nmore", {
      type: "text/plain",
      modified: "2024-01-02T03:04:05Z",
    });
    assert.deepEqual(
      [plain.title, plain.text, plain.date],
      ["First line", "First line\nbody text\nmore", "2024-01-02T03:04:05.000Z"],
    );
    const rst = await page(".. _anchor:\n\nGuide\n=====\n\n.. image:: x.png\n   :alt: y\n\nBody.", {
      type: undefined,
      url: "file:///x.rst",
    });
    assert.deepEqual([rst.title, rst.text], ["Guide", "Guide\nBody."]);
  });
});
