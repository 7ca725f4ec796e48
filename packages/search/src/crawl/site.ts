import { setTimeout as timer } from "node:timers/promises";
import { AppError } from "@turnpike/base";
import type { IndexReport } from "../types.ts";
import { Frontier } from "./frontier.ts";
import { Hosts } from "./hosts.ts";
import { KnownDocuments } from "./known-documents.ts";
import type { SiteModules, SiteOptions } from "./options.ts";
import { RobotsBook } from "./robots.ts";
import { Tally } from "./tally.ts";
import { normalUrl, Scope } from "./urls.ts";
import { Visitor } from "./visit.ts";

/** Addresses that may be known for each page that may be read. */
const ITEMS_PER_PAGE = 4;
const MORE_ITEMS = 1_000;
const MAX_LISTINGS = 1_000;

const wait = async (ms: number, signal: AbortSignal): Promise<void> => {
  await timer(ms, undefined, { signal }).catch(() => {});
};

/** One run over one site. */
class SiteRun {
  readonly #options: SiteOptions;
  readonly #modules: SiteModules;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  readonly #frontier: Frontier;
  readonly #documents: KnownDocuments;
  readonly #hosts: Hosts;
  readonly #tally: Tally;
  readonly #visitor: Visitor;
  readonly #active = new Set<Promise<void>>();
  #failure: { readonly cause: unknown } | undefined;

  constructor(start: URL, frontier: Frontier, options: SiteOptions, modules: SiteModules) {
    this.#options = options;
    this.#modules = modules;
    this.#signal =
      modules.signal === undefined ? this.#stop.signal : AbortSignal.any([modules.signal, this.#stop.signal]);
    this.#frontier = frontier;
    this.#documents = new KnownDocuments(frontier);
    frontier.begin();
    this.#documents.reconcile(modules.writer.urlsOf(options.collection), options.maxDepth);
    frontier.add(start, options.kind !== "url", 0);
    const { twin } = frontier;
    const scope = new Scope(start, twin === undefined ? options.domains : [...options.domains, twin]);
    const { clock, fetcher } = modules;
    this.#hosts = new Hosts(options, { clock });
    this.#tally = new Tally(frontier);
    this.#visitor = new Visitor(options, {
      ...modules,
      frontier,
      scope,
      documents: this.#documents,
      hosts: this.#hosts,
      robots: new RobotsBook(options, { fetcher, clock, store: frontier }),
      tally: this.#tally,
      signal: this.#signal,
    });
  }

  async run(): Promise<IndexReport> {
    const { log } = this.#modules;
    const { isResumed, waiting } = this.#frontier;
    log.info({ resumed: isResumed, waiting }, "crawl begins");
    try {
      while (await this.#step()) {}
    } finally {
      this.#stop.abort();
      await Promise.allSettled(this.#active);
    }
    if (this.#failure !== undefined) throw this.#failure.cause;
    return this.#end();
  }

  /** What is under way counts as asked, so that the limit is never passed. */
  get #isLimited(): boolean {
    return this.#visitor.asked + this.#active.size >= this.#options.maxPages;
  }

  /** Begins what can be begun, and waits for the next event; false at the end. */
  async #step(): Promise<boolean> {
    if (this.#signal.aborted) return false;
    const next = this.#isLimited ? undefined : this.#hosts.first(this.#frontier.hosts);
    const hasSlot = this.#active.size < this.#options.concurrency;
    if (next !== undefined && hasSlot && next.inMs <= 0) {
      this.#begin(next.host);
      return true;
    }
    if (next === undefined && this.#active.size === 0) return this.#recheck();
    if (next === undefined || !hasSlot) {
      await Promise.race(this.#active);
      return true;
    }
    const sleep = new AbortController();
    const signal = AbortSignal.any([this.#signal, sleep.signal]);
    const slept = (this.#modules.sleep ?? wait)(next.inMs, signal);
    try {
      await Promise.race([slept, ...this.#active]);
    } finally {
      sleep.abort();
    }
    return true;
  }

  /** All that waits is done: what the index has besides is looked at, once. */
  #recheck(): boolean {
    if (this.#isLimited || this.#frontier.waiting > 0) return false;
    return this.#documents.recheck(this.#options.kind === "feed", this.#modules.clock.nowMs());
  }

  #begin(host: string): void {
    const item = this.#frontier.next(host);
    if (item === undefined) {
      this.#frontier.count();
      return;
    }
    this.#hosts.begin(host);
    const visit = this.#visitor
      .visit(item)
      .catch((cause: unknown) => {
        this.#failure ??= { cause };
        this.#stop.abort();
      })
      .finally(() => {
        this.#hosts.end(host);
        this.#active.delete(visit);
      });
    this.#active.add(visit);
  }

  #end(): IndexReport {
    const frontier = this.#frontier;
    const isLimited = this.#isLimited && frontier.waiting > 0;
    const isUnfinished = this.#signalled || frontier.waiting > 0;
    // A host that is never there must not keep the others from being read anew.
    const isStuck = frontier.isResumed && !this.#visitor.gotOn;
    // Left open: the next run goes on with what waits.
    const isOpen = this.#signalled || (frontier.waiting > 0 && !isLimited && !isStuck);
    if (!isOpen) {
      if (this.#isLimited) this.#removeOverflow();
      frontier.end();
    }
    const report = this.#tally.report(isUnfinished || frontier.dropped > 0);
    const { seen, indexed, removed, incomplete } = report;
    this.#modules.log.info({ seen, indexed, removed, incomplete }, "crawl ends");
    return report;
  }

  get #signalled(): boolean {
    return this.#modules.signal?.aborted === true;
  }

  /** Documents of earlier runs that this one had no room for go, the oldest first, so that the limit holds. */
  #removeOverflow(): void {
    const { writer } = this.#modules;
    for (;;) {
      const more = this.#documents.size - this.#options.maxPages;
      const oldest = more > 0 ? this.#documents.unmet(more) : [];
      if (oldest.length === 0) return;
      this.#tally.removed(writer.remove(oldest.map(({ url }) => url)));
      for (const item of oldest) this.#documents.markRemoved(item, "over_limit");
    }
  }
}

/**
 * Indexes a site: from a page on along its links, or what a sitemap or feed lists. Polite (robots.txt, one request at a
 * time to a host, pauses) and bounded. A run that was ended early, by the signal or a crash, goes on where it stopped;
 * a later run asks only for what changed, and removes what is gone. Pages that cannot be had are counted by reason.
 * @throws AppError SOURCE_REFUSED when the start is no http or https URL, or the state file cannot be had;
 *   what writer and extractor throw is passed on.
 */
export async function indexSite(options: SiteOptions, modules: SiteModules): Promise<IndexReport> {
  const start = normalUrl(options.start);
  if (start === undefined) {
    const what = options.start.slice(0, 200);
    const message = `${what} is no http or https URL that may be asked (no credentials, no ports of other protocols).`;
    throw new AppError("SOURCE_REFUSED", { message });
  }
  const { stateFile: file, collection, kind, maxPages } = options;
  const key = JSON.stringify([collection, kind, start.href]);
  const maxItems = maxPages * ITEMS_PER_PAGE + MORE_ITEMS;
  using frontier = new Frontier({ file, key, maxItems, maxListings: MAX_LISTINGS });
  return await new SiteRun(start, frontier, options, modules).run();
}
