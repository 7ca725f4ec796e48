import type { Log } from "@turnpike/base";
import type { ChainClient, PocketQueries } from "@turnpike/chain-client";
import type { SessionEvidence } from "../evidence/session-evidence.ts";
import type { SessionOutcome, SettlementSearch } from "../evidence/types.ts";
import type { SettlementFact } from "./next-action.ts";
import { type Settlements, settlementKey, settlementsOf } from "./settlement-events.ts";

/** Blocks after which a block's events count as gone when the node reports that it has none. */
const MISSING_RESULTS_BLOCKS = 3n;
/**
 * CometBFT's texts about a block whose results it has pruned or never stored. Any other error may pass, and a session whose
 * settlement counts as unknown is never looked at again.
 */
const RESULTS_NOT_KEPT = /is not available, lowest height|could not find results for height|is not persisting/;
/** Maximum pause between two queries for the events of one block. */
const MAX_PAUSE_BLOCKS = 16n;
/**
 * Queries for the events of a block after which a session whose claim is gone continues without them: after some 350 blocks, for the
 * pauses between. A settlement may be larger than what a client reads in time, and its session would be kept permanently.
 */
const MAX_RESULT_QUERIES = 24;
/** The same, of a session for which a block's events are missing already: its outcome is hardly to be had. */
const MAX_FURTHER_QUERIES = 4;
/** Maximum number of blocks whose events are read after each new block, for all sessions together. */
const MAX_RESULTS = 32;
/** Maximum number of single claims that are queried after each new block. */
const MAX_CLAIM_QUERIES = 32;
/** Failures after which no other claim, or no other block, is queried before the next one: each may take as long as a node is waited for. */
const MAX_FAILED_QUERIES = 3;
/** Blocks after which the progress of a session that waits is stored: at most so many are read again after a crash. */
const STORE_EVERY_BLOCKS = 16n;

export interface SettlementSearchModules {
  readonly client: ChainClient;
  readonly queries: PocketQueries;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Sessions that are due, and the claims of the newest state that is known. */
export interface DueSessions {
  readonly sessions: readonly SessionEvidence[];
  readonly newestBlocks: bigint;
  /** By session id, claims in the state of `claimsHeightBlocks`; undefined when it is not known. */
  readonly claims: ReadonlyMap<string, unknown> | undefined;
  readonly claimsHeightBlocks: bigint;
}

/** One session's search. */
interface Progress {
  readonly session: SessionEvidence;
  search: SettlementSearch;
  outcome?: SessionOutcome;
}

const min = (a: bigint, b: bigint): bigint => (a < b ? a : b);

const settlementHeightOf = ({ session }: Progress): bigint => session.head.terms.windows.settlementHeight;

/** Blocks that a session has waited for after the height of its settlement. */
const waitedBlocks = (progress: Progress): bigint => progress.search.readToBlocks + 1n - settlementHeightOf(progress);

/** Last block that is of use to a session. */
const lastOf = ({ search }: Progress, newestBlocks: bigint): bigint =>
  min(newestBlocks, search.absentAtBlocks ?? newestBlocks);

/** The end of a search without an event: the claim is gone from the chain, and every block up to then was read. */
function factOf({ search, outcome }: Progress): SettlementFact | undefined {
  if (outcome !== undefined) return { kind: "outcome", outcome };
  const { readToBlocks, absentAtBlocks, isIncomplete } = search;
  if (absentAtBlocks === undefined || readToBlocks < absentAtBlocks) return undefined;
  return { kind: isIncomplete === true ? "gone" : "none" };
}

/**
 * Finds the blocks that settle sessions. A session is due at the height of its windows, and the chain may settle it in a later block:
 * it bounds the claims of one block, settles sessions in their order, and retries a settlement that failed. While the claim
 * is on the chain no block has settled it; once it is not, the events of the blocks since then are read in order.
 */
export class SettlementSearches {
  readonly #modules: SettlementSearchModules;
  /** Searches as far as they are, by session; the stored ones may be some blocks behind. */
  #searches = new Map<string, SettlementSearch>();
  /** Blocks whose events the node did not return, by height, and when it is asked again. */
  #unanswered = new Map<
    bigint,
    { readonly queries: number; readonly pauseBlocks: bigint; readonly againAtBlocks: bigint }
  >();
  /** Names of sessions whose claims were queried, the one whose turn was last at the end. */
  #queried = new Set<string>();

