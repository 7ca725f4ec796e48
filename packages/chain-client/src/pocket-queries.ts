import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Clock } from "@turnpike/base";
import {
  application,
  type auth,
  bank,
  type base,
  cryptoSecp256k1,
  decodeMessage,
  proof,
  service,
  session,
  shared,
  supplier,
} from "@turnpike/proto";
import { sessionAt } from "@turnpike/protocol";
import type { ChainClient } from "./chain-client.ts";
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

/** Modules of {@link PocketQueries}. */
export interface PocketQueriesModules {
  readonly client: ChainClient;
  readonly clock: Clock;
}

/** Claims of one supplier as a state has them. */
export interface SupplierClaims {
  readonly claims: readonly proof.Claim[];
  readonly heightBlocks: bigint;
}

const PAGE_ITEMS = 200n;
/** A list longer than this is cut: it bounds memory and time against a node that never ends one. */
const MOST_ITEMS = 10_000;
const DENOM = "upokt";

const ALL = "";

interface Asked<T> {
  readonly answer: ChainAnswer<T>;
  /** Of the state that was asked. */
  readonly heightBlocks: bigint;
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

function amountOf(coins: readonly base.Coin[]): bigint {
  return coins.reduce((sum, { denom, amount }) => (denom === DENOM ? sum + BigInt(amount || "0") : sum), 0n);
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
  readonly #sharedSpans: {
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

  constructor(options: PocketQueriesOptions, { client, clock }: PocketQueriesModules) {
    const { timeoutMs = 5_000, freshMs = 5_000, briefMs = 500, maxEntries = 4_096, maxSessions = 1_024 } = options;
    const flights = { open: 0, most: options.maxOpen ?? 128 };
    const cache = <T>(most = maxEntries): QueryCache<T> =>
      new QueryCache<T>({ maxEntries: most, freshMs, briefMs, timeoutMs }, { clock, flights });
    this.#client = client;
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
   * (ask {@link application} for these).
   */
  async session(
    applicationAddress: string,
    serviceId: string,
    heightBlocks: bigint,
    options?: ReadOptions,
  ): Promise<ChainAnswer<session.Session>> {
    const params = await this.sharedParamsAt(heightBlocks, options);
    if (!params.ok) return params;
    const { startHeight } = sessionAt(params.value, heightBlocks);
    return this.#sessions.read(
      `${applicationAddress} ${serviceId} ${startHeight}`,
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
  }

  /** Shared parameters in force at a height. One question a session: they change only at the start of the next. */
  async sharedParamsAt(heightBlocks: bigint, options?: ReadOptions): Promise<ChainAnswer<shared.Params>> {
    const known = this.peekSharedParamsAt(heightBlocks);
    if (known !== undefined) return { ok: true, value: known };
    return this.#sharedParams.read(
      `${heightBlocks}`,
      async (signal) => {
        const asked = await this.#ask(shared.Query.method.paramsAtHeight, { height: heightBlocks }, signal);
        const answer = mapped(asked, (found) => found.params);
        // Of a height to come the node says what holds as of now: that may still change.
        const isFinal = asked.heightBlocks >= heightBlocks;
        if (answer.ok && isFinal) this.#keepSpan(heightBlocks, answer.value);
        return loaded(answer, isFinal);
      },
      options,
    );
  }

  /** The same, without asking; undefined when they are not known. */
  peekSharedParamsAt(heightBlocks: bigint): shared.Params | undefined {
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
      return loaded(
        await collect(page, ({ applications, pagination }) => ({ items: applications, next: pagination?.nextKey })),
        false,
      );
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

  /** A service as it is now, without its card: that may have 256 KiB, and its owner is a stranger. */
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
    return this.#read(
      this.#balances,
      address,
      bank.Query.method.balance,
      { address, denom: DENOM },
      ({ balance }) => amountOf(balance === undefined ? [] : [balance]),
      options,
    );
  }

  /**
   * Claims of a supplier that are not settled, and the height of the state that was asked. Nothing is cached: an old answer is
   * no proof that a claim was included.
   */
  async claims(operatorAddress: string, signal?: AbortSignal): Promise<ChainAnswer<SupplierClaims>> {
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    const until = signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
    const filter = { case: "supplierOperatorAddress" as const, value: operatorAddress };
    // Of several pages the first one's height counts: what a later page has may be newer, never older.
    let heightBlocks: bigint | undefined;
    const page = async (key: Uint8Array) => {
      const asked = await this.#ask(
        proof.Query.method.allClaims,
        { filter, pagination: { key, limit: PAGE_ITEMS } },
        until,
      );
      heightBlocks ??= asked.heightBlocks;
      return asked;
    };
    try {
      const answer = await collect(page, ({ claims, pagination }) => ({ items: claims, next: pagination?.nextKey }));
      if (!answer.ok) return answer;
      // The filter is a prefix on the wire.
      const claims = answer.value.filter((claim) => claim.supplierOperatorAddress === operatorAddress);
      return { ok: true, value: { claims, heightBlocks: heightBlocks ?? 0n } };
    } catch (cause) {
      return unreachable(cause);
    }
  }

  #keepSpan(heightBlocks: bigint, params: shared.Params): void {
    const { startHeight, endHeight } = sessionAt(params, heightBlocks);
    if (this.peekSharedParamsAt(heightBlocks) !== undefined) return;
    this.#sharedSpans.push({ startHeight, endHeight, params });
    if (this.#sharedSpans.length > this.#maxEntries) this.#sharedSpans.shift();
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
      loaded(mapped(await this.#ask(method, request, signal), pick), false);
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
    return cache.read(`${request.serviceId} ${request.blockHeight}`, load, options);
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

/** All pages of a list. */
async function collect<P, T>(
  page: (key: Uint8Array) => Promise<Asked<P>>,
  read: (page: P) => { readonly items: readonly T[]; readonly next: Uint8Array | undefined },
): Promise<ChainAnswer<readonly T[]>> {
  const items: T[] = [];
  let key = new Uint8Array(0);
  for (;;) {
    const { answer } = await page(key);
    if (!answer.ok) return answer;
    const { items: more, next = new Uint8Array(0) } = read(answer.value);
    items.push(...more.slice(0, MOST_ITEMS - items.length));
    if (next.length === 0 || more.length === 0 || items.length >= MOST_ITEMS) return { ok: true, value: items };
    key = Uint8Array.from(next);
  }
}
