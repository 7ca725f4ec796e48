import { type Refusal, refusal } from "./refusal.ts";

/** A place in a text, with what parsers ask of it. */
export class Cursor {
  readonly text: string;
  /** What is read, for messages: `select parameter`. */
  readonly subject: string;
  at = 0;

  constructor(text: string, subject: string) {
    this.text = text;
    this.subject = subject;
  }

  /** The character here; empty at the end. */
  peek(): string {
    const point = this.text.codePointAt(this.at);
    return point === undefined ? "" : String.fromCodePoint(point);
  }

  /** True at the end. */
  isAtEnd(): boolean {
    return this.at >= this.text.length;
  }

  /** True when this stands here; moves nothing. */
  sees(literal: string): boolean {
    return this.text.startsWith(literal, this.at);
  }

  /** Moves over this when it stands here. */
  takes(literal: string): boolean {
    if (!this.sees(literal)) return false;
    this.at += literal.length;
    return true;
  }

  /** Moves over this or refuses. */
  expects(literal: string): void {
    if (!this.takes(literal)) throw this.fault(`"${literal}"`);
  }

  /** The characters from here that a predicate holds for; moves over them. */
  takeWhile(holds: (character: string) => boolean): string {
    const start = this.at;
    for (let character = this.peek(); character !== "" && holds(character); character = this.peek()) {
      this.at += character.length;
    }
    return this.text.slice(start, this.at);
  }

  /** Moves over spaces and tabs. */
  skipBlanks(): void {
    while (this.sees(" ") || this.sees("\t")) this.at += 1;
  }

  /** Everything from here; moves to the end. */
  rest(): string {
    const rest = this.text.slice(this.at);
    this.at = this.text.length;
    return rest;
  }

  /** PGRST100 at this place. */
  fault(expecting: string): Refusal {
    const seen = this.isAtEnd() ? "end of input" : JSON.stringify(this.peek());
    const shown = this.text.length > 200 ? `${Array.from(this.text).slice(0, 200).join("")}…` : this.text;
    return refusal(400, "PGRST100", `"failed to parse ${this.subject} (${shown})" (line 1, column ${this.at + 1})`, {
      details: `unexpected ${seen} expecting ${expecting}`,
    });
  }

  /** Refuses unless everything is read. */
  end(expecting = "end of input"): void {
    if (!this.isAtEnd()) throw this.fault(expecting);
  }
}
