import type { FetchAnswer, FetchFault } from "../fetching/types.ts";
import type { Frontier } from "./frontier.ts";
import type { Hosts } from "./hosts.ts";
import type { KnownDocuments } from "./known-documents.ts";
import type { SiteModules } from "./options.ts";
import type { RobotsBook } from "./robots.ts";
import type { Tally } from "./tally.ts";
import type { Scope } from "./urls.ts";

/** Media types of pages. */
export const PAGE_TYPES = [
  "text/html",
  "application/xhtml+xml",
  "text/plain",
  "text/markdown",
  "text/x-markdown",
  "application/pdf",
] as const;
/** Attempts at one page that is answered 429 or 503. */
export const MAX_ATTEMPTS = 5;
/** A list may take this much longer than a page. */
export const LISTING_TIMEOUT_MS = 60_000;
/** Longest title that is kept. */
export const MAX_TITLE = 1_024;

/** Faults of the way to a host, not of one page. */
export const NETWORK: ReadonlySet<FetchFault> = new Set([
  "timeout",
  "reset",
  "connect",
  "unresolved",
  "tls",
  "protocol",
]);
/** Outcomes of an address that answers with something the index cannot hold: its document is removed. */
export const NO_PAGE: ReadonlySet<string> = new Set(["type", "too_large", "empty", "unsupported"]);

/** Refusals of a whole host that may pass. */
export const NOT_NOW: ReadonlySet<string> = new Set(["robots_unreachable", "unresolved", "connect"]);

export interface VisitModules extends SiteModules {
  readonly frontier: Frontier;
  readonly documents: KnownDocuments;
  readonly hosts: Hosts;
  readonly robots: RobotsBook;
  readonly tally: Tally;
  readonly scope: Scope;
  readonly signal: AbortSignal;
}

/** What became of a page, and what is kept of it. */
export interface Judgement {
  readonly outcome: string;
  readonly isAsked: boolean;
  /** True: its document stays in the index. Default: it is removed. */
  readonly keeps?: boolean;
  readonly answer?: FetchAnswer;
  readonly hash?: string;
  readonly canonical?: string | undefined;
  readonly links?: readonly string[];
}

/** A date of a header as ISO 8601; undefined when it is none. */
export function isoOf(date: string | undefined): string | undefined {
  const ms = date === undefined ? Number.NaN : Date.parse(date);
  return Number.isNaN(ms) || Math.abs(ms) > 8.64e15 ? undefined : new Date(ms).toISOString();
}
