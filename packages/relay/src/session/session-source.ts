import { setTimeout as delay } from "node:timers/promises";
import type { Clock, Log, Metrics } from "@turnpike/base";
import { type ChainHead, coinAmount, type PocketQueries } from "@turnpike/chain-client";
import type { application } from "@turnpike/proto";
import { type GatewaySession, loadSession } from "./gateway-session.ts";
import { relayServicesLeftOut, relaySessionAgeBlocks, relaySessionLoadsTotal, relaySessions } from "./metrics.ts";
import type { SigningKey } from "./signing-keys.ts";

export interface SessionSourceOptions {
  /** Of the staked gateway: every application that is delegated to it is used. */
  readonly gatewayKey: SigningKey | undefined;
  readonly applicationKeys: readonly SigningKey[];
  /** Blocks between looks at which applications there are. */
  readonly renewBlocks: bigint;
  /**
   * Most applications that are used, 1,000 by default: anyone may delegate one to a gateway. Own ones are used first, then one
   * of each service in turn, by stake: all processes of a gateway choose the same.
   */
  readonly maxApplications?: number;
  /**
   * Most services that only the chain has; {@link MAX_REGISTERED_SERVICES} by default. Those of own applications come first,
   * then the others by the stake of their applications.
   */
  readonly maxRegistered?: number;
  /**
   * True: an application that others delegate to the gateway is used for this service; by default for all. Anyone may
   * delegate one, and so change by whom the service is served.
   */
  readonly usesDelegated?: (serviceId: string) => boolean;
  /** By default all services are known. */
  readonly originOf?: (serviceId: string) => ServiceOrigin;
  /** Longest pause before the sessions after a boundary are asked for: not all gateways at once. */
  readonly maxJitterMs: number;
}

/** `known`: to the catalogue or the operator; `registered`: to the chain alone; `refused`: it cannot be served. */
export type ServiceOrigin = "known" | "registered" | "refused";

export interface SessionSourceModules {
  readonly queries: PocketQueries;
  readonly head: ChainHead;
  readonly clock: Clock;
  /** 0 to 1, for the jitter. */
  readonly random: () => number;
  readonly metrics: Metrics;
  readonly log: Log;
}

/** The sessions of one service changed: suppliers came or went. */
export type SessionListener = (serviceId: string, sessions: readonly GatewaySession[]) => void;

/** A block came; `isReplaced`: it is of a chain that was restarted from genesis. */
export type HeightListener = (heightBlocks: bigint, isReplaced: boolean) => void;

/** The applications of this gateway were looked at. */
export type ApplicationsListener = () => void;

interface Stake {
  readonly applicationAddress: string;
  readonly serviceId: string;
  readonly upokt: bigint;
}

interface Slot extends Pick<Stake, "applicationAddress" | "serviceId"> {
  session: GatewaySession | undefined;
  /** Why there is none, for an operator. */
  fault: string | undefined;
  isLoading: boolean;
  /** Without a session it is asked for again at this height. */
  nextTry: bigint;
  failures: number;
}

/** What a node says that lacks the block itself: of several nodes behind one address one may lag. */
const LAGGING = /ahead of the last committed block height/;
/** After failures a session is asked for again so many blocks later at the most. */
const MOST_RETRY_BLOCKS = 16n;
const MAX_APPLICATIONS = 1_000;
/** Services of applications that are served beside those of the catalogue and the configuration: anyone may register some. */
export const MAX_REGISTERED_SERVICES = 256;
/** Ids that one line of the log names. */
const MAX_SHOWN = 10;

/**
 * The sessions that this gateway may use now, by service. They follow the chain's blocks: at a boundary the next one is
 * asked for once per application, and the one before stays in use, within its grace, until the next is known. Reading
 * never waits.
 */
export class SessionSource implements AsyncDisposable {
  readonly #options: SessionSourceOptions;
  readonly #modules: SessionSourceModules;
  readonly #keys: ReadonlyMap<string, SigningKey>;
  readonly #slots = new Map<string, Slot>();
  readonly #listeners = new Set<SessionListener>();
  readonly #heightListeners = new Set<HeightListener>();
  readonly #applicationsListeners = new Set<ApplicationsListener>();
  readonly #work = new Set<Promise<void>>();
  readonly #ended = new AbortController();
  #blocks: Disposable | undefined;
  #nextRenewal = 0n;
  #renewedAt = 0n;
  /** How often the chain had been restarted from genesis at the newest block. */
  #replacements: number;
  #isRenewing = false;
  #isFull = false;
  #refused: ReadonlySet<string> = new Set();
  #leftOut = 0;
  #ownServices: ReadonlySet<string> = new Set();

