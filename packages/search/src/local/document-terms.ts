import { stem } from "./languages.ts";
import { camelParts, eachWord } from "./words.ts";

/** A document as the table `terms` takes it: words parted by spaces. */
export interface DocumentTerms {
  readonly title: string;
  readonly headings: string;
  readonly address: string;
  readonly body: string;
  readonly forms: string;
}

/** A word that its stem is so much shorter than is indexed by itself too: `universe` and `university` have one stem. */
const LOST_LETTERS = 3;
const MAX_HEADING = 90;
const MAX_HEADINGS = 200;

/** Lines that look like headings: short, no sentence, and something follows. Extraction leaves no other sign of them. */
function headingsOf(text: string): readonly string[] {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const found: string[] = [];
  for (const [index, line] of lines.entries()) {
    if (found.length >= MAX_HEADINGS) break;
    const next = lines[index + 1];
    if (next === undefined || line.length > MAX_HEADING || next.length <= line.length) continue;
    if (!/[.,;:!?。！？、，]\s*$/u.test(line) && !/^\s*[-*•]/u.test(line)) found.push(line);
  }
  return found;
}

/** What of an address is worth finding: host and path, decoded where they can be. */
export function addressWords(url: string): string {
  const parsed = URL.parse(url);
  if (parsed === null) return url;
  const path = `${parsed.pathname}${parsed.search}`.replace(/\.(?:html?|md|php|aspx?)$/u, "");
  try {
    return `${parsed.hostname} ${decodeURIComponent(path)}`;
  } catch {
    return `${parsed.hostname} ${path}`;
  }
}

/** Makes the words of a document in its language. */
export function documentTerms(
  document: { readonly url: string; readonly title: string; readonly text: string },
  language: string,
): DocumentTerms {
  const forms = new Set<string>();
  const stemmed = (text: string): string => {
    const words: string[] = [];
    eachWord(text, ({ raw, folded, start, end, isPair, isCamel }) => {
      const made = isPair ? folded : stem(raw, folded, language);
      words.push(made);
      if (folded.length - made.length >= LOST_LETTERS) forms.add(folded);
      if (isCamel) for (const part of camelParts(text.slice(start, end))) addPart(part);
    });
    return words.join(" ");
  };
  const addPart = (part: string): void => {
    forms.add(part);
    forms.add(stem(part, part, language));
  };
  const title = stemmed(document.title);
  const headings = stemmed(headingsOf(document.text).join("\n"));
  const address = stemmed(addressWords(document.url));
  const body = stemmed(document.text);
  return { title, headings, address, body, forms: [...forms].join(" ") };
}
