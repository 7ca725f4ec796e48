import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Clock } from "@turnpike/base";
import { accountAddress } from "@turnpike/crypto";
import {
  application,
  type auth,
  bank,
  cryptoSecp256k1,
  decodeMessage,
  proof,
  service,
  session,
  shared,
  supplier,
} from "@turnpike/proto";
import { sessionAt } from "@turnpike/protocol";
import { coinAmount } from "./amounts.ts";
import type { ChainClient } from "./chain-client.ts";
import type { ChainHead } from "./chain-head.ts";
import { type ChainAnswer, type Loaded, QueryCache, type ReadOptions, unreachable } from "./query-cache.ts";

/** Bounds of {@link PocketQueries}. */
export interface PocketQueriesOptions {
  /** Longest wait for one answer of the node; 5,000 by default. */
  readonly timeoutMs?: number;
  /** What may change is renewed in the background when it is older; 5,000 by default. */
  readonly freshMs?: number;
  /** A refusal, a missing key or an unreachable node is asked again after so long at the earliest; 500 by default. */
  readonly briefMs?: number;
  /** Most answers that are kept of each kind; 4,096 by default. */
  readonly maxEntries?: number;
  /** Most sessions that are kept; 1,024 by default. */
  readonly maxSessions?: number;
  /** Most questions at once; 128 by default. */
  readonly maxOpen?: number;
}

export interface PocketQueriesModules {
  readonly client: ChainClient;
  readonly clock: Clock;
  /**
   * What is asked of the newest state is not believed of one that is far behind this. What was known of heights is discarded
   * when the chain is restarted from genesis.
   */
  readonly head?: Pick<ChainHead, "newest" | "replacements">;
}

/** Claims of one supplier as a state has them. */
export interface SupplierClaims {
  readonly claims: readonly proof.Claim[];
  /** Minimum height of the states of the list's pages: all its claims were there. */
  readonly heightBlocks: bigint;
  /** False when the list was cut, or is of several states: a claim that it does not have may be on the chain. */
  readonly isWhole: boolean;
}

/** A supplier's claim of a session in a state of the chain. */
export interface SessionClaim {
  readonly claim: proof.Claim | undefined;
  readonly heightBlocks: bigint;
}

/** Claims that a list is about. */
interface ClaimFilter {
  readonly case: "supplierOperatorAddress" | "sessionId";
  readonly value: string;
}

/** An application in a state of the chain. */
export interface ApplicationState {
  readonly application: application.Application;
  readonly heightBlocks: bigint;
}

const PAGE_ITEMS = 200n;
/** A list longer than this is cut: it bounds memory and time against a node that never ends one. */
const MOST_ITEMS = 10_000;
const DENOM = "upokt";
/** Of several nodes behind one address one may lag: so far its state counts as the newest. */
const MOST_LAG_BLOCKS = 5n;

const ALL = "";

interface Asked<T> {
  readonly answer: ChainAnswer<T>;
  /** Of the state that was asked. */
  readonly heightBlocks: bigint;
}

/** A node that cannot be believed is one that did not answer: what is known stays, and it is asked again. */
function untrusted(text: string): Extract<ChainAnswer<never>, { readonly ok: false }> {
  return { ok: false, fault: "unreachable", text };
}

function mapped<T, U>(asked: Asked<T>, pick: (value: T) => U | undefined): ChainAnswer<U> {
  if (!asked.answer.ok) return asked.answer;
  const value = pick(asked.answer.value);
  return value === undefined
    ? { ok: false, fault: "refused", text: "The node's answer is empty." }
    : { ok: true, value };
}

function loaded<T>(answer: ChainAnswer<T>, isFinal: boolean): Loaded<T> {
  return { answer, holds: answer.ok ? (isFinal ? "forever" : "fresh") : "brief" };
}

/** Public key (33 bytes) of an account; undefined of one that has none, or is not of a single secp256k1 key. */
function keyOfAccount(account: auth.BaseAccount): Uint8Array | undefined {
  const { pubKey } = account;
  if (pubKey?.typeUrl !== `/${cryptoSecp256k1.PubKeySchema.typeName}`) return undefined;
  const key = decodeMessage(cryptoSecp256k1.PubKeySchema, pubKey.value);
  return key.ok && key.message.key.length === 33 ? key.message.key : undefined;
}

