import type { Clock } from "@turnpike/base";
import { type ChainHead, coinAmount, type PocketQueries } from "@turnpike/chain-client";
import type { application, session as sessions, shared } from "@turnpike/proto";
import { isGracePeriodOver, type SessionHeader, sessionAt } from "@turnpike/protocol";
import type { ServedBefore } from "../evidence/types.ts";
import type { BudgetReader, BudgetSubject } from "../metering/budget-reader.ts";
import { RelayRate } from "../metering/relay-rate.ts";
import { SessionBudget } from "../metering/session-budget.ts";
import { REFUSALS, type Refusal } from "./refusal.ts";
import { ringKeys } from "./ring-keys.ts";
import { SeenRequests } from "./seen-requests.ts";

interface SessionKeeperOptions {
  /**
   * Most sessions that are kept, of all operators together. One that served nothing goes when there are more, the one that was
   * not used for longest first; where all have served, a new one is refused.
   */
  readonly maxSessions: number;
  /** Most requests of one session that are remembered, to refuse repeated ones: more are refused. */
  readonly maxSeenRequests: number;
  /** Most relays a second of an application's session, by service; unbounded where there is none. */
  readonly relaysPerSecond?: ReadonlyMap<string, number>;
}

interface SessionKeeperModules {
  readonly queries: PocketQueries;
  readonly budgets: BudgetReader;
  readonly head: Pick<ChainHead, "newest" | "waitFor">;
  readonly clock: Clock;
  /** Relays of a session that an operator has in its log already, after a restart. */
  readonly servedBefore: (operatorAddress: string, sessionId: string) => Promise<ServedBefore>;
}

/** A session that an operator serves, read from the chain. */
export interface ServedSession extends BudgetSubject {
  /** Compressed keys that may sign. They grow when the application delegates to another gateway. */
  ringKeys: readonly Uint8Array[];
  /** Empty until the first verified request: anybody can name a session. */
  readonly budget: SessionBudget;
  readonly seen: SeenRequests;
  readonly rate: RelayRate | undefined;
  /** The newest query for the keys that may sign. */
  renewal?: { readonly heightBlocks: bigint | undefined; readonly isGrown: Promise<boolean> };
  /** Newest read of the budget; `final` when no later one can raise it. */
  reading?: BudgetReading | "final";
}

interface BudgetReading {
  readonly heightBlocks: bigint | undefined;
  /** False when the chain is unreachable. */
  readonly isRead: Promise<boolean>;
}

/** A session to serve, or why it is not served. */
export type Admission =
  | { readonly ok: true; readonly session: ServedSession }
  | { readonly ok: false; readonly refusal: Refusal };

const refused = (refusal: Refusal): Admission => ({ ok: false, refusal });

/** No session is longer, and no chain higher: what says so was made up. */
const LONGEST_SESSION_BLOCKS = 1_000_000n;
const HIGHEST_BLOCK = 1n << 53n;
/** Time for a block that a gateway has and this process has not. */
const NEXT_BLOCK_MS = 1_000;
/** Sessions that may wait for it: their requests are not verified yet. */
const MOST_WAITING = 256;
/** Sessions that the chain is asked for at once, and those that are queued: unsigned requests must not fill the node. */
const MOST_LOADING = 64;
const MOST_QUEUED = 256;

const isSameHeader = (a: SessionHeader, b: SessionHeader): boolean =>
  a.applicationAddress === b.applicationAddress &&
  a.serviceId === b.serviceId &&
  a.sessionId === b.sessionId &&
  a.sessionStartBlockHeight === b.sessionStartBlockHeight &&
  a.sessionEndBlockHeight === b.sessionEndBlockHeight;

function headerOf(found: sessions.Session): SessionHeader | undefined {
  const { header } = found;
  return header === undefined
    ? undefined
    : {
        applicationAddress: header.applicationAddress,
        serviceId: header.serviceId,
        sessionId: header.sessionId,
        sessionStartBlockHeight: header.sessionStartBlockHeight,
        sessionEndBlockHeight: header.sessionEndBlockHeight,
      };
}

/**
 * The sessions that the operators of this process are in. A relay's header is held against the chain's own session, once
 * for each session and operator; after that nothing is asked on a relay's way.
 */
