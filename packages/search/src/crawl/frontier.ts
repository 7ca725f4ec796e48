import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { openState } from "./frontier-schema.ts";
import { type Item, itemOf, type Row, textOf } from "./item.ts";

/** Most addresses of one path that differ in their query only, in one run. */
const MAX_VARIANTS = 200;
/** Most characters of a page's links that are kept for the next run. */
const MAX_LINKS_LENGTH = 65_536;

/** Outcomes that may be others in an hour: a run that goes on tries them again. */
export const PASSING: readonly string[] = [
  "timeout",
  "reset",
  "connect",
  "unresolved",
  "robots_unreachable",
  "status_429",
  "status_503",
];

/** Keeps what robots.txt files said. */
export interface RobotsStore {
  robots(origin: string): { readonly text: string; readonly fetchedMs: number } | undefined;
  putRobots(origin: string, text: string, nowMs: number): void;
}

/** What is kept of a page that was looked at. */
export interface Finished {
  readonly outcome: string;
  readonly isAsked: boolean;
  readonly isDoc: boolean;
  readonly etag?: string | undefined;
  readonly modified?: string | undefined;
  readonly hash?: string | undefined;
  readonly canonical?: string | undefined;
  readonly links?: readonly string[];
}

/** What became of an address that was offered. */
export type Added = "added" | "known" | "variants" | "full";

/** Bounds of a frontier. */
export interface FrontierOptions {
  readonly file: string;
  /** Names the source. */
  readonly key: string;
  /** Most addresses of one run. */
  readonly maxItems: number;
  readonly maxListings: number;
}

/**
 * What is known of a source's addresses, in a file: what waits, what was done, and with what result. All of it outlives
 * the process.
 */
export class Frontier implements RobotsStore, Disposable {
  readonly #options: FrontierOptions;
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  readonly #waiting = new Map<string, number>();
  readonly source: number;
  run = 0;
  /** True when a run that was not ended goes on. */
  isResumed = false;
  #items = 0;
  #listings = 0;

  /** @throws AppError SOURCE_REFUSED when the file is in use or is something else. */
  constructor(options: FrontierOptions) {
    this.#options = options;
    this.#db = openState(options.file);
    const { key } = options;
    this.change(
      "INSERT OR IGNORE INTO source (key, run, is_open, is_rechecked, removed, dropped) VALUES (?, 0, 0, 0, 0, 0)",
      key,
    );
    this.source = Number(this.row("SELECT id FROM source WHERE key = ?", key)?.id);
  }

  /** Goes on with the run that was not ended, or begins the next one. */
  begin(): void {
    const found = this.row("SELECT run, is_open FROM source WHERE id = ?", this.source);
    this.isResumed = found?.is_open === 1;
    this.run = Number(found?.run) + (this.isResumed ? 0 : 1);
    this.transaction(() => {
      if (this.isResumed) {
        const again = "UPDATE item SET waiting = 1, attempts = 0 WHERE source = ? AND run = ? AND outcome = ?";
        for (const outcome of PASSING) this.change(again, this.source, this.run, outcome);
        return;
      }
      const begin =
        "UPDATE source SET run = ?, is_open = 1, is_rechecked = 0, removed = 0, dropped = 0, twin = NULL WHERE id = ?";
      this.change(begin, this.run, this.source);
      this.change("UPDATE item SET waiting = 0 WHERE source = ? AND waiting = 1", this.source);
      this.change("DELETE FROM variant WHERE source = ?", this.source);
    });
    this.count();
  }

  /** All is done, or the limits are reached: the next time a new run begins. */
  end(): void {
    this.change("UPDATE source SET is_open = 0 WHERE id = ?", this.source);
  }

  /** Pages asked for in this run. */
  get asked(): number {
    const sql = "SELECT count(*) AS n FROM item WHERE source = ? AND run = ? AND asked = run AND is_listing = 0";
    return Number(this.row(sql, this.source, this.run)?.n);
  }

  /** Addresses that the limits left out in this run. */
  get dropped(): number {
    return Number(this.row("SELECT dropped FROM source WHERE id = ?", this.source)?.dropped);
  }

  /** The start's host with or without `www.`, where the start led to it. */
  get twin(): string | undefined {
    return textOf(this.row("SELECT twin FROM source WHERE id = ?", this.source)?.twin);
  }

  set twin(host: string) {
    this.change("UPDATE source SET twin = ? WHERE id = ?", host, this.source);
  }

  /** Counts anew what waits. */
  count(): void {
    this.#waiting.clear();
    const hosts = "SELECT host, count(*) AS n FROM item WHERE source = ? AND waiting = 1 GROUP BY host";
    for (const row of this.rows(hosts, this.source)) this.#waiting.set(String(row.host), Number(row.n));
    const all = "SELECT count(*) AS n, total(is_listing) AS listings FROM item WHERE source = ? AND run = ?";
    const row = this.row(all, this.source, this.run);
    this.#items = Number(row?.n);
    this.#listings = Number(row?.listings);
  }

  /** Hosts with something to do. */
  get hosts(): Iterable<string> {
    return this.#waiting.keys();
  }

