import assert from "node:assert/strict";
import { after, describe, it, mock } from "node:test";
import { deflateSync } from "node:zlib";
import { silentLog } from "@turnpike/base";
import { buildPdf } from "../../test/extract/pdf.ts";
import type { Extracted } from "../types.ts";
import { WorkerExtractor } from "./extractor.ts";

const MAX_TEXT = 50_000;
const MAX_LINKS = 100;
const TIMEOUT_MS = 60_000;
/** After so long the time of a page that may take too long is said to be over. What it came to by then is not the point. */
const CUT_MS = 300;
// The time of a page passes only when a test says so: on a busy machine an honest page may take as long as another attack.
mock.timers.enable({ apis: ["setTimeout"] });
const extractor = new WorkerExtractor(
  {
    workers: 1,
    timeoutMs: TIMEOUT_MS,
    // To start a thread may take as long as it does: only a page that is being read is cut.
    startMs: 1_000_000_000,
    maxHeapMb: 192,
    maxPageBytes: 12_000_000,
    maxTextChars: MAX_TEXT,
    maxLinks: MAX_LINKS,
  },
  { log: silentLog },
);
after(() => extractor?.[Symbol.asyncDispose]());

const HONEST = "<title>Honest</title><h1>Honest page</h1><p>It is still read.</p>";

/** Reads a hostile page, which must end well or with one of `reasons`; the honest page after it must be read. */
async function attack(
  body: string | Uint8Array,
  contentType: string | undefined,
  ...reasons: string[]
): Promise<Extracted> {
  const extract = (bytes: Uint8Array, type: string | undefined): Promise<Extracted> =>
    extractor.extract({ url: "https://evil.example/x", contentType: type, body: bytes, modified: undefined });
  const cut = reasons.includes("timed_out") ? setInterval(() => mock.timers.tick(TIMEOUT_MS), CUT_MS) : undefined;
  const extracted = await extract(typeof body === "string" ? Buffer.from(body) : body, contentType);
  clearInterval(cut);
  if (extracted.ok) {
    assert.ok(
      extracted.text.length <= MAX_TEXT && extracted.links.length <= MAX_LINKS && extracted.title.length <= 300,
    );
    assert.ok(reasons.length === 0 || reasons.includes("ok"), `was read: ${extracted.text.slice(0, 60)}`);
  } else assert.ok(reasons.includes(extracted.reason), extracted.reason);
  const honest = await extract(Buffer.from(HONEST), "text/html");
  assert.ok(honest.ok);
  assert.equal(honest.text, "Honest page\nIt is still read.");
  return extracted;
}

const textOf = (extracted: Extracted): string => (extracted.ok ? extracted.text : `not read: ${extracted.reason}`);

