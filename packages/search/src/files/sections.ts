import type { Extracted, PageHeading } from "../types.ts";

/** A part of a page that is found by itself. */
export interface Section {
  /** Anchor of its heading; undefined at the page's top. */
  readonly slug: string | undefined;
  readonly title: string;
  readonly text: string;
}

/** Pages up to this length stay whole, in characters. */
const WHOLE_CHARS = 1_500;
/** Sections longer than this are parted at the headings of the third level too. */
const LONG_CHARS = 4_000;
/** Shorter ones are joined with a neighbour: they hold too little text to rank by. */
const SHORT_CHARS = 250;
const MAX_SECTIONS = 500;

interface Piece {
  readonly heading: PageHeading | undefined;
  readonly start: number;
  readonly end: number;
}

/**
 * Parts a page at its headings: a long page is about many things, and next to short ones none of them would count for
 * much. The first section stands for the page itself; each begins where the one before it ends. `title` is the page's.
 */
export function sectionsOf(page: Extracted & { readonly ok: true }, title: string): readonly Section[] {
  const { text, headings = [] } = page;
  if (text.length <= WHOLE_CHARS) return [{ slug: undefined, title, text }];
  const chapters = partedAt(headings, 2, { heading: undefined, start: 0, end: text.length });
  const parted = chapters.flatMap((chapter) =>
    chapter.end - chapter.start > LONG_CHARS ? partedAt(headings, 3, chapter) : [chapter],
  );
  return joined(parted)
    .map(({ heading, start, end }, index) => ({
      slug: index === 0 ? undefined : heading?.slug,
      title: heading === undefined || heading.title === page.title ? title : `${title}: ${heading.title}`,
      text: text.slice(start, end).trim(),
    }))
    .filter((section) => section.text !== "");
}

function partedAt(headings: readonly PageHeading[], level: number, whole: Piece): readonly Piece[] {
  const cuts = headings.filter((one) => one.level <= level && one.at >= whole.start && one.at < whole.end);
  const pieces: Piece[] = [];
  let { heading, start } = whole;
  for (const cut of cuts) {
    if (cut.at > start) pieces.push({ heading, start, end: cut.at });
    heading = cut;
    start = cut.at;
  }
  pieces.push({ heading, start, end: whole.end });
  return pieces;
}

function joined(pieces: readonly Piece[]): readonly Piece[] {
  const kept: Piece[] = [];
  let before: Piece | undefined;
  for (const [index, one] of pieces.entries()) {
    const piece: Piece = before === undefined ? one : { ...before, end: one.end };
    const next = pieces[index + 1];
    const isShort = piece.end - piece.start < SHORT_CHARS;
    const last = kept.at(-1);
    // What introduces its own parts goes with the first of them, other short ones with what stands before.
    const isIntroduction = next !== undefined && (next.heading?.level ?? 0) > (piece.heading?.level ?? 0);
    before = undefined;
    if (isShort && next !== undefined && (isIntroduction || last === undefined)) before = piece;
    else if (last !== undefined && (isShort || kept.length >= MAX_SECTIONS))
      kept[kept.length - 1] = { ...last, end: piece.end };
    else kept.push(piece);
  }
  return kept;
}