export class SessionKeeper {
  readonly #options: SessionKeeperOptions;
  readonly #modules: SessionKeeperModules;
  readonly #sessions = new Map<string, ServedSession>();
  readonly #flights = new Map<string, Promise<Admission>>();
  readonly #queue: (() => void)[] = [];
  #waiting = 0;
  #loading = 0;
  /** Sessions for which there is room, and which are not in the map yet. */
  #opening = 0;

  constructor(options: SessionKeeperOptions, modules: SessionKeeperModules) {
    this.#options = options;
    this.#modules = modules;
  }

  /** The session of a relay, when it is one that this operator may serve now. */
  async admit(header: SessionHeader, operatorAddress: string): Promise<Admission> {
    const { sessionStartBlockHeight: start, sessionEndBlockHeight: end } = header;
    if (start < 1n || end < start || end > HIGHEST_BLOCK || end - start > LONGEST_SESSION_BLOCKS) {
      return refused(REFUSALS.implausibleHeights);
    }
    const name = `${operatorAddress} ${header.sessionId}`;
    const kept = this.#sessions.get(name);
    // Another application or service with the id of a session that is known: the chain says what is wrong with it.
    if (kept !== undefined && kept.header.applicationAddress === header.applicationAddress) {
      this.#sessions.delete(name);
      this.#sessions.set(name, kept);
      return this.#current(kept, header);
    }
    // Without the end: it is not used to find the session, and each relay's own is compared below.
    const key = `${name} ${header.applicationAddress} ${header.serviceId} ${start}`;
    let flight = this.#flights.get(key);
    if (flight === undefined) {
      flight = this.#load(header, operatorAddress).finally(() => this.#flights.delete(key));
      this.#flights.set(key, flight);
    }
    const found = await flight;
    return found.ok ? this.#current(found.session, header) : found;
  }

  /**
   * Queries who may sign for the session's application now, at most once a block, since untrusted requests cause it. True when
   * there are new keys.
   */
  renewRing(session: ServedSession): Promise<boolean> {
    const heightBlocks = this.#modules.head.newest?.heightBlocks;
    // A gateway that joins after a session's last block signs none of its relays: no proof of such a relay would be accepted.
    if (heightBlocks === undefined || heightBlocks > session.header.sessionEndBlockHeight)
      return Promise.resolve(false);
    if (session.renewal === undefined || session.renewal.heightBlocks !== heightBlocks) {
      session.renewal = { heightBlocks, isGrown: this.#renew(session) };
    }
    return session.renewal.isGrown;
  }

  /**
   * Takes one relay of a session's budget for a request whose signature is verified, or returns the refusal. The budget is read
   * for the first one. One that is used up is read again, at most once a block, until the application's earlier sessions are
   * settled.
   */
  async acquireBudget(session: ServedSession): Promise<Refusal | undefined> {
    const expiry = this.#expiryOf(session);
    if (expiry !== undefined) return expiry;
    const { budget, header } = session;
    if (budget.acquire()) return undefined;
    const reading = this.#read(session);
    if (reading !== "final" && !(await reading.isRead)) {
      return REFUSALS.unavailable("chain_unreachable", header.serviceId);
    }
    return budget.acquire() ? undefined : REFUSALS.overLimit;
  }

  /** Newest read of a session's budget, begun now where it is of an earlier block. */
  #read(session: ServedSession): BudgetReading | "final" {
    const heightBlocks = this.#modules.head.newest?.heightBlocks;
    const { reading } = session;
    if (reading === "final" || (reading !== undefined && reading.heightBlocks === heightBlocks)) return reading;
    session.reading = this.#isFollowed(session) ? "final" : { heightBlocks, isRead: this.#readBudget(session) };
    return session.reading;
  }