  /** Addresses that wait. */
  get waiting(): number {
    let all = 0;
    for (const waiting of this.#waiting.values()) all += waiting;
    return all;
  }

  /** The next address of a host, those nearest to the start first. */
  next(host: string): Item | undefined {
    const sql = "SELECT * FROM item WHERE source = ? AND host = ? AND waiting = 1 ORDER BY depth, id LIMIT 1";
    const row = this.row(sql, this.source, host);
    return row === undefined ? undefined : itemOf(row);
  }

  /** What is known of an address. */
  find(url: string, isListing = false): Item | undefined {
    const sql = "SELECT * FROM item WHERE source = ? AND is_listing = ? AND url = ?";
    const row = this.row(sql, this.source, Number(isListing), url);
    return row === undefined ? undefined : itemOf(row);
  }

  /** Lets an address wait for its turn, once in a run. */
  add(url: URL, isListing: boolean, depth: number, redirects = 0): Added {
    const known = this.find(url.href, isListing);
    if (known !== undefined && known.run >= this.run) {
      if (known.isWaiting && depth < known.depth)
        this.change("UPDATE item SET depth = ? WHERE id = ?", depth, known.id);
      return "known";
    }
    const { maxItems, maxListings } = this.#options;
    if (this.#items >= maxItems || (isListing && this.#listings >= maxListings)) return this.#drop("full");
    if (url.search !== "" && !this.#countVariant(`${url.host}${url.pathname}`)) return this.#drop("variants");
    this.#items++;
    if (isListing) this.#listings++;
    this.#waiting.set(url.host, (this.#waiting.get(url.host) ?? 0) + 1);
    if (known === undefined) {
      const sql =
        "INSERT INTO item (source, is_listing, url, host, depth, redirects, run, waiting) VALUES (?, ?, ?, ?, ?, ?, ?, 1)";
      this.change(sql, this.source, Number(isListing), url.href, url.host, depth, redirects, this.run);
    } else {
      const sql = "UPDATE item SET depth = ?, redirects = ?, run = ?, waiting = 1, attempts = 0 WHERE id = ?";
      this.change(sql, depth, redirects, this.run, known.id);
    }
    return "added";
  }

  /** Closes an address for this run. */
  finish(item: Item, done: Finished, nowMs: number): void {
    let links = "";
    for (const link of done.links ?? []) {
      if (links.length + link.length >= MAX_LINKS_LENGTH) break;
      links += links === "" ? link : `\n${link}`;
    }
    const sql =
      "UPDATE item SET waiting = 0, outcome = ?, asked = CASE ? WHEN 1 THEN run ELSE asked END, doc = ?, etag = ?, modified = ?, hash = ?, canonical = ?, links = ?, fetched_ms = ? WHERE id = ?";
    const { outcome, isAsked, isDoc, etag, modified, hash, canonical } = done;
    const kept = [etag ?? null, modified ?? null, hash ?? null, canonical ?? null] as const;
    this.change(sql, outcome, Number(isAsked), Number(isDoc), ...kept, links, nowMs, item.id);
    this.taken(item.host);
  }

  /** An address of this host waits no longer. */
  taken(host: string): void {
    const left = (this.#waiting.get(host) ?? 1) - 1;
    if (left <= 0) this.#waiting.delete(host);
    else this.#waiting.set(host, left);
  }

  /** Notes a failed attempt; the address goes on waiting. */
  postpone(item: Item): void {
    this.change("UPDATE item SET attempts = attempts + 1 WHERE id = ?", item.id);
  }

  #countVariant(path: string): boolean {
    const sql =
      "INSERT INTO variant (source, path, n) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET n = n + 1 WHERE n < ? RETURNING n";
    return this.row(sql, this.source, path, MAX_VARIANTS) !== undefined;
  }

  #drop(why: "full" | "variants"): Added {
    this.change("UPDATE source SET dropped = dropped + 1 WHERE id = ?", this.source);
    return why;
  }

  /** What robots.txt of an origin said. */
  robots(origin: string): { readonly text: string; readonly fetchedMs: number } | undefined {
    const row = this.row("SELECT text, fetched_ms FROM robots WHERE origin = ?", origin);
    return row === undefined ? undefined : { text: String(row.text), fetchedMs: Number(row.fetched_ms) };
  }

  /** Keeps what robots.txt of an origin said. */
  putRobots(origin: string, text: string, nowMs: number): void {
    this.change("INSERT OR REPLACE INTO robots (origin, text, fetched_ms) VALUES (?, ?, ?)", origin, text, nowMs);
  }

  /** All or nothing. Not to be nested. */
  transaction(work: () => void): void {
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      work();
      this.#db.exec("COMMIT");
    } catch (error) {
      this.#db.exec("ROLLBACK");
      throw error;
    }
  }

  /** First row of a query. */
  row(sql: string, ...values: readonly SQLInputValue[]): Row | undefined {
    return this.#statement(sql).get(...values);
  }

  /** All rows of a query that has few. */
  rows(sql: string, ...values: readonly SQLInputValue[]): readonly Row[] {
    return this.#statement(sql).all(...values);
  }

  /** Changes rows; how many. */
  change(sql: string, ...values: readonly SQLInputValue[]): number {
    return Number(this.#statement(sql).run(...values).changes);
  }

  #statement(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const made = this.#db.prepare(sql);
    this.#statements.set(sql, made);
    return made;
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }
}
