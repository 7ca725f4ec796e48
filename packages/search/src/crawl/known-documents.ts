import type { Frontier } from "./frontier.ts";
import type { Item } from "./item.ts";

/** Rows that one statement reads or changes. */
const BATCH = 1_000;
/** What a feed no longer lists is looked at again after this time. */
const FEED_RECHECK_MS = 7 * 86_400_000;

/** What is known of the documents that a source has in the index. */
export class KnownDocuments {
  readonly #frontier: Frontier;

  constructor(frontier: Frontier) {
    this.#frontier = frontier;
  }

  /**
   * Holds the state against the index, which counts. What the index has lost is fetched anew; what it holds without our
   * knowledge, because the state was removed or a crash came between, is adopted.
   */
  reconcile(indexed: Iterable<string>, depth: number): void {
    const frontier = this.#frontier;
    frontier.change("CREATE TEMP TABLE IF NOT EXISTS held (url TEXT PRIMARY KEY) WITHOUT ROWID");
    frontier.transaction(() => {
      frontier.change("DELETE FROM held");
      for (const url of indexed) frontier.change("INSERT OR IGNORE INTO held (url) VALUES (?)", url);
      const { source, run } = frontier;
      const lost =
        "UPDATE item SET doc = 0, etag = NULL, modified = NULL, hash = NULL, waiting = CASE WHEN run = ? THEN 1 ELSE 0 END WHERE source = ? AND doc = 1 AND url NOT IN (SELECT url FROM held)";
      frontier.change(lost, run, source);
      const found =
        "UPDATE item SET doc = 1, etag = NULL, modified = NULL, hash = NULL WHERE source = ? AND doc = 0 AND is_listing = 0 AND url IN (SELECT url FROM held)";
      frontier.change(found, source);
      const strange =
        "SELECT url FROM held WHERE url NOT IN (SELECT url FROM item WHERE source = ? AND is_listing = 0)";
      const adopt =
        "INSERT INTO item (source, is_listing, url, host, depth, redirects, run, waiting, doc) VALUES (?, 0, ?, ?, ?, 0, 0, 0, 1)";
      for (const row of frontier.rows(strange, source)) {
        const url = String(row.url);
        frontier.change(adopt, source, url, URL.parse(url)?.host ?? "", depth);
      }
    });
    frontier.count();
  }

  /** Lets the documents that this run has not met wait too, so that those that are gone are found. Once in a run. */
  recheck(isFeed: boolean, nowMs: number): boolean {
    const frontier = this.#frontier;
    const { source, run } = frontier;
    let added = 0;
    frontier.transaction(() => {
      const once = "UPDATE source SET is_rechecked = 1 WHERE id = ? AND is_rechecked = 0";
      if (frontier.change(once, source) === 0) return;
      const unmet =
        "UPDATE item SET run = ?, waiting = 1, attempts = 0, redirects = 0 WHERE source = ? AND doc = 1 AND run < ? AND fetched_ms < ?";
      added = frontier.change(unmet, run, source, run, isFeed ? nowMs - FEED_RECHECK_MS : Number.MAX_SAFE_INTEGER);
    });
    frontier.count();
    return added > 0;
  }

  /** Documents in the index. */
  get size(): number {
    const sql = "SELECT count(*) AS n FROM item WHERE source = ? AND doc = 1";
    return Number(this.#frontier.row(sql, this.#frontier.source)?.n);
  }

  /** Documents that this run has not met, the oldest first. */
  unmet(most: number): readonly Item[] {
    const sql = "SELECT url FROM item WHERE source = ? AND doc = 1 AND run < ? ORDER BY fetched_ms, id LIMIT ?";
    return this.#items(sql, this.#frontier.source, this.#frontier.run, Math.min(most, BATCH));
  }

  /** Another document with this content, but for those that call `url` their canonical address. */
  sameContent(hash: string, url: string): boolean {
    const sql =
      "SELECT 1 AS found FROM item WHERE source = ? AND hash = ? AND doc = 1 AND url <> ? AND canonical IS NOT ? LIMIT 1";
    return this.#frontier.row(sql, this.#frontier.source, hash, url, url) !== undefined;
  }

  /** Documents that call `url` their canonical address. */
  calling(url: string): readonly Item[] {
    const sql = "SELECT url FROM item WHERE source = ? AND canonical = ? AND doc = 1 AND url <> ? LIMIT ?";
    return this.#items(sql, this.#frontier.source, url, url, BATCH);
  }

  #items(sql: string, ...values: readonly (string | number)[]): readonly Item[] {
    return this.#frontier.rows(sql, ...values).flatMap((row) => this.#frontier.find(String(row.url)) ?? []);
  }

  /** The document with this content was removed: one page that was left out as its duplicate is read again. */
  revive(hash: string): boolean {
    const frontier = this.#frontier;
    const sql =
      "SELECT url FROM item WHERE source = ? AND hash = ? AND doc = 0 AND outcome = 'duplicate' AND run = ? AND waiting = 0 LIMIT 1";
    const item = this.#items(sql, frontier.source, hash, frontier.run)[0];
    if (item === undefined) return false;
    frontier.change("UPDATE item SET waiting = 1, attempts = 0 WHERE id = ?", item.id);
    frontier.count();
    return true;
  }

  /** Records that the index no longer holds this document. */
  markRemoved(item: Item, outcome: string): void {
    const sql = "UPDATE item SET doc = 0, etag = NULL, modified = NULL, outcome = ? WHERE id = ?";
    this.#frontier.change(sql, outcome, item.id);
  }
}
