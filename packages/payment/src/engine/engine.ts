import { AppError, isAppError, type NetworkId } from "@turnpike/base";
import type { Settler } from "../settler.ts";
import type { PaymentRecord } from "../types.ts";
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
  const { ledger, log } = modules;
  const stopping = new AbortController();
  const engines = new Map<NetworkId, NetworkEngine>();
  for (const net of opts.networks) {
    const engine = new NetworkEngine(opts, net, modules);
    await engine.start();
    engines.set(net.network, engine);
  }

  const engineOf = ({ key }: PaymentRecord): NetworkEngine => {
    const engine = engines.get(key.network);
    if (engine === undefined) throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { network: key.network } });
    return engine;
  };

  const attempt = async (what: string, work: () => Promise<unknown>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      log.warn({ code: isAppError(error) ? error.code : "unknown" }, `${what} waits for the ledger`);
    }
  };

  const renew = async (): Promise<void> => {
    for (const { network, relayer } of await ledger.renewLeases()) engines.get(network)?.lost(relayer);
  };

  const renewForever = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await attempt("the renewal of leases", renew);
      await pause(opts.leaseRenewMs, stopping.signal);
    }
  };

  const renewing = renewForever();

  return {
    networks: [...engines.keys()],
    settle: async (payment, answer, signal) => engineOf(payment).settle(payment, answer, signal),
    wait: async (payment, signal) => engineOf(payment).wait(payment, signal),
    refusal: (sale) => engines.get(sale.network)?.refusal(sale),
    missing: (network) =>
      [...engines].flatMap(([id, engine]) => (network === undefined || network === id ? engine.missing() : [])),
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await Promise.allSettled([renewing, ...[...engines.values()].map((engine) => engine[Symbol.asyncDispose]())]);
    },
  };
}

function wrong(path: string, rule: string): never {
  throw new AppError("CONFIG_INVALID", { message: `${path}: ${rule}.` });
}

function checkBounds(
  at: string,
  { bumpPercent, maxBatch, maxOpenBatchesPerKey, batchWindowMs }: TransactionBounds,
): void {
  if (bumpPercent < 12.5) wrong(`${at}bumpPercent`, "must be at least 12.5, or nodes refuse the replacement");
  if (!Number.isInteger(maxBatch) || maxBatch < 1) wrong(`${at}maxBatch`, "must be an integer of at least 1");
  if (!Number.isInteger(maxOpenBatchesPerKey) || maxOpenBatchesPerKey < 1) {
    wrong(`${at}maxOpenBatchesPerKey`, "must be an integer of at least 1");
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
