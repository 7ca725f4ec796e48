/** Collects a page's text, with one newline between blocks; stops at its bound. */
export class TextBuilder {
  readonly #maxChars: number;
  readonly #parts: string[] = [];
  #length = 0;
  #gap: "" | " " | "\n" = "";

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  get full(): boolean {
    return this.#length >= this.#maxChars;
  }

  get length(): number {
    return this.#length;
  }

  /** A place to give to {@link since}. */
  get mark(): number {
    return this.#parts.length;
  }

  /** What was added after `mark`. */
  since(mark: number): string {
    return this.#parts.slice(mark).join("");
  }

  /** Adds text as it stands in a page: runs of blanks count as one, line ends too unless `keepLines`. */
  add(text: string, keepLines: boolean): void {
    if (this.full) return;
    // Blanks may make up half of it.
    const most = (this.#maxChars - this.#length) * 2;
    const part = text.length > most ? text.slice(0, most) : text;
    const flat = keepLines ? part : part.replace(/\s+/g, " ");
    if (flat.trim() === "") {
      if (this.#gap === "" && flat !== "") this.#gap = keepLines && flat.includes("\n") ? "\n" : " ";
      return;
    }
    const body = keepLines ? flat : flat.trim();
    if (this.#gap === "" && !keepLines && flat.startsWith(" ")) this.#gap = " ";
    this.#push(this.#length === 0 ? body : this.#gap + body);
    this.#gap = !keepLines && flat.endsWith(" ") ? " " : "";
  }

  /** Ends a block: what follows starts on a new line. */
  endBlock(): void {
    this.#gap = "\n";
  }

  /** Parts two cells or items of one line. */
  endCell(): void {
    if (this.#gap === "") this.#gap = " ";
  }

  #push(text: string): void {
    this.#parts.push(text);
    this.#length += text.length;
  }

  toString(): string {
    return this.#parts.join("");
  }
}