describe("hostile pages", () => {
  it("30,000 nested tags: the text is read", async () => {
    for (const tag of ["div", "a href=x"]) {
      const open = `<${tag}>`.repeat(30_000);
      assert.equal(textOf(await attack(`${open}deep text`, "text/html")), "deep text");
      const close = `</${tag.split(" ")[0]}>`.repeat(30_000);
      assert.equal(textOf(await attack(`${open}deep text${close}`, "text/html")), "deep text");
    }
  });

  it("60,000 tags that never nest, and as many end tags of nothing", async () => {
    assert.match(textOf(await attack("<p>x".repeat(60_000), "text/html")), /^x\nx/);
    assert.equal(textOf(await attack(`</div></p>`.repeat(60_000).concat("end"), "text/html")), "end");
  });

  it("1 MB of one tag's attributes: the text is read", async () => {
    const attributes = Array.from({ length: 80_000 }, (_, i) => `data-a${i}="1"`).join(" ");
    assert.equal(textOf(await attack(`<p ${attributes}>text`, "text/html")), "text");
    assert.equal(textOf(await attack(`<p a="${"x&amp;".repeat(160_000)}">text`, "text/html")), "text");
    assert.equal(textOf(await attack(`<p ${"a".repeat(1_000_000)}>text`, "text/html")), "text");
  });

  it("one tag name of 1 MB", async () => {
    assert.equal(textOf(await attack(`<${"a".repeat(1_000_000)}>text`, "text/html")), "text");
  });

  it("endless entities: the text is cut", async () => {
    assert.match(textOf(await attack("&amp;".repeat(300_000), "text/html")), /^&{50000}$/);
    assert.match(textOf(await attack("&".repeat(1_000_000), "text/html")), /^&{50000}$/);
    assert.match(textOf(await attack(`&${"a".repeat(1_000_000)}`, "text/html")), /^&a{49999}$/);
    assert.match(textOf(await attack("&#x110000;&#0;&#xD800;&#99999999999999999999;ok", "text/html")), /ok$/);
    const lol = '<!DOCTYPE html [<!ENTITY a "&b;&b;&b;"><!ENTITY b "&a;&a;">]>';
    assert.match(textOf(await attack(`${lol}<html><body>&a; text</body></html>`, "application/xhtml+xml")), /text/);
  });

  it("a page of only <", async () => {
    await attack("<".repeat(1_000_000), "text/html", "ok", "empty");
    await attack("<!".repeat(750_000), "text/html", "ok", "empty");
    await attack("<!--".repeat(300_000), "text/html", "ok", "empty");
    await attack("</".repeat(750_000), "text/html", "ok", "empty");
    await attack("<a ".repeat(300_000), "text/html", "ok", "empty");
    await attack("<meta charset".repeat(120_000), "text/html", "ok", "empty");
  });

  it("wrong charset labels, UTF-16 without a mark, NUL bytes", async () => {
    for (const label of ["utf-7", "bogus", "utf-16", "replacement", "x-user-defined", "\0", "hz-gb-2312"])
      assert.equal(textOf(await attack("<p>täxt 日本", `text/html; charset=${label}`)), "täxt 日本");
    assert.equal(
      textOf(await attack(Buffer.from("<html><p>wide text", "utf16le"), "text/html; charset=utf-8")),
      "wide text",
    );
    assert.match(
      textOf(await attack("<p>some words\0\0 and more words here</p>\0", "text/html")),
      /^some words and more words here$/,
    );
    await attack(Buffer.alloc(1_000_000), "text/html", "unsupported");
    await attack(Buffer.alloc(1_000_001, "\0x"), "text/html", "ok", "empty", "unsupported");
    await attack(Buffer.alloc(1_000_000, 0xff), "text/html", "ok");
  });

  it("a PDF bomb", async () => {
    // A thousand times as large as it looks.
    const blanks = deflateSync(Buffer.alloc(24 << 20, " "), { level: 9 });
    const bomb = buildPdf("", { content: blanks });
    await attack(bomb, "application/pdf", "ok", "empty", "too_large", "timed_out", "broken");
    const text = Buffer.from(`BT /F1 12 Tf ${"(many words) Tj ".repeat(600_000)} ET`);
    await attack(buildPdf("", { content: deflateSync(text) }), "application/pdf", "ok", "too_large", "timed_out");
    // Compressed twice: what comes out of the first is a bomb again.
    const twice = Buffer.from(bomb).toString("latin1").replace("/FlateDecode >>", "[/FlateDecode /FlateDecode] >>");
    await attack(Buffer.from(twice, "latin1"), "application/pdf", "ok", "empty", "too_large", "timed_out", "broken");
  });

  it("a broken PDF", async () => {
    const pdf = Buffer.from(buildPdf("Text of it")).toString("latin1");
    const tries = [
      pdf.slice(0, 200),
      pdf.replace("/Kids [3 0 R]", "/Kids [2 0 R]"),
      pdf.replace("/Count 1", "/Count 999999999"),
      pdf.replace("/Pages 2 0 R", "/Pages 1 0 R"),
      pdf.replace(/startxref\n\d+/, "startxref\n99999999"),
      pdf.replace(/\/Length \d+/, "/Length 5 0 R"),
      `%PDF-1.7\n${"<< /A ".repeat(100_000)}`,
      `%PDF-1.7\n1 0 obj\n${"[".repeat(300_000)}`,
    ];
    for (const broken of tries)
      await attack(Buffer.from(broken, "latin1"), "application/pdf", "ok", "broken", "empty", "timed_out", "too_large");
  });

  it("a huge number of links: they are bounded", async () => {
    const links = Array.from({ length: 50_000 }, (_, i) => `<a href="/p${i}">l</a>`).join("");
    const extracted = await attack(links, "text/html");
    assert.ok(extracted.ok);
    assert.equal(extracted.links.length, MAX_LINKS);
    const long = await attack(`<a href="/${"x".repeat(2_000_000)}">l</a><a href=ok>m</a>`, "text/html");
    assert.deepEqual(long.ok && long.links, ["https://evil.example/ok"]);
  });

  it("script that looks like text, and text that looks like script's end", async () => {
    const page = `<p>seen</p><script>document.write("<p>hidden one</p>")</script><script type="text/plain">hidden two</script>
      <script><!-- <script> </script> --></script><style><p>hidden three</p></style><template><p>hidden four</p></template>
      <noscript><p>hidden five</p></noscript><SCRIPT >hidden six</SCRIPT\n><svg><script>hidden seven</script></svg><p>end</p>`;
    const text = textOf(await attack(page, "text/html"));
    assert.match(text, /seen[\s\S]*end/);
    assert.doesNotMatch(text, /hidden/);
    assert.equal(textOf(await attack("<p>seen</p><script>hidden", "text/html")), "seen");
  });

  it("a page whose reading takes the reader long", async () => {
    const divs = `<div><p>${"some words, with commas, ".repeat(8)}</p></div>`.repeat(9_000);
    assert.match(textOf(await attack(`<html><body>${divs}</body></html>`, "text/html", "ok", "timed_out")), /./);
    const nested = `${"<div><p>a, b, c</p>".repeat(390)}`;
    assert.match(textOf(await attack(`<html><body>${nested.repeat(20)}</body></html>`, "text/html")), /a, b, c/);
  });

  it("JSON-LD that nests without end", async () => {
    const nested = `<script type="application/ld+json">${"[".repeat(200_000)}</script><p>text`;
    assert.equal(textOf(await attack(nested, "text/html")), "text");
    const graph = `${`{"@graph":`.repeat(20_000)}1${"}".repeat(20_000)}`;
    assert.equal(
      textOf(await attack(`<script type="application/ld+json">${graph}</script><p>text`, "text/html")),
      "text",
    );
  });

  it("Markdown that makes regular expressions explode", async () => {
    const attacks = [
      "*a_".repeat(25_000),
      "[".repeat(50_000),
      "> ".repeat(3_000).concat("x"),
      "`".repeat(25_000).concat("a"),
      Array.from({ length: 2_000 }, (_, i) => "`".repeat(i)).join(" "),
      "<a ".repeat(50_000),
      "<!--".repeat(50_000),
      `|${"a|".repeat(12_000)}\n|${"-|".repeat(12_000)}\n`,
      "[a](<".repeat(25_000),
      `${" ".repeat(50_000)}x`,
      `# ${" ".repeat(50_000)}#x`,
      "a**b".repeat(8_000),
      `[x]: ${"\\a".repeat(50_000)}`,
      "&".repeat(125_000),
      "\t".repeat(50_000),
      `---\n${"a: ".repeat(25_000)}`,
      `${"x\n".repeat(25_000)}===`,
      "www.".repeat(25_000),
      "a@".repeat(25_000),
      "~~".repeat(25_000),
    ];
    for (const source of attacks) await attack(source, "text/markdown", "ok", "empty", "timed_out", "too_large");
  });
});
