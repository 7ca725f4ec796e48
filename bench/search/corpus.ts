import type { SourceDocument } from "@turnpike/search";

/** Numbers from 0 to 1 that a seed decides (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const SMALL =
  "the of and to a in is it that was for on with as be at by this had not are but from or have an they which one you were all her there would their we him been has when who will no more if out so what up its about than into them can only other new some could time these two may then do first any my now such like our over me even most made after also did many before must through";
const STARTS = "b br c ch cl cr d dr f fl g gl gr h j k l m n p pl pr qu r s sc sh sl sp st str t th tr v w wh".split(
  " ",
);
const MIDDLES = "a e i o u ai ea ee ou oo ar er or in an on en".split(" ");
const ENDS = "b ck d g l ll m n nd nt p r rd rk s st t tt ve x".split(" ");
const ENDINGS = ["", "", "", "", "s", "s", "ed", "ing", "er", "ly", "ment", "ness", "ation"];
const STEMS = 30_000;

/** Words by how often they come; the first are the small words of English, the others are made up, with its endings. */
export function makeVocabulary(seed: number): readonly string[] {
  const random = createRandom(seed);
  const pick = (from: readonly string[]): string => from[Math.floor(random() * from.length)] ?? "";
  const words = new Set(SMALL.split(" "));
  for (let n = 0; n < STEMS; n++) {
    const stem =
      Array.from({ length: random() < 0.6 ? 2 : 3 }, () => pick(STARTS) + pick(MIDDLES)).join("") + pick(ENDS);
    for (let forms = 1 + Math.floor(random() * 3); forms > 0; forms--) words.add(stem + pick(ENDINGS));
  }
  return [...words];
}

/** Draws ranks as Zipf's law has them: the n-th word comes 1/n as often as the first. */
export function zipf(size: number, random: () => number): () => number {
  // the inverse of the sum's integral: exact enough for texts, and quick
  const scale = Math.log(size + 1);
  return () => Math.min(size - 1, Math.floor(Math.exp(random() * scale)) - 1);
}

/** Documents of 60 to 600 words, with titles, headings and paragraphs; the same for the same seed. */
export function* makeDocuments(count: number, seed: number): Generator<SourceDocument> {
  const vocabulary = makeVocabulary(seed);
  const random = createRandom(seed + 1);
  const rank = zipf(vocabulary.length, random);
  const word = (): string => vocabulary[rank()] ?? "";
  const rare = (): string => vocabulary[100 + Math.floor(random() ** 2 * (vocabulary.length - 100))] ?? "";
  for (let n = 0; n < count; n++) {
    // a text has subjects of its own, which it comes back to
    const subjects = Array.from({ length: 4 }, rare);
    const subject = (): string => subjects[Math.floor(random() * subjects.length)] ?? "";
    const paragraphs: string[] = [];
    let left = Math.floor(60 + 540 * random() ** 2);
    while (left > 0) {
      const sentence: string[] = [];
      const length = Math.min(left, 20 + Math.floor(random() * 60));
      for (let at = 0; at < length; at++)
        sentence.push((random() < 0.04 ? subject() : word()) + (random() < 0.07 ? "." : ""));
      if (random() < 0.25) paragraphs.push(`${subject()} ${word()} ${subject()}`);
      paragraphs.push(`${sentence.join(" ")}.`);
      left -= length;
    }
    yield {
      url: `https://site${n % 500}.test/${subjects[0]}/${subjects[1]}-${n}`,
      title: `${subjects[0]} ${word()} ${subjects[1]}`,
      text: paragraphs.join("\n"),
      language: "en",
      date: undefined,
      collection: `https://site${n % 500}.test`,
    };
  }
}

/** Queries: single words, several, questions, a few phrases and a few that nothing answers. */
export function makeQueries(count: number, seed: number): readonly string[] {
  const vocabulary = makeVocabulary(seed);
  const random = createRandom(seed + 2);
  const common = (): string => vocabulary[100 + Math.floor(random() ** 3 * 3_000)] ?? "";
  const rare = (): string => vocabulary[100 + Math.floor(random() ** 2 * (vocabulary.length - 100))] ?? "";
  return Array.from({ length: count }, () => {
    const kind = random();
    if (kind < 0.2) return rare();
    if (kind < 0.5) return `${common()} ${rare()}`;
    if (kind < 0.65) return `${common()} ${common()} ${rare()}`;
    if (kind < 0.9) return `how is the ${common()} of ${rare()} made when ${common()} can do it`;
    if (kind < 0.96) return `"of the ${common()}"`;
    return `${rare()}zq unheardof`;
  });
}
