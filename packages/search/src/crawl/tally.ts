import type { IndexProgress, IndexReport } from "../types.ts";
import type { Frontier } from "./frontier.ts";

/** Outcomes that are no reason for leaving a page out. */
const TAKEN: ReadonlySet<string> = new Set(["indexed", "unchanged"]);
/** A list of addresses that was read is no page. */
export const LISTED = "listed";

/** What a run came to so far, counted by outcome. Begins with what a run that goes on had done. */
export class Tally {
  readonly #frontier: Frontier;
  readonly #outcomes = new Map<string, number>();

  constructor(frontier: Frontier) {
    this.#frontier = frontier;
    const sql =
      "SELECT outcome, count(*) AS n FROM item WHERE source = ? AND run = ? AND waiting = 0 AND outcome IS NOT NULL GROUP BY outcome";
    for (const row of frontier.rows(sql, frontier.source, frontier.run)) {
      this.#outcomes.set(String(row.outcome), Number(row.n));
    }
  }

  /** Counts one page. */
  add(outcome: string, pages = 1): void {
    this.#outcomes.set(outcome, (this.#outcomes.get(outcome) ?? 0) + pages);
  }

  /** A page was counted, and has another outcome now. */
  move(from: string | undefined, to: string): void {
    if (from === undefined || !this.#outcomes.has(from)) return;
    this.add(from, -1);
    this.add(to);
  }

  /** Adds to the documents that this run removed. */
  removed(documents: number): void {
    const sql = "UPDATE source SET removed = removed + ? WHERE id = ?";
    if (documents > 0) this.#frontier.change(sql, documents, this.#frontier.source);
  }

  progress(current: string | undefined): IndexProgress {
    let seen = 0;
    let skipped = 0;
    for (const [outcome, pages] of this.#outcomes) {
      if (outcome === LISTED) continue;
      seen += pages;
      if (!TAKEN.has(outcome)) skipped += pages;
    }
    const indexed = this.#outcomes.get("indexed") ?? 0;
    const unchanged = this.#outcomes.get("unchanged") ?? 0;
    return { seen, indexed, unchanged, skipped, waiting: this.#frontier.waiting, current };
  }

  report(incomplete: boolean): IndexReport {
    const row = this.#frontier.row("SELECT removed FROM source WHERE id = ?", this.#frontier.source);
    const reasons: Record<string, number> = {};
    for (const [outcome, pages] of [...this.#outcomes].sort(([one], [other]) => (one < other ? -1 : 1))) {
      if (pages > 0 && outcome !== LISTED && !TAKEN.has(outcome)) reasons[outcome] = pages;
    }
    return { ...this.progress(undefined), removed: Number(row?.removed ?? 0), reasons, incomplete };
  }
}
