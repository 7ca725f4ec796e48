import type { Clock, Labels, Metrics, ServiceId } from "@turnpike/base";
import type { UpstreamAnswer } from "../answers/upstream-answer.ts";
import { findMembers } from "../members.ts";
import type { CallKey } from "./call-key.ts";
import { answerOf, type Entry, type EntryOwner, entryBytes, parseResult, type RemovalReason } from "./entry.ts";
import { relayCacheHitsTotal, relayCacheMissesTotal } from "./metrics.ts";
import type { AnswerCacheOptions } from "./options.ts";
import { isEmptyResult, type Life, lifeOf, type RuleName, subjectOf } from "./policy.ts";
import { storeBody } from "./stored-body.ts";
import type { CacheHit, CacheMiss, CacheQuery, ChainFactsSource } from "./types.ts";

/** What the caches of all services share. */
export interface StoreTools {
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly options: AnswerCacheOptions;
  /** Runs something that holds bytes after this turn of the event loop; not at all when too much waits. */
  later(bytes: number, run: () => void): void;
  /** Makes room for an entry, and counts it. */
  added(entry: Entry): void;
  removed(entry: Entry, reason: RemovalReason): void;
}

const RULES: readonly RuleName[] = ["forever", "head", "block", "found"];
const MIN_HEAD_AGE_MS = 50;
/** Larger answers are kept only when they are asked for again: storing one costs as much as relaying it. */
const LARGE_BYTES = 4_096;
/** 16 KiB a service. */
const DOORKEEPER_SLOTS = 4_096;

/**
 * TinyLFU's doorkeeper: whether a key was asked for before, roughly and in little memory. An answer that is true for half a
 * second is worth keeping only where the same is asked again and again. Most keys are asked for once, and to store their
 * answers costs more than it saves.
 */
export class Doorkeeper {
  readonly #seen: Uint32Array;
  readonly #mask: number;

  /** `slots`: about how many keys it holds; a power of two. */
  constructor(slots: number) {
    this.#seen = new Uint32Array(slots);
    this.#mask = slots - 1;
  }

  /** True when this key was the last that was seen in its place; it is from now on. */
  wasSeen({ hash }: CallKey): boolean {
    const at = hash & this.#mask;
    const wasSeen = this.#seen[at] === hash;
    this.#seen[at] = hash;
    return wasSeen;
  }
}

/** The kept answers of one service. */
export class ServiceCache implements EntryOwner {
  readonly #chain: ChainFactsSource;
  readonly #tools: StoreTools;
  readonly #labels: ReadonlyMap<RuleName, Labels>;
  /** By the hash of their keys: of two keys with the same one, the newer has the place. */
  readonly #entries = new Map<number, Entry>();
  /** Those that a reorganisation may make wrong. */
  readonly #open = new Set<Entry>();
  readonly #doorkeeper = new Doorkeeper(DOORKEEPER_SLOTS);
  readonly #unsubscribe: () => void;
  #highestFinalBlocks = -1;
  #clearMark = 0;
  #isClosed = false;

  constructor(service: ServiceId, chain: ChainFactsSource, tools: StoreTools) {
    this.#chain = chain;
    this.#tools = tools;
    this.#labels = new Map(RULES.map((rule) => [rule, { service, rule }]));
    this.#unsubscribe = chain.onReorg((fromBlocks) => this.dropFrom(fromBlocks));
  }