/**
 * The chain's facts that serving and asking need, typed and cached: sessions, parameters, keys, stakes. What was answered
 * once is returned at once from then on, whatever becomes of the node; what may change is renewed behind the reader's back.
 * Answers are values, never thrown.
 */
export class PocketQueries {
  readonly #client: ChainClient;
  readonly #head: Pick<ChainHead, "newest" | "replacements"> | undefined;
  #replacements = 0;
  #sharedSpans: {
    readonly startHeight: bigint;
    readonly endHeight: bigint;
    readonly params: shared.Params;
  }[] = [];
  readonly #maxEntries: number;
  readonly #sessions: QueryCache<session.Session>;
  readonly #sharedParams: QueryCache<shared.Params>;
  readonly #keys: QueryCache<Uint8Array>;
  readonly #applications: QueryCache<application.Application>;
  readonly #lists: QueryCache<readonly application.Application[]>;
  readonly #suppliers: QueryCache<shared.Supplier>;
  readonly #services: QueryCache<shared.Service>;
  readonly #computeUnits: QueryCache<bigint>;
  readonly #difficulties: QueryCache<Uint8Array>;
  readonly #proofParams: QueryCache<proof.Params>;
  readonly #balances: QueryCache<bigint>;
  readonly #timeoutMs: number;

  constructor(options: PocketQueriesOptions, { client, clock, head }: PocketQueriesModules) {
    const { timeoutMs = 5_000, freshMs = 5_000, briefMs = 500, maxEntries = 4_096, maxSessions = 1_024 } = options;
    const flights = { open: 0, most: options.maxOpen ?? 128 };
    const cache = <T>(most = maxEntries): QueryCache<T> =>
      new QueryCache<T>({ maxEntries: most, freshMs, briefMs, timeoutMs }, { clock, flights });
    this.#client = client;
    this.#head = head;
    this.#maxEntries = maxEntries;
    this.#sessions = cache(maxSessions);
    this.#sharedParams = cache();
    this.#keys = cache();
    this.#applications = cache();
    this.#lists = cache(64);
    this.#suppliers = cache();
    this.#services = cache();
    this.#computeUnits = cache();
    this.#difficulties = cache();
    this.#proofParams = cache(1);
    this.#balances = cache();
    this.#timeoutMs = timeoutMs;
  }

  /**
   * The session of an application and a service at a height that has been reached. It is kept from the first answer on:
   * id, heights and suppliers cannot change, but stake and delegations of the application inside may
   * (ask {@link application} for these). One of another application, service or height, or that does not fit the
   * parameters, is none: both are asked again.
   */
  async session(
    applicationAddress: string,
    serviceId: string,
    heightBlocks: bigint,
    options?: ReadOptions,
  ): Promise<ChainAnswer<session.Session>> {
    const params = await this.sharedParamsAt(heightBlocks, options);
    if (!params.ok) return params;
    const { startHeight, endHeight } = sessionAt(params.value, heightBlocks);
    const key = `${applicationAddress} ${serviceId} ${startHeight}`;
    const answer = await this.#sessions.read(
      key,
      async (signal) => {
        const request = { applicationAddress, serviceId, blockHeight: heightBlocks };
        const asked = await this.#ask(session.Query.method.getSession, request, signal);
        return loaded(
          mapped(asked, (found) => found.session),
          true,
        );
      },
      options,
    );
    if (!answer.ok) return answer;
    const { header, application: record } = answer.value;
    const isAsked =
      header?.applicationAddress === applicationAddress &&
      header.serviceId === serviceId &&
      header.sessionStartBlockHeight === startHeight &&
      header.sessionEndBlockHeight === endHeight &&
      record?.address === applicationAddress;
    if (isAsked) {
      // What the application can pay for is not known: that must not hold until the session is over.
      const hasAmounts = [record.stake, record.perSessionSpendLimit].every((coin) => coinAmount(coin) !== undefined);
      if (!hasAmounts) this.#sessions.delete(key);
      return answer;
    }
    // Session or parameters are wrong, which of them is not known: neither is kept.
    this.#sessions.delete(key);
    this.#dropSpan(heightBlocks);
    return untrusted(`The node's session at height ${heightBlocks} is not the one that was asked for.`);
  }

  /** Shared parameters in force at a height. One question a session: they change only at the start of the next. */
  async sharedParamsAt(heightBlocks: bigint, options?: ReadOptions): Promise<ChainAnswer<shared.Params>> {
    const known = this.peekSharedParamsAt(heightBlocks);
    if (known !== undefined) return { ok: true, value: known };
    const replacements = this.#replacements;
    return this.#sharedParams.read(
      `${heightBlocks}`,
      async (signal) => {
        const asked = await this.#ask(shared.Query.method.paramsAtHeight, { height: heightBlocks }, signal);
        const answer = mapped(asked, (found) => found.params);
        // Of a height to come the node says what holds as of now: that may still change.
        const isFinal = asked.heightBlocks >= heightBlocks;
        if (answer.ok && isFinal && replacements === this.#replacements) this.#keepSpan(heightBlocks, answer.value);
        return loaded(answer, isFinal);
      },
      options,
    );
  }

  /** The same, without asking; undefined when they are not known. */
  peekSharedParamsAt(heightBlocks: bigint): shared.Params | undefined {
    this.#discardReplaced();
    for (let i = this.#sharedSpans.length - 1; i >= 0; i--) {
      const span = this.#sharedSpans[i];
      if (span !== undefined && span.startHeight <= heightBlocks && heightBlocks <= span.endHeight) return span.params;
    }
    return undefined;
  }

  /** Public key of an account, 33 bytes. It is kept for ever once it is there; a missing one is refused, and asked again. */
  publicKey(address: string, options?: ReadOptions): Promise<ChainAnswer<Uint8Array>> {
    const load = async (signal: AbortSignal): Promise<Loaded<Uint8Array>> => {
      const account = await this.#client.account(address, signal);
      const key = account === undefined ? undefined : keyOfAccount(account);
      // Signatures of all who have another key would be wrong.
      if (key !== undefined && accountAddress(key) !== address) {
        return loaded(untrusted(`The node's public key of ${address} is another account's.`), false);
      }
      const text = `${address} has no public key on the chain: it must send one transaction first.`;
      return loaded(key === undefined ? { ok: false, fault: "refused", text } : { ok: true, value: key }, true);
    };
    return this.#keys.read(address, load, options);
  }

  /** An application as it is now: stake, delegations, service. */
  application(address: string, options?: ReadOptions): Promise<ChainAnswer<application.Application>> {
    return this.#read(
      this.#applications,
      address,
      application.Query.method.application,
      { address },
      ({ application: found }) => found,
      options,
    );
  }

  /** An application as it is now, and the height of the state that was asked. Nothing is cached. */
  async applicationState(address: string, signal?: AbortSignal): Promise<ChainAnswer<ApplicationState>> {
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    const until = signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
    try {
      const asked = await this.#newest(application.Query.method.application, { address }, until);
      const { heightBlocks } = asked;
      return mapped(asked, ({ application: record }) =>
        record?.address === address ? { application: record, heightBlocks } : undefined,
      );
    } catch (cause) {
      return unreachable(cause);
    }
  }

  /** Applications that delegate to a gateway. */
  applicationsOfGateway(
    gatewayAddress: string,
    options?: ReadOptions,
  ): Promise<ChainAnswer<readonly application.Application[]>> {
    const load = async (signal: AbortSignal): Promise<Loaded<readonly application.Application[]>> => {
      const page = (key: Uint8Array) =>
        this.#ask(
          application.Query.method.allApplications,
          { delegateeGatewayAddress: gatewayAddress, pagination: { key, limit: PAGE_ITEMS } },
          signal,
        );
      const asked = await collect(page, ({ applications, pagination }) => ({
        items: applications,
        next: pagination?.nextKey,
      }));
      return loaded(this.#newestOf(asked), false);
    };
    return this.#lists.read(gatewayAddress, load, options);
  }

  /** A supplier as it is now: owner, stake, services, endpoints. */
  supplier(operatorAddress: string, options?: ReadOptions): Promise<ChainAnswer<shared.Supplier>> {
    return this.#read(
      this.#suppliers,
      operatorAddress,
      supplier.Query.method.supplier,
      { operatorAddress },
      ({ supplier: found }) => found,
      options,
    );
  }

  /** A service as it is now, without its card: that may have 256 KiB, and its owner is not trusted. */
  service(id: string, options?: ReadOptions): Promise<ChainAnswer<shared.Service>> {
    return this.#read(
      this.#services,
      id,
      service.Query.method.service,
      { id, dehydrated: true },
      ({ service: found }) => found,
      options,
    );
  }

  /** Compute units of one relay of a service at a height that has been reached. */
  computeUnitsAt(serviceId: string, heightBlocks: bigint, options?: ReadOptions): Promise<ChainAnswer<bigint>> {
    return this.#readAt(
      this.#computeUnits,
      service.Query.method.computeUnitsPerRelayAtHeight,
      { serviceId, blockHeight: heightBlocks },
      ({ computeUnitsPerRelay }) => (computeUnitsPerRelay === 0n ? undefined : computeUnitsPerRelay),
      options,
    );
  }

  /** Target (32 bytes) that a relay's hash has to be below, at a height that has been reached. */
  difficultyAt(serviceId: string, heightBlocks: bigint, options?: ReadOptions): Promise<ChainAnswer<Uint8Array>> {
    return this.#readAt(
      this.#difficulties,
      service.Query.method.relayMiningDifficultyAtHeight,
      { serviceId, blockHeight: heightBlocks },
      ({ relayMiningDifficulty: found }) => (found?.targetHash.length === 32 ? found.targetHash : undefined),
      options,
    );
  }

  /** Parameters of proofs as they are now. */
  proofParams(options?: ReadOptions): Promise<ChainAnswer<proof.Params>> {
    return this.#read(this.#proofParams, ALL, proof.Query.method.params, {}, ({ params }) => params, options);
  }

  /** Coins of an account, in upokt. */
  balance(address: string, options?: ReadOptions): Promise<ChainAnswer<bigint>> {
    const load = async (signal: AbortSignal): Promise<Loaded<bigint>> => {
      const { answer } = await this.#newest(bank.Query.method.balance, { address, denom: DENOM }, signal);
      if (!answer.ok) return loaded(answer, false);
      const { balance } = answer.value;
      const upokt = coinAmount(balance?.denom === DENOM ? balance : undefined);
      const text = `The node's balance of ${address} is no amount.`;
      return loaded(upokt === undefined ? untrusted(text) : { ok: true, value: upokt }, false);
    };
    return this.#balances.read(address, load, options);
  }

  /**
   * Claims of a supplier that are not settled, and the height of the state that was asked. Nothing is cached: an old answer is
   * no proof that a claim was included.
   */
  async claims(operatorAddress: string, signal?: AbortSignal): Promise<ChainAnswer<SupplierClaims>> {
    return this.#claims({ case: "supplierOperatorAddress", value: operatorAddress }, operatorAddress, signal);
  }

  /**
   * A supplier's claim of one session, and the height of the state that was read. An answer without a claim shows that this state has
   * none.
   */
  async sessionClaim(
    operatorAddress: string,
    sessionId: string,
    signal?: AbortSignal,
  ): Promise<ChainAnswer<SessionClaim>> {
    const answer = await this.#claims({ case: "sessionId", value: sessionId }, operatorAddress, signal);
    if (!answer.ok) return answer;
    const { claims, heightBlocks, isWhole } = answer.value;
    const claim = claims.find(({ sessionHeader }) => sessionHeader?.sessionId === sessionId);
    if (claim === undefined && !isWhole)
      return untrusted("The node's list of a session's claims does not end, or is of several states.");
    return { ok: true, value: { claim, heightBlocks } };
  }

  async #claims(
    filter: ClaimFilter,
    operatorAddress: string,
    signal: AbortSignal | undefined,
  ): Promise<ChainAnswer<SupplierClaims>> {
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    const until = signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
    const page = (key: Uint8Array) =>
      this.#ask(proof.Query.method.allClaims, { filter, pagination: { key, limit: PAGE_ITEMS } }, until);
    try {
      const { answer, heightBlocks, isWhole } = await collect(page, ({ claims, pagination }) => ({
        items: claims,
        next: pagination?.nextKey,
      }));
      if (!answer.ok) return answer;
      // The filter is a prefix on the wire.
      const claims = answer.value.filter((claim) => claim.supplierOperatorAddress === operatorAddress);
      return { ok: true, value: { claims, heightBlocks, isWhole } };
    } catch (cause) {
      return unreachable(cause);
    }
  }

  /** After a restart from genesis the same heights have other sessions, parameters and prices. */
  #discardReplaced(): void {
    const replacements = this.#head?.replacements ?? 0;
    if (replacements === this.#replacements) return;
    this.#replacements = replacements;
    this.#sharedSpans = [];
    for (const one of [this.#sessions, this.#sharedParams, this.#computeUnits, this.#difficulties]) one.clear();
  }

  #keepSpan(heightBlocks: bigint, params: shared.Params): void {
    const { startHeight, endHeight } = sessionAt(params, heightBlocks);
    if (this.peekSharedParamsAt(heightBlocks) !== undefined) return;
    this.#sharedSpans.push({ startHeight, endHeight, params });
    if (this.#sharedSpans.length > this.#maxEntries) this.#sharedSpans.shift();
  }

  #dropSpan(heightBlocks: bigint): void {
    this.#sharedSpans = this.#sharedSpans.filter(
      ({ startHeight, endHeight }) => heightBlocks < startHeight || endHeight < heightBlocks,
    );
    this.#sharedParams.delete(`${heightBlocks}`);
  }

  /** An answer of the newest state, unless that is far behind the newest block. */
  #newestOf<T>({ answer, heightBlocks }: Asked<T>): ChainAnswer<T> {
    const newest = this.#head?.newest?.heightBlocks ?? 0n;
    if (!answer.ok || heightBlocks + MOST_LAG_BLOCKS >= newest) return answer;
    return untrusted(`The node's state is of height ${heightBlocks}; the newest block known is ${newest}.`);
  }

  #read<T, I extends DescMessage, O extends DescMessage>(
    cache: QueryCache<T>,
    key: string,
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    pick: (answer: MessageShape<O>) => T | undefined,
    options?: ReadOptions,
  ): Promise<ChainAnswer<T>> {
    const load = async (signal: AbortSignal): Promise<Loaded<T>> =>
      loaded(mapped(await this.#newest(method, request, signal), pick), false);
    return cache.read(key, load, options);
  }

  #readAt<T, I extends DescMessage, O extends DescMessage>(
    cache: QueryCache<T>,
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I> & { readonly serviceId: string; readonly blockHeight: bigint },
    pick: (answer: MessageShape<O>) => T | undefined,
    options?: ReadOptions,
  ): Promise<ChainAnswer<T>> {
    const load = async (signal: AbortSignal): Promise<Loaded<T>> => {
      const asked = await this.#ask(method, request, signal);
      return loaded(mapped(asked, pick), asked.heightBlocks >= request.blockHeight);
    };
    this.#discardReplaced();
    return cache.read(`${request.serviceId} ${request.blockHeight}`, load, options);
  }

  async #newest<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    signal: AbortSignal,
  ): Promise<Asked<MessageShape<O>>> {
    const asked = await this.#ask(method, request, signal);
    return { answer: this.#newestOf(asked), heightBlocks: asked.heightBlocks };
  }

  async #ask<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    signal: AbortSignal,
  ): Promise<Asked<MessageShape<O>>> {
    const answer = await this.#client.query(method, request, { signal });
    if (answer.ok) return { answer: { ok: true, value: answer.value }, heightBlocks: answer.heightBlocks };
    // Without a codespace the node's RPC refused, not the chain: it is overloaded, or starts.
    const fault = answer.codespace === "" ? "unreachable" : "refused";
    return { answer: { ok: false, fault, text: answer.text }, heightBlocks: 0n };
  }
}

