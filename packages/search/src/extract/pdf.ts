import type { Extracted } from "../types.ts";
import { isoDate, pdfDate } from "./dates.ts";
import type { PageLimits } from "./limits.ts";
import { languageOf, tidyText, tidyTitle, titleOfUrl } from "./text.ts";

/** Further pages are not read. */
const MAX_PAGES = 2_000;

/** Loads the library; it is large, and most sources hold no PDF. */
export async function loadPdf(): Promise<typeof import("unpdf").getDocumentProxy> {
  const { getDocumentProxy, getResolvedPDFJS } = await import("unpdf");
  await getResolvedPDFJS();
  return getDocumentProxy;
}

/** Reads a PDF. Rejects when it is encrypted or broken. */
export async function extractPdf(
  page: { readonly url: string; readonly modified: string | undefined; readonly body: Uint8Array },
  open: Awaited<ReturnType<typeof loadPdf>>,
  limits: PageLimits,
): Promise<Extracted> {
  // Its scripts are never run, its fonts never loaded, its images never decoded: text needs none of them.
  // The library takes the bytes away from their owner: it gets a copy.
  const pdf = await open(new Uint8Array(page.body), {
    verbosity: 0,
    disableFontFace: true,
    useSystemFonts: false,
    useWorkerFetch: false,
    enableXfa: false,
    maxImageSize: 1,
  });
  const [info, metadata] = await informationOf(pdf);
  let text = "";
  for (let number = 1; number <= Math.min(pdf.numPages, MAX_PAGES) && text.length < limits.maxTextChars; number++) {
    const sheet = await pdf.getPage(number);
    const { items } = await sheet.getTextContent();
    for (const item of items) if ("str" in item) text += item.hasEOL ? `${item.str}\n` : item.str;
    text += "\n";
    sheet.cleanup();
  }
  const tidy = tidyText(text, limits.maxTextChars);
  const title = tidyTitle(stringOf(info, "Title"));
  if (tidy === "" && title === "") return { ok: false, reason: "empty" };
  return {
    ok: true,
    title: title || titleOfUrl(page.url),
    text: tidy || title,
    language: languageOf(stringOf(info, "Language") || stringOf(metadata, "dc:language")),
    date: pdfDate(stringOf(info, "ModDate")) ?? pdfDate(stringOf(info, "CreationDate")) ?? isoDate(page.modified),
    links: [],
    canonical: undefined,
    noIndex: false,
    noFollow: false,
  };
}

async function informationOf(pdf: { getMetadata(): Promise<{ info: object; metadata: unknown }> }) {
  try {
    const { info, metadata } = await pdf.getMetadata();
    return [info, metadata] as const;
  } catch {
    return [undefined, undefined] as const;
  }
}

function stringOf(fields: unknown, key: string): string {
  if (typeof fields !== "object" || fields === null) return "";
  const value: unknown = Reflect.get(fields, key);
  return typeof value === "string" ? value : "";
}
