import { byMark, wideWithoutMark } from "./charset.ts";

/** How a page is read. */
export type PageKind = "html" | "markdown" | "plain" | "rst" | "pdf" | "unsupported";

const HTML_TYPES = new Set(["text/html", "application/xhtml+xml"]);
const XML_TYPES = new Set(["text/xml", "application/xml"]);
const MARKDOWN_TYPES = new Set(["text/markdown", "text/x-markdown", "text/x-web-markdown", "text/mdx"]);
const RST_TYPES = new Set(["text/x-rst", "text/prs.fallenstein.rst"]);
/** Types that servers give to what they do not know. */
const VAGUE_TYPES = new Set(["", "application/octet-stream", "binary/octet-stream", "application/x-download"]);

const SIGNATURES: readonly (readonly number[])[] = [
  [0x89, 0x50, 0x4e, 0x47], // PNG
  [0x47, 0x49, 0x46, 0x38], // GIF
  [0xff, 0xd8, 0xff], // JPEG
  [0x50, 0x4b, 0x03, 0x04], // ZIP and office files
  [0x1f, 0x8b], // gzip
  [0x42, 0x5a, 0x68], // bzip2
  [0xfd, 0x37, 0x7a, 0x58, 0x5a], // xz
  [0x28, 0xb5, 0x2f, 0xfd], // zstd
  [0x37, 0x7a, 0xbc, 0xaf], // 7z
  [0x52, 0x61, 0x72, 0x21], // RAR
  [0x52, 0x49, 0x46, 0x46], // RIFF
  [0x4f, 0x67, 0x67, 0x53], // Ogg
  [0x7f, 0x45, 0x4c, 0x46], // ELF
  [0x00, 0x61, 0x73, 0x6d], // WebAssembly
  [0xca, 0xfe, 0xba, 0xbe], // class file
  [0xd0, 0xcf, 0x11, 0xe0], // OLE
  [0x77, 0x4f, 0x46], // WOFF
];

const ROOT = /^<(?:!doctype\s{1,64}html|html|head|body|title|meta)(?![\w-])/i;

/**
 * How to read a page: by its first bytes where they are certain (PDF, known binary files), then by its type, then by
 * what it looks like and by its address, because types are missing or wrong often.
 */
export function kindOf(page: {
  readonly url: string;
  readonly contentType: string | undefined;
  readonly body: Uint8Array;
}): PageKind {
  const { body } = page;
  const type = (page.contentType ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  if (isPdf(body)) return "pdf";
  if (SIGNATURES.some((bytes) => bytes.every((byte, i) => body[i] === byte))) return "unsupported";
  const wide = byMark(body) ?? wideWithoutMark(body);
  const html = startsAsHtml(new TextDecoder(wide ?? "windows-1252").decode(body.subarray(0, 8_192)));
  // A page with stray NULs is still a page; a file of them is not.
  if (wide === undefined && controlShare(body) > (html ? 0.5 : 0.1)) return "unsupported";
  if (HTML_TYPES.has(type)) return "html";
  if (MARKDOWN_TYPES.has(type)) return "markdown";
  if (RST_TYPES.has(type)) return "rst";
  if (XML_TYPES.has(type)) return html ? "html" : "unsupported";
  // It is declared as a PDF and is none: an error page, or a broken file.
  if (type === "application/pdf") return html ? "html" : "pdf";
  if (type !== "text/plain" && !VAGUE_TYPES.has(type)) return "unsupported";
  if (html) return "html";
  return byName(page.url) ?? "plain";
}

function byName(url: string): PageKind | undefined {
  const path = URL.parse(url)?.pathname.toLowerCase() ?? "";
  if (/\.(?:md|markdown|mdx)$/.test(path)) return "markdown";
  if (path.endsWith(".rst")) return "rst";
  return undefined;
}

/** True when markup of a page comes first, behind comments and an XML declaration at most. */
function startsAsHtml(head: string): boolean {
  let rest = head.replace(/^\u00ef\u00bb\u00bf/, "").trimStart();
  for (;;) {
    const end = rest.startsWith("<!--") ? "-->" : rest.startsWith("<?") ? ">" : undefined;
    if (end === undefined) return ROOT.test(rest);
    const at = rest.indexOf(end, 2);
    if (at < 0) return false;
    rest = rest.slice(at + end.length).trimStart();
  }
}

function isPdf(body: Uint8Array): boolean {
  // ISO 32000-1 Annex H: readers take the header within the first 1,024 bytes.
  const head = Buffer.from(body.buffer, body.byteOffset, Math.min(body.length, 1_024));
  const at = head.indexOf("%PDF-");
  return at === 0 || (at > 0 && !startsAsHtml(head.toString("latin1")) && controlShare(head.subarray(0, at)) > 0);
}

function controlShare(body: Uint8Array): number {
  const length = Math.min(body.length, 4_096);
  let controls = 0;
  for (let i = 0; i < length; i++) {
    const byte = body[i] ?? 0;
    if (byte < 0x09 || (byte > 0x0d && byte < 0x20 && byte !== 0x1b)) controls++;
  }
  return length === 0 ? 0 : controls / length;
}
