import type { Scan } from "./scan.ts";

/** Most that a tree is built of; larger pages are read by their tokens alone. */
const MAX_ELEMENTS = 30_000;
const MAX_PIECES = 100_000;
const MAX_DEPTH = 400;
const MAX_TAG_ATTRIBUTES = 200;
const MAX_CHARS = 4_000_000;
const MAX_TEXT_CHARS = 1_000_000;

/** True when building a tree of a page and weighing its parts takes bounded work. */
export function isTame(html: string, size: Scan["size"]): boolean {
  return (
    html.length <= MAX_CHARS &&
    size.chars <= MAX_TEXT_CHARS &&
    size.pieces <= MAX_PIECES &&
    size.depth <= MAX_DEPTH &&
    size.attributes <= MAX_TAG_ATTRIBUTES
  );
}

/** Loads the libraries; they are not needed for Markdown and PDF. */
export async function loadReader(): Promise<(html: string, hasBody: boolean) => string | undefined> {
  const [{ parseHTML }, { Readability }] = await Promise.all([import("linkedom"), import("@mozilla/readability")]);
  return (html, hasBody) => {
    try {
      const { document } = parseHTML(hasBody ? html : withBody(html));
      const article = new Readability<string>(document, {
        charThreshold: 200,
        maxElemsToParse: MAX_ELEMENTS,
        disableJSONLD: true,
        keepClasses: true,
        serializer: (node) => String(Reflect.get(node, "innerHTML")),
      }).parse();
      return article?.content ?? undefined;
    } catch {
      // Too deep for the stack, or markup that one of the libraries trips over: the tokens' text is there.
      return undefined;
    }
  };
}

/** The parser makes no body of its own, as browsers do. */
function withBody(html: string): string {
  return `<!doctype html><html><head></head><body>${html.replace(/<(?:!doctype|\/?(?:html|head|body))\b[^<>]*>/gi, "")}</body></html>`;
}
