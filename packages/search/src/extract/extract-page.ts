import type { Extracted, RawPage } from "../types.ts";
import { decodeBody } from "./charset.ts";
import { extractHtml } from "./html.ts";
import type { PageLimits } from "./limits.ts";
import { extractMarkdown, extractPlain } from "./markdown.ts";
import { extractPdf, loadPdf } from "./pdf.ts";
import { loadReader } from "./readable.ts";
import { kindOf } from "./sniff.ts";

/**
 * Extracts one page in this thread, without bounds of time and memory. `started` is called once the libraries that it
 * needs are loaded.
 */
export async function extractPage(page: RawPage, limits: PageLimits, started: () => void): Promise<Extracted> {
  const kind = kindOf(page);
  if (kind === "unsupported") return { ok: false, reason: "unsupported" };
  try {
    if (kind === "pdf") {
      const open = await loadPdf();
      started();
      return await extractPdf(page, open, limits);
    }
    const reader = kind === "html" ? await loadReader() : undefined;
    started();
    const text = decodeBody(page.body, page.contentType);
    if (reader !== undefined) return extractHtml(page, text, reader, limits);
    return kind === "markdown" ? extractMarkdown(page, text, limits) : extractPlain(page, text, kind === "rst", limits);
  } catch {
    return { ok: false, reason: "broken" };
  }
}
