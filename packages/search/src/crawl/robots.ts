import robotsParser from "robots-parser";
import type { FetchFault, FetchResult, SafeFetcher } from "../fetching/types.ts";
import type { RobotsStore } from "./frontier.ts";

interface ParsedRobots {
  isAllowed(url: string, product: string): boolean | undefined;
  getCrawlDelay(product: string): number | undefined;
  getSitemaps(): readonly string[];
}

// The package's types name a default export that its code, a CommonJS module, does not have.
const parseRobots = robotsParser as unknown as (url: string, text: string) => ParsedRobots;

/** RFC 9309, 2.5: at least 500 KiB are read. What comes after them is not. */
const MAX_BYTES = 512_000;
/** RFC 9309, 2.3.1.2: at least five redirects are followed. */
const MAX_REDIRECTS = 5;
/** RFC 9309, 2.4: a copy is used for a day at most. */
const KEEP_MS = 86_400_000;
/** Longest `Crawl-delay` that is obeyed in full. */
const MAX_DELAY_MS = 60_000;
/** Most characters of rules with wildcards. Each costs a walk over the URL; beyond this the whole host is refused. */
const MAX_WILD = 32_768;
/** Longest rule. No longer one can fit a URL that is asked. */
const MAX_RULE = 2_048;
const MAX_SITEMAPS = 100;
/** Faults that any other request to the host would meet as well: they say more than that its robots.txt is missing. */
const NO_WAY: ReadonlySet<FetchFault> = new Set(["private_address", "unresolved", "connect", "tls"]);

/** The rules of one host. */
export interface RobotsRules {
  /** Why nothing may be asked: the fault of the way to the host, or one of its own; undefined when the rules decide. */
  readonly refused: string | undefined;
  readonly delayMs: number;
  readonly sitemaps: readonly string[];
  isAllowed(url: string): boolean;
}

const refuseAll = (refused: string): RobotsRules => ({
  refused,
  delayMs: 0,
  sitemaps: [],
  isAllowed: () => false,
});

/** The name that robots.txt knows a crawler by: what stands before the first `/` or blank of its user agent. */
export function productOf(userAgent: string): string {
  return (/^[^\s/]+/.exec(userAgent)?.[0] ?? "").toLowerCase();
}

/** Reads a robots.txt. `url` is its own address. */
export function readRobots(url: string, text: string, product: string): RobotsRules {
  let wild = 0;
  const lines: string[] = [];
  for (const line of text.replace(/^\uFEFF/, "").split(/\r\n|\r|\n/)) {
    const rule =
      line
        .split("#", 1)[0]
        ?.trim()
        .replace(/\*{2,}/g, "*") ?? "";
    if (rule === "" || rule.length > MAX_RULE) continue;
    if (/^(?:dis)?allow\s*:/i.test(rule) && rule.includes("*")) wild += rule.length;
    lines.push(rule);
  }
  if (wild > MAX_WILD) return refuseAll("robots_too_costly");
  const robots = parseRobots(url, lines.join("\n"));
  const delay = Number(robots.getCrawlDelay(product) ?? 0) * 1_000;
  return {
    refused: undefined,
    delayMs: Math.min(MAX_DELAY_MS, Math.max(0, Number.isNaN(delay) ? 0 : delay)),
    sitemaps: robots.getSitemaps().slice(0, MAX_SITEMAPS),
    isAllowed: (page) => robots.isAllowed(page, product) !== false,
  };
}

/** What the rules of all hosts are read with. */
export interface RobotsBookModules {
  readonly fetcher: SafeFetcher;
  readonly store: RobotsStore;
  readonly clock: { nowMs(): number };
}

/** The robots.txt of every host that is asked, each read once a day. */
export class RobotsBook {
  readonly #product: string;
  readonly #modules: RobotsBookModules;
  readonly #known = new Map<string, { readonly rules: RobotsRules; readonly untilMs: number }>();

  constructor(options: { readonly userAgent: string }, modules: RobotsBookModules) {
    this.#product = productOf(options.userAgent);
    this.#modules = modules;
  }

  /** The rules of an origin, if they are known and not old. */
  known(origin: string): RobotsRules | undefined {
    const nowMs = this.#modules.clock.nowMs();
    const known = this.#known.get(origin);
    if (known !== undefined && nowMs < known.untilMs) return known.rules;
    const stored = this.#modules.store.robots(origin);
    if (stored === undefined || nowMs - stored.fetchedMs >= KEEP_MS || nowMs < stored.fetchedMs) return undefined;
    return this.#keep(origin, readRobots(`${origin}/robots.txt`, stored.text, this.#product), stored.fetchedMs);
  }

  /** Asks an origin for its rules. Undefined when the signal ended it. */
  async ask(origin: string, signal: AbortSignal): Promise<RobotsRules | undefined> {
    const url = `${origin}/robots.txt`;
    const read = new HeadOf(MAX_BYTES);
    const result = await this.#modules.fetcher.fetch({
      url,
      maxBytes: MAX_BYTES * 4,
      maxRedirects: MAX_REDIRECTS,
      sink: (piece) => read.take(piece),
      signal,
    });
    if (signal.aborted) return undefined;
    const nowMs = this.#modules.clock.nowMs();
    const text = textOf(result, read);
    // Not stored: the next run asks again.
    if (text === undefined) {
      const isNoWay = !result.ok && NO_WAY.has(result.reason) && result.url.startsWith(`${origin}/`);
      return this.#keep(origin, refuseAll(isNoWay ? result.reason : "robots_unreachable"), nowMs);
    }
    this.#modules.store.putRobots(origin, text, nowMs);
    return this.#keep(origin, readRobots(url, text, this.#product), nowMs);
  }

  #keep(origin: string, rules: RobotsRules, fetchedMs: number): RobotsRules {
    this.#known.set(origin, { rules, untilMs: fetchedMs + KEEP_MS });
    return rules;
  }
}

/** RFC 9309, 2.3.1: missing means that all is allowed, unreachable that nothing is. Undefined: unreachable. */
function textOf(result: FetchResult, read: HeadOf): string | undefined {
  if (result.ok) return result.status === 200 ? read.text() : "";
  const { reason, status } = result;
  if (reason === "too_many_redirects" || reason === "redirect_loop") return "";
  // 429 asks for patience, it does not say that there are no rules.
  return reason === "status" && status !== undefined && status >= 400 && status < 500 && status !== 429
    ? ""
    : undefined;
}

/** The first bytes of a body. */
class HeadOf {
  readonly #maxBytes: number;
  readonly #pieces: Uint8Array[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  take(piece: Uint8Array): boolean {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    return this.#bytes >= this.#maxBytes;
  }

  /** Whole lines only: half a rule would be another rule. */
  text(): string {
    const text = new TextDecoder().decode(Buffer.concat(this.#pieces).subarray(0, this.#maxBytes));
    return this.#bytes < this.#maxBytes ? text : text.slice(0, text.lastIndexOf("\n") + 1);
  }
}
