import { AppError, isAppError, type NetworkId } from "@turnpike/base";
import type { Sale, Settler } from "../settler.ts";
import type { Evidence, PaymentRecord, PaymentRefusal, StoredAnswer } from "../types.ts";
import { NetworkEngine } from "./network-engine.ts";
import type { EngineModules, EngineOptions, TransactionBounds } from "./options.ts";
import { pause } from "./waiters.ts";

/**
 * The settlement engine: sends claimed payments to their chains with our own relayer keys, in batches, and follows
 * each to its end. It starts by picking up what an earlier process left open. A chain that cannot be reached does not
 * stop it from starting: `missing` says so.
 * @throws AppError CONFIG_INVALID when an option is out of range, or a network has no RPC.
 */
export async function createEngine(opts: EngineOptions, modules: EngineModules): Promise<Settler> {
  check(opts);
  await using owned = new AsyncDisposableStack();
  const engine = owned.use(new SettlementEngine(opts, modules));
  await engine.start();
  owned.move();
  return engine;
}

class SettlementEngine implements Settler {
  readonly networks: readonly NetworkId[];
  readonly #leaseRenewMs: number;
  readonly #modules: EngineModules;
  readonly #engines: ReadonlyMap<NetworkId, NetworkEngine>;
  readonly #stopping = new AbortController();
  #renewing: Promise<void> | undefined;

  constructor(opts: EngineOptions, modules: EngineModules) {
    this.#leaseRenewMs = opts.leaseRenewMs;
    this.#modules = modules;
    this.#engines = new Map(opts.networks.map((net) => [net.network, new NetworkEngine(opts, net, modules)]));
    this.networks = [...this.#engines.keys()];
  }

  async start(): Promise<void> {
    for (const engine of this.#engines.values()) await engine.start();
    this.#renewing = this.#renewForever();
  }

  async reserve(...claim: Parameters<Settler["reserve"]>): Promise<PaymentRefusal | undefined> {
    return this.#engineOf(claim[0]).reserve(...claim);
  }

  async settle(payment: PaymentRecord, answer: StoredAnswer, signal: AbortSignal): Promise<Evidence | undefined> {
    return this.#engineOf(payment).settle(payment, answer, signal);
  }

  async wait(payment: PaymentRecord, signal: AbortSignal): Promise<void> {
    return this.#engineOf(payment).wait(payment, signal);
  }

  refusal(sale: Sale): PaymentRefusal | undefined {
    return this.#engines.get(sale.network)?.refusal(sale);
  }

  missing(network?: NetworkId): readonly string[] {
    return [...this.#engines].flatMap(([id, engine]) =>
      network === undefined || network === id ? engine.missing() : [],
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    const ends = [...this.#engines.values()].map((engine) => engine[Symbol.asyncDispose]());
    await Promise.allSettled([this.#renewing, ...ends]);
  }

  #engineOf({ key }: PaymentRecord): NetworkEngine {
    const engine = this.#engines.get(key.network);
    if (engine === undefined) throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { network: key.network } });
    return engine;
  }

  async #renewForever(): Promise<void> {
    const { ledger, log } = this.#modules;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        for (const { network, relayer } of await ledger.renewLeases()) this.#engines.get(network)?.lost(relayer);
      } catch (error) {
        const code = isAppError(error) ? error.code : "unknown";
        log.warn({ code }, "the renewal of leases waits for the ledger");
      }
      await pause(this.#leaseRenewMs, signal);
    }
  }
}

function wrong(path: string, rule: string): never {
  throw new AppError("CONFIG_INVALID", { message: `${path}: ${rule}.` });
}

function checkBounds(at: string, { bumpPercent, maxBatch, maxOpenBatches, batchWindowMs }: TransactionBounds): void {
  if (bumpPercent < 12.5) wrong(`${at}bumpPercent`, "must be at least 12.5, or nodes refuse the replacement");
  if (!Number.isInteger(maxBatch) || maxBatch < 1) wrong(`${at}maxBatch`, "must be an integer of at least 1");
  if (!Number.isInteger(maxOpenBatches) || maxOpenBatches < 1) {
    wrong(`${at}maxOpenBatches`, "must be an integer of at least 1");
  }
  if (batchWindowMs < 0) wrong(`${at}batchWindowMs`, "must not be negative");
}

function check(opts: EngineOptions): void {
  for (const net of opts.networks) {
    const { network, confirmations, relayerKeys } = net;
    checkBounds(`${network}.`, net);
    if (!/^eip155:[1-9][0-9]*$/.test(network)) wrong(network, "must be eip155:<chain id>");
    if (confirmations < 1) wrong(`${network}.confirmations`, "must be at least 1");
    if (relayerKeys.length === 0) wrong(`${network}.relayerKeys`, "must name at least one key");
  }
}