  constructor(modules: SettlementSearchModules) {
    this.#modules = modules;
  }

  /** Continues the search for each session, and returns the settlements that are known, by session id. */
  async advance(due: DueSessions): Promise<ReadonlyMap<string, SettlementFact>> {
    const { newestBlocks, claims, claimsHeightBlocks } = due;
    const all = due.sessions.map((session): Progress => {
      const { settlementSearch } = session.state;
      const start = { readToBlocks: session.head.terms.windows.settlementHeight - 1n };
      return { session, search: this.#searches.get(session.name) ?? settlementSearch ?? start };
    });
    const searching: Progress[] = [];
    for (const progress of all) {
      if (claims?.has(progress.session.head.header.sessionId) === true) waitTo(progress, claimsHeightBlocks);
      else searching.push(progress);
    }
    await this.#readEvents(searching, newestBlocks);
    await this.#confirmAbsence(searching, newestBlocks);
    this.#searches = new Map(all.map(({ session, search }) => [session.name, search]));
    const facts = new Map<string, SettlementFact>();
    for (const progress of all) {
      const fact = factOf(progress);
      if (fact !== undefined) facts.set(progress.session.head.header.sessionId, fact);
    }
    return facts;
  }

  /** Progress of a session's search that its stored state does not have yet. */
  unstored({ name, state: { settlementSearch: stored } }: SessionEvidence): SettlementSearch | undefined {
    const search = this.#searches.get(name);
    if (search === undefined) return undefined;
    const isChanged =
      search.absentAtBlocks !== stored?.absentAtBlocks ||
      search.isIncomplete !== stored?.isIncomplete ||
      search.readToBlocks >= (stored?.readToBlocks ?? search.readToBlocks - STORE_EVERY_BLOCKS) + STORE_EVERY_BLOCKS;
    return isChanged ? search : undefined;
  }

  /** Reads one block after another for each session, those that have waited the fewest blocks first. */
  async #readEvents(searching: readonly Progress[], newestBlocks: bigint): Promise<void> {
    const results = new Map<bigint, Settlements | "gone" | undefined>();
    const asked = new Set<bigint>();
    let failures = 0;
    const read = async (heightBlocks: bigint): Promise<Settlements | "gone" | undefined> => {
      if (results.has(heightBlocks)) return results.get(heightBlocks);
      const isPaused = newestBlocks < (this.#unanswered.get(heightBlocks)?.againAtBlocks ?? 0n);
      const isOver = results.size >= MAX_RESULTS || failures >= MAX_FAILED_QUERIES || this.#modules.signal.aborted;
      if (isPaused || isOver) return undefined;
      const settlements = await this.#settlementsAt(heightBlocks, newestBlocks);
      results.set(heightBlocks, settlements);
      if (settlements === undefined) failures++;
      return settlements;
    };
    let active = searching.toSorted((a, b) => Number(waitedBlocks(a) - waitedBlocks(b)));
    while (active.length > 0) {
      const advanced: Progress[] = [];
      for (const progress of active) {
        const next = progress.search.readToBlocks + 1n;
        if (next > lastOf(progress, newestBlocks)) continue;
        asked.add(next);
        const settlements = (await read(next)) ?? this.#givenUp(progress, next);
        if (settlements === undefined) continue;
        const isIncomplete = settlements === "gone" || progress.search.isIncomplete === true;
        progress.search = {
          ...progress.search,
          readToBlocks: next,
          ...(isIncomplete ? { isIncomplete } : {}),
        };
        if (settlements !== "gone") {
          const outcome = settlements.get(settlementKey(progress.session.head));
          if (outcome !== undefined) progress.outcome = outcome;
        }
        if (progress.outcome === undefined) advanced.push(progress);
      }
      active = advanced;
    }
    for (const height of this.#unanswered.keys()) if (!asked.has(height)) this.#unanswered.delete(height);
  }

  /** Returns "gone" for a block whose events a session waits for no longer. */
  #givenUp({ session, search }: Progress, heightBlocks: bigint): "gone" | undefined {
    const { absentAtBlocks, isIncomplete } = search;
    if (absentAtBlocks === undefined) return undefined;
    const queries = this.#unanswered.get(heightBlocks)?.queries ?? 0;
    if (queries < (isIncomplete === true ? MAX_FURTHER_QUERIES : MAX_RESULT_QUERIES)) return undefined;
    this.#modules.log.error(
      { session: session.name, heightBlocks, queries },
      "the events of a block cannot be read: the settlement of a session may be in it, and counts as unknown",
    );
    return "gone";
  }