  constructor(options: SessionSourceOptions, modules: SessionSourceModules) {
    this.#options = options;
    this.#modules = modules;
    this.#replacements = modules.head.replacements;
    const { gatewayKey, applicationKeys } = options;
    this.#keys = new Map(
      [...applicationKeys, ...(gatewayKey === undefined ? [] : [gatewayKey])].map((key) => [key.address, key]),
    );
  }

  /** Begins to follow the chain. Resolves when the sessions of the newest block are known, or the signal aborts. */
  async start(signal: AbortSignal): Promise<void> {
    const { head } = this.#modules;
    const newest = await head.waitFor(1n, signal);
    this.#blocks = head.onBlock(({ heightBlocks }) => this.#onBlock(heightBlocks));
    if (newest === undefined) return;
    await this.#renewApplications(newest.heightBlocks);
    // Each application that was found is being asked for its session.
    await this.settled();
  }

  /** Resolves when every question that the newest block gave rise to has its answer. */
  async settled(): Promise<void> {
    while (this.#work.size > 0) await Promise.all(this.#work);
  }

  /** The sessions of a service that suppliers serve now, of one application each. */
  sessionsOf(serviceId: string): readonly GatewaySession[] {
    const found: GatewaySession[] = [];
    for (const slot of this.#slots.values()) {
      if (slot.serviceId === serviceId && slot.session !== undefined) found.push(slot.session);
    }
    return found;
  }

  /** True when an application of this gateway is staked for a service. */
  hasApplication(serviceId: string): boolean {
    for (const slot of this.#slots.values()) if (slot.serviceId === serviceId) return true;
    return false;
  }

  /** The services for which an application of this gateway is staked. */
  serviceIds(): ReadonlySet<string> {
    return new Set(Array.from(this.#slots.values(), ({ serviceId }) => serviceId));
  }

  /** The services of the applications whose keys are here. */
  ownServiceIds(): ReadonlySet<string> {
    return this.#ownServices;
  }

  /** True while the chain has not passed a session's last block: after it suppliers close its WebSockets. */
  isCurrent({ header }: GatewaySession): boolean {
    return (this.#modules.head.newest?.heightBlocks ?? 0n) <= header.sessionEndBlockHeight;
  }

  /** Calls back with a service's sessions when they changed. Dispose what is returned to stop. */
  onChange(listener: SessionListener): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** Calls back with each block, after its own sessions have ended. Dispose what is returned to stop. */
  onHeight(listener: HeightListener): Disposable {
    this.#heightListeners.add(listener);
    return { [Symbol.dispose]: () => void this.#heightListeners.delete(listener) };
  }

  /** Calls back each time after it was looked which applications there are. Dispose what is returned to stop. */
  onApplications(listener: ApplicationsListener): Disposable {
    this.#applicationsListeners.add(listener);
    return { [Symbol.dispose]: () => void this.#applicationsListeners.delete(listener) };
  }

  #onBlock(heightBlocks: bigint): void {
    // The chain was restarted from genesis, at a lower height: what was put off until a height of the one before would
    // take too long, and its sessions of the same heights are others.
    const { replacements } = this.#modules.head;
    const isReplaced = replacements !== this.#replacements || heightBlocks < this.#renewedAt;
    this.#replacements = replacements;
    if (isReplaced) for (const slot of this.#slots.values()) slot.nextTry = 0n;
    if (isReplaced || heightBlocks >= this.#nextRenewal) this.#run(this.#renewApplications(heightBlocks));
    for (const slot of this.#slots.values()) {
      const { session } = slot;
      const isCurrent = session !== undefined && !isReplaced && isOf(session, heightBlocks);
      if (isCurrent && !session.isPartial) continue;
      if (session !== undefined && heightBlocks > session.graceEndHeight) this.#put(slot, undefined);
      if (heightBlocks < slot.nextTry) continue;
      this.#run(this.#loadLater(slot, heightBlocks));
    }
    for (const listener of this.#heightListeners) listener(heightBlocks, isReplaced);
  }

  async #loadLater(slot: Slot, heightBlocks: bigint): Promise<void> {
    if (slot.isLoading) return;
    const isBoundary = slot.session !== undefined && heightBlocks === slot.session.header.sessionEndBlockHeight + 1n;
    const jitterMs = isBoundary ? this.#modules.random() * this.#options.maxJitterMs : 0;
    if (jitterMs >= 1) await this.#pause(jitterMs, slot);
    await this.#load(slot, heightBlocks);
  }

  async #pause(ms: number, slot: Slot): Promise<void> {
    slot.isLoading = true;
    await delay(ms, undefined, { signal: this.#ended.signal }).catch(() => {});
    slot.isLoading = false;
  }

  async #load(slot: Slot, heightBlocks: bigint): Promise<void> {
    if (slot.isLoading || this.#ended.signal.aborted) return;
    slot.isLoading = true;
    const { queries, metrics, log } = this.#modules;
    const { applicationAddress, serviceId } = slot;
    try {
      const result = await loadSession({ applicationAddress, serviceId, heightBlocks }, this.#keys, queries);
      // Its application has left meanwhile.
      if (this.#slots.get(nameOf(slot)) !== slot) return;
      metrics.count(relaySessionLoadsTotal, { service: serviceId, result: result.ok ? "ok" : result.fault });
      if (result.ok) {
        slot.fault = undefined;
        slot.failures = 0;
        this.#put(slot, result.session);
        return;
      }
      if (slot.fault !== result.text) {
        log.warn({ service: serviceId, application: applicationAddress, reason: result.text }, "no session");
      }
      slot.fault = result.text;
      const pauseBlocks = 1n << BigInt(Math.min(slot.failures++, 8));
      slot.nextTry = heightBlocks + (pauseBlocks < MOST_RETRY_BLOCKS ? pauseBlocks : MOST_RETRY_BLOCKS);
      // What the chain refuses is over; what it could not be asked may go on as it was.
      const isRefused = result.fault === "refused" && !LAGGING.test(result.text);
      if (!isRefused && result.fault !== "not-ours") return;
      this.#put(slot, undefined);
      // The application may have left, or another one may be in its place.
      if (this.#renewedAt < heightBlocks) this.#run(this.#renewApplications(heightBlocks));
    } finally {
      slot.isLoading = false;
    }
  }

  #put(slot: Slot, session: GatewaySession | undefined): void {
    const before = slot.session;
    const isSame = before?.header.sessionId === session?.header.sessionId;
    if (isSame && before?.suppliers.length === session?.suppliers.length) {
      slot.session = session;
      return;
    }
    slot.session = session;
    const { metrics, head } = this.#modules;
    const now = this.sessionsOf(slot.serviceId);
    metrics.set(relaySessions, now.length, { service: slot.serviceId });
    const newest = head.newest?.heightBlocks;
    if (session !== undefined && newest !== undefined) {
      metrics.observe(relaySessionAgeBlocks, Number(newest - session.header.sessionStartBlockHeight), {});
    }
    for (const listener of this.#listeners) listener(slot.serviceId, now);
  }

  /** Looks which applications there are: own ones, and those that are delegated to the gateway. */
  async #renewApplications(heightBlocks: bigint): Promise<void> {
    if (this.#isRenewing) return;
    this.#isRenewing = true;
    try {
      this.#renewedAt = heightBlocks;
      this.#nextRenewal = heightBlocks + this.#options.renewBlocks;
      const found = await this.#applications();
      if (found === undefined) return;
      for (const [name, slot] of this.#slots) {
        if (found.has(name)) continue;
        // The chain has a session that has begun go on to its end, also where its application has left.
        const { session } = slot;
        if (session !== undefined && heightBlocks <= session.header.sessionEndBlockHeight) continue;
        this.#slots.delete(name);
        this.#put(slot, undefined);
        if (!this.hasApplication(slot.serviceId)) {
          this.#modules.metrics.remove?.(relaySessions, { service: slot.serviceId });
        }
      }
      for (const [name, { applicationAddress, serviceId }] of found) {
        if (this.#slots.has(name)) continue;
        const slot: Slot = {
          applicationAddress,
          serviceId,
          session: undefined,
          fault: undefined,
          isLoading: false,
          nextTry: 0n,
          failures: 0,
        };
        this.#slots.set(name, slot);
        this.#run(this.#load(slot, heightBlocks));
      }
      for (const listener of this.#applicationsListeners) listener();
    } finally {
      this.#isRenewing = false;
    }
  }

  /** Undefined when the node could not be asked: what is known stays. */
  async #applications(): Promise<ReadonlyMap<string, Stake> | undefined> {
    const { queries } = this.#modules;
    const {
      gatewayKey,
      applicationKeys,
      maxApplications = MAX_APPLICATIONS,
      usesDelegated = () => true,
    } = this.#options;
    const own: Stake[] = [];
    const delegated: Stake[] = [];
    for (const { address } of applicationKeys) {
      const answer = await queries.application(address, { fresh: true });
      if (!answer.ok && answer.fault !== "refused") return undefined;
      if (answer.ok) own.push(...stakesOf(answer.value));
    }
    if (gatewayKey !== undefined) {
      const answer = await queries.applicationsOfGateway(gatewayKey.address, { fresh: true });
      if (!answer.ok) return undefined;
      for (const one of answer.value) {
        delegated.push(...stakesOf(one).filter(({ serviceId }) => usesDelegated(serviceId)));
      }
    }
    this.#ownServices = new Set(own.map(serviceOf));
    const all = new Map([...own, ...delegated].map((stake) => [nameOf(stake), stake]));
    this.#reportRefused([...own, ...delegated].map(serviceOf));
    const used = [...own, ...this.#inTurn(delegated)].slice(0, maxApplications);
    const found = new Map(used.map((stake) => [nameOf(stake), stake]));
    const isFull = found.size < all.size;
    if (isFull && !this.#isFull) {
      this.#modules.log.warn({ applications: all.size, used: found.size }, "applications are left out");
    }
    this.#isFull = isFull;
    return found;
  }

  /** Says once which services cannot be served although an application of this gateway is staked for them. */
  #reportRefused(serviceIds: readonly string[]): void {
    const { originOf = () => "known" } = this.#options;
    const refused = new Set(serviceIds.filter((id) => originOf(id) === "refused"));
    const fresh = [...refused].filter((id) => !this.#refused.has(id));
    this.#refused = refused;
    if (fresh.length === 0) return;
    this.#modules.log.warn(
      { count: fresh.length, services: fresh.slice(0, MAX_SHOWN) },
      "services of applications are not served: their ids are reserved, or protocol.refuseServices has them",
    );
  }

  /**
   * One of each service in turn. Known services come first, and then, as among applications, those with the larger stake: it
   * costs a third party something to be before another one, and nothing depends on what this process has used until now.
   */
  #inTurn(stakes: readonly Stake[]): readonly Stake[] {
    const { originOf = () => "known", maxRegistered = MAX_REGISTERED_SERVICES } = this.#options;
    const byService = Map.groupBy(stakes.toSorted(byStake), serviceOf);
    const ranked = [...byService]
      .map(([serviceId, list]) => ({ serviceId, upokt: list.reduce((sum, { upokt }) => sum + upokt, 0n) }))
      .sort(byStake)
      .map(serviceOf);
    const own = this.#ownServices;
    const ownRegistered = [...own].filter((id) => originOf(id) === "registered").length;
    const others = ranked.filter((id) => !own.has(id) && originOf(id) === "registered");
    const room = Math.max(0, maxRegistered - ownRegistered);
    this.#noteLeftOut(Math.max(0, others.length - room));
    const known = ranked.filter((id) => originOf(id) === "known" || (own.has(id) && originOf(id) === "registered"));
    const services = [...known, ...others.slice(0, room)];
    const ordered: Stake[] = [];
    let members = services.map((id) => byService.get(id) ?? []);
    for (let turn = 0; members.length > 0; turn++) {
      members = members.filter(({ length }) => length > turn);
      ordered.push(...members.flatMap((list) => list[turn] ?? []));
    }
    return ordered;
  }

  #noteLeftOut(services: number): void {
    const { metrics, log } = this.#modules;
    metrics.set(relayServicesLeftOut, services);
    if (services > 0 && this.#leftOut === 0) log.warn({ services }, "registered services are left out");
    this.#leftOut = services;
  }

  #run(work: Promise<void>): void {
    const kept = work
      .catch((cause: unknown) => {
        this.#modules.log.error({ cause }, "a session could not be loaded");
      })
      .finally(() => this.#work.delete(kept));
    this.#work.add(kept);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#blocks?.[Symbol.dispose]();
    this.#ended.abort();
    await Promise.all(this.#work);
  }
}

function isOf({ header }: GatewaySession, heightBlocks: bigint): boolean {
  return header.sessionStartBlockHeight <= heightBlocks && heightBlocks <= header.sessionEndBlockHeight;
}

function stakesOf({ address, serviceConfigs, stake }: application.Application): readonly Stake[] {
  // Of one that is no amount the others must not suffer: it is the last in turn.
  const upokt = coinAmount(stake) ?? 0n;
  return serviceConfigs.map(({ serviceId }) => ({ applicationAddress: address, serviceId, upokt }));
}

/** The larger one first; equal ones by name, so that each process has the same order. */
function byStake(a: Partial<Stake>, b: Partial<Stake>): number {
  const [first = 0n, second = 0n] = [a.upokt, b.upokt];
  if (first !== second) return first > second ? -1 : 1;
  return textOf(a) < textOf(b) ? -1 : 1;
}

function textOf({ serviceId = "", applicationAddress = "" }: Partial<Stake>): string {
  return `${serviceId} ${applicationAddress}`;
}

function nameOf({ applicationAddress, serviceId }: Pick<Stake, "applicationAddress" | "serviceId">): string {
  return `${applicationAddress} ${serviceId}`;
}

function serviceOf({ serviceId }: Pick<Stake, "serviceId">): string {
  return serviceId;
}