  async #readBudget(session: ServedSession): Promise<boolean> {
    const earlier = this.#earlierOf(session);
    // They share one stake: an earlier session that is still served leaves a part of it.
    for (const { budget } of earlier) budget.halve();
    const limit = await this.#modules.budgets.limit(session, earlier);
    if (!limit.ok) {
      // Unlike a limit that is too low, this may pass before the next block.
      delete session.reading;
      return false;
    }
    session.budget.raise(limit.value.relays);
    if (limit.value.isFinal) session.reading = "final";
    return true;
  }

  /** Earlier sessions of the same operator and application that are still served. */
  #earlierOf(session: ServedSession): ServedSession[] {
    const { sessionStartBlockHeight: start } = session.header;
    return this.#siblingsOf(session).filter(
      (other) => other.header.sessionEndBlockHeight < start && this.#expiryOf(other) === undefined,
    );
  }

  /** True when a later session of the same operator and application has a budget: it counts on what this one has. */
  #isFollowed(session: ServedSession): boolean {
    const { sessionEndBlockHeight: end } = session.header;
    return (
      session.budget.isHalved ||
      this.#siblingsOf(session).some(
        ({ header, reading, budget }) =>
          header.sessionStartBlockHeight > end && (reading !== undefined || budget.limitRelays > 0n),
      )
    );
  }

  /** Sessions of the same operator and application. */
  #siblingsOf({ operatorAddress, header }: ServedSession): ServedSession[] {
    return [...this.#sessions.values()].filter(
      (other) =>
        other.operatorAddress === operatorAddress && other.header.applicationAddress === header.applicationAddress,
    );
  }

  /** The refusal of a relay in a session whose grace is over. */
  #expiryOf({ params, header: { sessionEndBlockHeight: end } }: ServedSession): Refusal | undefined {
    const height = this.#modules.head.newest?.heightBlocks;
    return height !== undefined && isGracePeriodOver(params, end, height)
      ? REFUSALS.sessionExpired(end, height)
      : undefined;
  }

  async #renew(session: ServedSession): Promise<boolean> {
    const { header } = session;
    const answer = await this.#modules.queries.application(header.applicationAddress, { fresh: true });
    if (!answer.ok) return false;
    const found = await ringKeys(answer.value, header.sessionEndBlockHeight, this.#modules.queries);
    if (!found.ok) return false;
    const known = new Set(session.ringKeys.map((key) => Buffer.from(key).toString("hex")));
    const fresh = found.keys.filter((key) => !known.has(Buffer.from(key).toString("hex")));
    // Who could sign when the session began still may: an undelegated gateway stays in the ring to its end.
    if (fresh.length > 0) session.ringKeys = [...session.ringKeys, ...fresh];
    return fresh.length > 0;
  }

  /** Sessions that are kept. */
  get size(): number {
    return this.#sessions.size;
  }

  /** True when a session is the one whose requests are remembered: one that was removed must not serve any more. */
  isKept(session: ServedSession): boolean {
    return this.#sessions.get(`${session.operatorAddress} ${session.header.sessionId}`) === session;
  }

  #current(session: ServedSession, header: SessionHeader): Admission {
    if (!isSameHeader(session.header, header)) return refused(REFUSALS.headerMismatch);
    const expiry = this.#expiryOf(session);
    if (expiry !== undefined) return refused(expiry);
    return { ok: true, session };
  }

  /**
   * Makes room for one more session: those that are over are removed, and then the one that was not used for longest of those
   * that served nothing. False when there is none of these: a session that served remembers which requests it answered, and
   * without it they would be answered again.
   */
  #makeRoom(): boolean {
    const height = this.#modules.head.newest?.heightBlocks ?? 0n;
    for (const [name, { params, header }] of this.#sessions) {
      if (isGracePeriodOver(params, header.sessionEndBlockHeight, height)) this.#sessions.delete(name);
    }
    if (this.#sessions.size + this.#opening < this.#options.maxSessions) return true;
    for (const [name, { budget, seen }] of this.#sessions) {
      if (budget.usedRelays === 0n && seen.size === 0) return this.#sessions.delete(name);
    }
    return false;
  }

  /**
   * The newest height, where a session begins that may be the next one: a gateway hears of its first block as soon as this
   * supplier does, and may be the first of the two.
   */
  async #heightAt(startHeight: bigint): Promise<bigint | undefined> {
    const { head } = this.#modules;
    const height = head.newest?.heightBlocks;
    if (height === undefined || startHeight !== height + 1n || this.#waiting >= MOST_WAITING) return height;
    const params = this.#modules.queries.peekSharedParamsAt(height);
    if (params === undefined || sessionAt(params, height).endHeight !== height) return height;
    this.#waiting++;
    const mark = await head.waitFor(startHeight, AbortSignal.timeout(NEXT_BLOCK_MS));
    this.#waiting--;
    return mark?.heightBlocks ?? height;
  }

  /** @param header of the first relay; its end is not used, as others wait for the same session */
  async #load(header: Omit<SessionHeader, "sessionEndBlockHeight">, operatorAddress: string): Promise<Admission> {
    const { serviceId, sessionStartBlockHeight: start } = header;
    const height = await this.#heightAt(start);
    if (height === undefined) return refused(REFUSALS.unavailable("chain_unreachable", serviceId));
    if (start > height) {
      const text = `block height ${start} is ahead of the last committed block height ${height}`;
      return refused(REFUSALS.chainRefused("session_ahead", text));
    }
    if (this.#loading < MOST_LOADING) this.#loading++;
    else if (this.#queue.length >= MOST_QUEUED) return refused(REFUSALS.unavailable("chain_unreachable", serviceId));
    else await new Promise<void>((resolve) => this.#queue.push(resolve));
    try {
      return await this.#ask(header, operatorAddress, height);
    } finally {
      const next = this.#queue.shift();
      if (next === undefined) this.#loading--;
      else next();
    }
  }

  async #ask(
    header: Omit<SessionHeader, "sessionEndBlockHeight">,
    operatorAddress: string,
    height: bigint,
  ): Promise<Admission> {
    const { queries } = this.#modules;
    const { applicationAddress, serviceId, sessionStartBlockHeight: start } = header;
    const params = await queries.sharedParamsAt(start);
    if (!params.ok) return refused(REFUSALS.unavailable("chain_unreachable", serviceId));
    const end = sessionAt(params.value, start).endHeight;
    if (isGracePeriodOver(params.value, end, height)) return refused(REFUSALS.sessionExpired(end, height));
    const found = await queries.session(applicationAddress, serviceId, start);
    if (!found.ok) {
      return refused(
        found.fault === "refused"
          ? REFUSALS.chainRefused("unknown_application", found.text)
          : REFUSALS.unavailable("chain_unreachable", serviceId),
      );
    }
    const own = headerOf(found.value);
    const { application: applicationRecord } = found.value;
    if (own === undefined || applicationRecord === undefined) {
      return refused(REFUSALS.unavailable("chain_unreachable", serviceId));
    }
    if (own.sessionId !== header.sessionId) return refused(REFUSALS.sessionMismatch(own.sessionId, header.sessionId));
    if (own.sessionStartBlockHeight !== start) return refused(REFUSALS.headerMismatch);
    if (!found.value.suppliers.some((supplier) => supplier.operatorAddress === operatorAddress)) {
      return refused(REFUSALS.notInSession(operatorAddress));
    }
    return this.#open(own, operatorAddress, {
      application: applicationRecord,
      suppliers: found.value.suppliers.length,
      params: params.value,
    });
  }

  async #open(
    header: SessionHeader,
    operatorAddress: string,
    facts: {
      readonly application: application.Application;
      readonly suppliers: number;
      readonly params: shared.Params;
    },
  ): Promise<Admission> {
    const { queries, servedBefore, clock } = this.#modules;
    const { serviceId, sessionEndBlockHeight: end, sessionId } = header;
    const ring = await ringKeys(facts.application, end, queries);
    if (!ring.ok) {
      return refused(
        ring.fault === "refused"
          ? REFUSALS.ringKeyMissing(ring.text)
          : REFUSALS.unavailable("chain_unreachable", serviceId),
      );
    }
    // It is read once: with a limit that is not known, no relay of the session would ever be sure to be paid.
    if (coinAmount(facts.application.perSessionSpendLimit) === undefined) {
      return refused(REFUSALS.unavailable("chain_unreachable", serviceId));
    }
    if (!this.#makeRoom()) return refused(REFUSALS.overloaded);
    this.#opening++;
    const { relays, requests } = await servedBefore(operatorAddress, sessionId).finally(() => this.#opening--);
    const seen = new SeenRequests(this.#options.maxSeenRequests);
    for (const name of requests) seen.add(name);
    const perSecond = this.#options.relaysPerSecond?.get(serviceId);
    const session: ServedSession = {
      ...facts,
      operatorAddress,
      header,
      rate: perSecond === undefined ? undefined : new RelayRate(perSecond, clock),
      ringKeys: ring.keys,
      budget: new SessionBudget(relays),
      seen,
    };
    this.#sessions.set(`${operatorAddress} ${sessionId}`, session);
    return { ok: true, session };
  }
}