  /**
   * Queries single claims of sessions whose blocks are read nearly to the newest, as those that the node does not keep are missing
   * for some blocks, or whose next block cannot be read. Each has its turn, whatever the node answers to another. A list without a claim proves nothing: its pages are of several states, and it may be cut.
   */
  async #confirmAbsence(searching: readonly Progress[], newestBlocks: bigint): Promise<void> {
    const { queries, signal, log } = this.#modules;
    const candidates = searching.filter(
      ({ outcome, search: { absentAtBlocks, readToBlocks } }) =>
        outcome === undefined &&
        absentAtBlocks === undefined &&
        (readToBlocks + MISSING_RESULTS_BLOCKS + 1n >= newestBlocks || this.#unanswered.has(readToBlocks + 1n)),
    );
    const byName = new Map(candidates.map((progress) => [progress.session.name, progress]));
    const queried = new Set([...this.#queried].filter((name) => byName.has(name)));
    const inOrder = [
      ...candidates.filter(({ session: { name } }) => !queried.has(name)),
      ...[...queried].flatMap((name) => byName.get(name) ?? []),
    ];
    this.#queried = queried;
    let failures = 0;
    for (const progress of inOrder.slice(0, MAX_CLAIM_QUERIES)) {
      if (signal.aborted || failures >= MAX_FAILED_QUERIES) return;
      queried.delete(progress.session.name);
      queried.add(progress.session.name);
      const { operatorAddress, header } = progress.session.head;
      const answer = await queries.sessionClaim(operatorAddress, header.sessionId, signal);
      if (!answer.ok) {
        log.warn({ session: progress.session.name, text: answer.text }, "a claim cannot be queried");
        failures++;
        continue;
      }
      const { claim, heightBlocks } = answer.value;
      if (heightBlocks < settlementHeightOf(progress)) continue;
      if (claim === undefined) progress.search = { ...progress.search, absentAtBlocks: heightBlocks };
      else waitTo(progress, heightBlocks);
    }
  }

  /** Settlements of a block; undefined when the node does not return its events, and is asked again after a pause. */
  async #settlementsAt(heightBlocks: bigint, newestBlocks: bigint): Promise<Settlements | "gone" | undefined> {
    const settlements = await this.#querySettlements(heightBlocks, newestBlocks);
    if (settlements === undefined) {
      const { queries, pauseBlocks: lastBlocks } = this.#unanswered.get(heightBlocks) ?? {
        queries: 0,
        pauseBlocks: 0n,
      };
      const pauseBlocks = min(lastBlocks * 2n || 1n, MAX_PAUSE_BLOCKS);
      const againAtBlocks = newestBlocks + pauseBlocks;
      this.#unanswered.set(heightBlocks, { queries: queries + 1, pauseBlocks, againAtBlocks });
    } else this.#unanswered.delete(heightBlocks);
    return settlements;
  }

  async #querySettlements(heightBlocks: bigint, newestBlocks: bigint): Promise<Settlements | "gone" | undefined> {
    const { client, log, signal } = this.#modules;
    try {
      const answer = await client.call("block_results", { height: `${heightBlocks}` }, signal);
      if (answer.ok) {
        const events = answer.result.finalize_block_events;
        return settlementsOf(heightBlocks, Array.isArray(events) ? events : []);
      }
      const text = answer.error.data || answer.error.message;
      log.warn({ heightBlocks, text }, "the events of a settlement cannot be read");
      const isGone = RESULTS_NOT_KEPT.test(text) && newestBlocks > heightBlocks + MISSING_RESULTS_BLOCKS;
      return isGone ? "gone" : undefined;
    } catch (cause) {
      log.warn({ cause, heightBlocks }, "the events of a settlement cannot be asked for");
      return undefined;
    }
  }
}

/** Notes that a claim was on the chain at a height: no block up to it has settled the claim. */
function waitTo(progress: Progress, heightBlocks: bigint): void {
  const { readToBlocks, absentAtBlocks } = progress.search;
  if (heightBlocks <= readToBlocks) return;
  // A node that lags shows a claim that a newer state does not have.
  const isOlder = absentAtBlocks !== undefined && absentAtBlocks > heightBlocks;
  progress.search = { readToBlocks: heightBlocks, ...(isOlder ? { absentAtBlocks } : {}) };
}
