import assert from "node:assert/strict";
import { type Clock, type FaultPoints, type Log, type Metrics, systemClock } from "@turnpike/base";
import { ChainClient, ChainHead, PocketQueries } from "@turnpike/chain-client";
import type { SessionHeader } from "@turnpike/protocol";
import { chainParty, startTestChain, type TestChain, type TestChainOptions } from "@turnpike/testkit/chain";
import { ClaimRunner, type ClaimRunnerOptions } from "../src/claims/claim-runner.ts";
import { RelayStore, type RelayStoreModules, type RelayStoreOptions } from "../src/evidence/relay-store.ts";
import { termsOfQueries } from "../src/evidence/terms.ts";
import type { SessionState } from "../src/evidence/types.ts";
import { makeRelay } from "./relays.ts";
import { scratchFolder } from "./sessions.ts";

/** A supplier as a test runs it: evidence and claims over a chain's RPC. */
export interface TestSupplier extends AsyncDisposable {
  readonly operator: string;
  readonly client: ChainClient;
  readonly head: ChainHead;
  readonly queries: PocketQueries;
  readonly store: RelayStore;
  readonly runner: ClaimRunner;
}

/** Of a chain on which each claim has to be proven. */
export const PROVE_ALL = { params: { proof: { proof_request_probability: 1 } } };

/** What tests change of a {@link TestSupplier}. */
export interface TestSupplierOptions {
  readonly name?: string;
  readonly store?: Partial<RelayStoreOptions>;
  readonly claims?: Partial<ClaimRunnerOptions>;
  readonly log?: Log;
  readonly metrics?: Metrics;
  readonly faults?: FaultPoints;
  readonly clock?: Clock;
  readonly freeBytes?: RelayStoreModules["freeBytes"];
}

/** Starts a supplier in a state folder. */
export async function startSupplier(
  rpcUrl: string,
  folder: string,
  options: TestSupplierOptions = {},
): Promise<TestSupplier> {
  const { name = "supplier", clock = systemClock, log, metrics, faults, freeBytes } = options;
  const party = chainParty(name);
  await using stack = new AsyncDisposableStack();
  const observed = {
    ...(log === undefined ? {} : { log }),
    ...(metrics === undefined ? {} : { metrics }),
    ...(faults === undefined ? {} : { faults }),
  };
  const client = stack.use(new ChainClient({ url: rpcUrl }, { clock: systemClock }));
  const head = stack.use(new ChainHead({ url: rpcUrl, retryMs: 10 }, { clock: systemClock }));
  const queries = new PocketQueries({ briefMs: 0 }, { client, clock: systemClock });
  const store = stack.use(
    await RelayStore.open(
      {
        folder,
        operators: [party.address],
        fsyncMs: 200,
        leastFreeBytes: 0,
        isMachineWideLock: false,
        ...options.store,
      },
      {
        clock,
        termsOf: termsOfQueries(queries),
        ...observed,
        ...(freeBytes === undefined ? {} : { freeBytes }),
      },
    ),
  );
  const runner = stack.use(
    new ClaimRunner(
      { signer: party, skipUnprofitableClaims: false, minBalanceUpokt: 1_000_000n, ...options.claims },
      { store, head, queries, client, clock, ...observed },
    ),
  );
  const owned = stack.move();
  return {
    operator: party.address,
    client,
    head,
    queries,
    store,
    runner,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** A chain with a supplier that works after every block before the next one is made. */
export class SupplierRig implements AsyncDisposable {
  readonly chain: TestChain;
  readonly folder: string;
  readonly #stack: AsyncDisposableStack;
  readonly #options: TestSupplierOptions;
  supplier: TestSupplier | undefined;
  #served = 0;

  private constructor(chain: TestChain, folder: string, stack: AsyncDisposableStack, options: TestSupplierOptions) {
    this.chain = chain;
    this.folder = folder;
    this.#stack = stack;
    this.#options = options;
  }

  static async start(chainOptions: TestChainOptions = {}, options: TestSupplierOptions = {}): Promise<SupplierRig> {
    await using stack = new AsyncDisposableStack();
    const chain = stack.use(await startTestChain(chainOptions));
    const { folder } = stack.use(await scratchFolder());
    const rig = new SupplierRig(chain, folder, stack.move(), options);
    await rig.startSupplier();
    return rig;
  }

  get running(): TestSupplier {
    return this.supplier ?? assert.fail("the supplier does not run");
  }

  async startSupplier(options: TestSupplierOptions = this.#options): Promise<void> {
    this.supplier = await startSupplier(this.chain.rpcUrl, this.folder, options);
    await this.supplier.head.waitFor(this.chain.heightBlocks);
  }

  async stopSupplier(): Promise<void> {
    await this.supplier?.[Symbol.asyncDispose]();
    this.supplier = undefined;
  }

  /** One block, and what the supplier does after it. */
  async block(): Promise<void> {
    await this.chain.produce();
    await this.supplier?.runner.processed(this.chain.heightBlocks);
  }

  /** Does something while the node does not answer. */
  async dead(what: () => Promise<void>): Promise<void> {
    await this.chain.stopRpc();
    await what();
    await this.chain.startRpc();
  }

  /** Waits until the supplier has worked after a block. */
  async seen(heightBlocks: bigint): Promise<void> {
    await this.running.runner.processed(heightBlocks);
  }

  /** What the supplier knows of a session. */
  stateOf({ sessionId }: SessionHeader): SessionState {
    const { store, operator } = this.running;
    return (store.session(operator, sessionId) ?? assert.fail("the session is not there")).state;
  }

  async reach(heightBlocks: bigint): Promise<void> {
    while (this.chain.heightBlocks < heightBlocks) await this.block();
  }

  /** The session of now. */
  async header(application = "app", serviceId = "eth"): Promise<SessionHeader> {
    const { queries } = this.running;
    const found = await queries.session(chainParty(application).address, serviceId, this.chain.heightBlocks);
    assert.ok(found.ok, found.ok ? "" : found.text);
    return found.value.header ?? assert.fail("a session has a header");
  }

  /** Signed relays of a session, as the supplier mines them. */
  relays(
    header: SessionHeader,
    count: number,
    application = "app",
    supplier = this.#options.name ?? "supplier",
  ): Uint8Array[] {
    const parties = {
      header,
      application: chainParty(application),
      gateways: [chainParty("gateway")],
      supplier: chainParty(supplier),
    };
    return Array.from({ length: count }, () => makeRelay(parties, `call ${this.#served++}`));
  }

  /** Serves so many relays of the session of now. */
  async serve(count: number, application = "app", serviceId = "eth"): Promise<SessionHeader> {
    const header = await this.header(application, serviceId);
    const { store, operator } = this.running;
    for (const relay of this.relays(header, count, application)) {
      assert.equal(await store.append({ operatorAddress: operator, header, relay }), "mined");
    }
    return header;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopSupplier();
    await this.#stack.disposeAsync();
  }
}