/**
 * All pages of a list. A node has a new state in between, and one of several nodes behind an address an older one: the height is the
 * least of the pages, and the list is whole only when all are of one state.
 */
async function collect<P, T>(
  page: (key: Uint8Array) => Promise<Asked<P>>,
  read: (page: P) => { readonly items: readonly T[]; readonly next: Uint8Array | undefined },
): Promise<Asked<readonly T[]> & { readonly isWhole: boolean }> {
  const items: T[] = [];
  const heights = new Set<bigint>();
  let key = new Uint8Array(0);
  for (;;) {
    const pageAnswer = await page(key);
    heights.add(pageAnswer.heightBlocks);
    const heightBlocks = [...heights].reduce((least, height) => (height < least ? height : least));
    if (!pageAnswer.answer.ok) return { answer: pageAnswer.answer, heightBlocks, isWhole: false };
    const { items: more, next = new Uint8Array(0) } = read(pageAnswer.answer.value);
    const fitting = more.slice(0, MOST_ITEMS - items.length);
    items.push(...fitting);
    if (next.length === 0 || more.length === 0 || items.length >= MOST_ITEMS) {
      const isWhole = next.length === 0 && fitting.length === more.length && heights.size === 1;
      return { answer: { ok: true, value: items }, heightBlocks, isWhole };
    }
    key = Uint8Array.from(next);
  }
}