  /** Looks a call up. Undefined: its answer is never kept. Times are monotonic milliseconds. */
  get(query: CacheQuery, nowMs: number): CacheHit | CacheMiss | undefined {
    const { key, rule, refs, id } = query;
    if (rule.by === "never" || this.#isClosed || this.#tools.options.maxBytes === 0) return undefined;
    // First: a look at the chain may show that blocks were replaced.
    const headMark = this.#chain.headMark(nowMs);
    const entry = this.#entries.get(key.hash);
    if (entry !== undefined && entry.key.text === key.text) {
      const answer = this.#use(entry, id, nowMs);
      if (answer !== undefined) {
        this.#tools.metrics.count(relayCacheHitsTotal, this.#labels.get(entry.rule));
        return { kind: "hit", answer, ageMs: nowMs - entry.storedMs };
      }
    }
    const subject = subjectOf(rule, refs);
    if (subject === undefined) return undefined;
    this.#tools.metrics.count(relayCacheMissesTotal, this.#labels.get(subject.rule));
    if (subject.isHead && this.#isFirst(key)) return undefined;
    const { forkMark } = this.#chain;
    const finalBlocks = this.#chain.final(nowMs);
    const hasId = id !== undefined;
    return { kind: "miss", key, hasId, subject, headMark, forkMark, clearMark: this.#clearMark, finalBlocks };
  }

  /** Stores an answer after this turn of the event loop, if it is still true then. */
  put(miss: CacheMiss, answer: UpstreamAnswer): void {
    const { maxEntryBytes } = this.#tools.options;
    if (answer.isError || answer.stream !== undefined || answer.lastResort !== undefined) return;
    if (answer.status < 200 || answer.status > 299) return;
    if (answer.body.length === 0 || answer.body.length > maxEntryBytes) return;
    if (answer.body.length > LARGE_BYTES && this.#isFirst(miss.key)) return;
    this.#tools.later(answer.body.length, () => this.#store(miss, answer));
  }

  #isFirst(key: CallKey): boolean {
    return this.#tools.options.waitsForSecond && !this.#doorkeeper.wasSeen(key);
  }

  /** Drops what is about blocks from this height on; 0: about any block. Called by the chain view at a reorganisation. */
  dropFrom(heightBlocks: number): void {
    const all = heightBlocks <= this.#highestFinalBlocks ? this.#entries.values() : this.#open;
    for (const entry of all) if (entry.heightBlocks >= heightBlocks) this.remove(entry, "reorg");
  }

  /** Drops an operator's answers: one was wrong. */
  dropOperator(operator: string): void {
    // What it sent is also on its way.
    this.#clearMark++;
    for (const entry of this.#entries.values()) if (entry.operator === operator) this.remove(entry, "operator");
  }

  /** Drops all answers of this service. */
  clear(): void {
    this.#clearMark++;
    for (const entry of this.#entries.values()) this.remove(entry, "cleared");
    this.#highestFinalBlocks = -1;
  }

  /** {@link clear}, and takes no more. */
  close(): void {
    this.#isClosed = true;
    this.#unsubscribe();
    this.clear();
  }

  isDead(entry: Entry, nowMs: number): boolean {
    if (nowMs >= entry.expiresMs) return true;
    if (entry.life === "head" && entry.headMark !== this.#chain.headMark(nowMs)) return true;
    return entry.isOfFinalTag && entry.finalBlocks !== this.#chain.final(nowMs);
  }

  remove(entry: Entry, reason: RemovalReason): void {
    this.#entries.delete(entry.key.hash);
    this.#open.delete(entry);
    this.#tools.removed(entry, reason);
  }

  #use(entry: Entry, id: string | undefined, nowMs: number): UpstreamAnswer | undefined {
    if (this.isDead(entry, nowMs)) {
      this.remove(entry, nowMs >= entry.expiresMs ? "expired" : "head");
      return undefined;
    }
    if (entry.hasId !== (id !== undefined)) return undefined;
    const answer = answerOf(entry, id ?? "");
    if (entry.heightOf !== undefined && !this.#settle(entry, answer, nowMs)) return undefined;
    entry.isUsed = true;
    return answer;
  }

  /** Reads the height of an answer that is used for the first time: most are never used, and it has to be parsed. */
  #settle(entry: Entry, answer: UpstreamAnswer, nowMs: number): boolean {
    const { maxAgeMs, unfinalAgeMs } = this.#tools.options;
    const height = entry.heightOf?.(parseResult(answer));
    const newest = this.#chain.newest(nowMs);
    entry.heightOf = undefined;
    const isKnown = height !== undefined && Number.isSafeInteger(height) && height >= 0;
    const isFinal = isKnown && entry.finalBlocks !== undefined && height <= entry.finalBlocks;
    entry.expiresMs = entry.storedMs + (isFinal ? maxAgeMs : unfinalAgeMs);
    if (!isKnown || newest === undefined || height > newest || nowMs >= entry.expiresMs) {
      this.remove(entry, "expired");
      return false;
    }
    entry.heightBlocks = height;
    if (!isFinal) return true;
    entry.life = "final";
    this.#open.delete(entry);
    this.#highestFinalBlocks = Math.max(this.#highestFinalBlocks, height);
    return true;
  }

  #store(miss: CacheMiss, answer: UpstreamAnswer): void {
    if (this.#isClosed || miss.clearMark !== this.#clearMark) return;
    const { clock, options } = this.#tools;
    const nowMs = clock.monotonicMs();
    const members = miss.hasId && answer.idAt === undefined ? findMembers(answer.body) : undefined;
    const idAt = miss.hasId ? (answer.idAt ?? members?.get("id")) : undefined;
    const resultAt = miss.hasId ? (answer.resultAt ?? (members ?? findMembers(answer.body))?.get("result")) : undefined;
    if (miss.hasId && (idAt === undefined || resultAt === undefined)) return;
    const isEmpty = isEmptyResult(answer.body, resultAt ?? { start: 0, end: answer.body.length });
    const life = this.#lifeNow(miss, answer.operator, isEmpty, nowMs);
    if (life === undefined) return;
    const { subject, key } = miss;
    // Its parts become one piece: what is kept must not hold the text of a batch that it was cut out of.
    key.text.charCodeAt(0);
    const { heightBlocks, rule, heightOf } = subject;
    const stored = storeBody(answer.body, idAt);
    const bytes = entryBytes(key, stored, life);
    if (bytes > Math.min(options.maxBytes, options.maxEntryBytes)) return;
    const idStart = idAt?.start ?? 0;
    const shift = idAt !== undefined && resultAt !== undefined && resultAt.start > idStart ? idAt.end - idAt.start : 0;
    const entry: Entry = {
      owner: this,
      key,
      rule,
      stored,
      bytes,
      idStart,
      hasId: miss.hasId,
      resultAt: resultAt === undefined ? undefined : { start: resultAt.start - shift, end: resultAt.end - shift },
      status: answer.status,
      contentType: answer.contentType,
      schemaCheck: answer.schemaCheck,
      operator: answer.operator,
      storedMs: nowMs,
      headMark: miss.headMark,
      finalBlocks: miss.finalBlocks,
      life,
      heightBlocks: life === "head" || life === "tag" ? Number.POSITIVE_INFINITY : heightBlocks,
      expiresMs: nowMs + this.#ageOf(life, heightOf !== undefined),
      isOfFinalTag: subject.isFinalTag,
      heightOf,
      isUsed: false,
      newer: undefined,
      older: undefined,
    };
    const before = this.#entries.get(key.hash);
    if (before !== undefined) this.remove(before, "replaced");
    this.#tools.added(entry);
    this.#entries.set(key.hash, entry);
    if (life !== "final") this.#open.add(entry);
    else this.#highestFinalBlocks = Math.max(this.#highestFinalBlocks, heightBlocks);
  }

  /** How long an answer lives, if what was known when the call was sent is still so. */
  #lifeNow(miss: CacheMiss, operator: string, isEmpty: boolean, nowMs: number): Life | undefined {
    const chain = this.#chain;
    const headMark = chain.headMark(nowMs);
    const facts = {
      newestBlocks: chain.newest(nowMs),
      finalBlocks: miss.finalBlocks,
      operatorBlocks: chain.heightOf(operator, nowMs),
    };
    // Something found has a block; nothing found may have one tomorrow.
    const life = miss.subject.heightOf !== undefined && isEmpty ? undefined : lifeOf(miss.subject, facts, isEmpty);
    if (life === "head" && headMark !== miss.headMark) return undefined;
    // An answer that was on its way while blocks were replaced may be about one of them.
    if (chain.forkMark !== miss.forkMark && miss.subject.rule !== "forever") return undefined;
    return miss.subject.isFinalTag && chain.final(nowMs) !== miss.finalBlocks ? undefined : life;
  }

  #ageOf(life: Life, isUnread: boolean): number {
    const { maxAgeMs, unfinalAgeMs, headAgeMs } = this.#tools.options;
    if (life === "final" || isUnread) return maxAgeMs;
    if (life === "unfinal") return unfinalAgeMs;
    return Math.min(headAgeMs, Math.max(MIN_HEAD_AGE_MS, this.#chain.blockTimeMs));
  }
}
