import { AppError, isAppError, type NetworkId, type SettlementId } from "@turnpike/base";
import { pause, Waiters, within } from "../engine/waiters.ts";
import type { Settler } from "../settler.ts";
import type { PaymentRecord, StoredAnswer } from "../types.ts";
import { FacilitatorClient } from "./client.ts";
import type { RemoteSettlerModules, RemoteSettlerOptions } from "./options.ts";
import { RemoteNetworkEngine } from "./remote-network-engine.ts";

/** How long a commit under way is waited for after its caller's time is up. */
const GRACE_MS = 2_000;

/**
 * Settles through a facilitator that a third party runs. The checked answer is committed first, then the
 * facilitator is asked, and whatever it says, only what our own node shows counts: evidence on the chain makes a
 * payment settled, a closed window without any makes it failed, and until then it is pending.
 * @throws AppError CONFIG_INVALID when the URL is wrong, or a network has no RPC.
 */
export async function createRemoteSettler(opts: RemoteSettlerOptions, modules: RemoteSettlerModules): Promise<Settler> {
  const { ledger, log, faults } = modules;
  const client = new FacilitatorClient(
    {
      url: opts.facilitatorUrl,
      timeoutMs: opts.timeoutMs,
      maxAnswerBytes: opts.maxAnswerBytes ?? 65_536,
      maxConnections: opts.maxConnections ?? 64,
    },
    new Map(opts.networks.map((network) => [network.network, network])),
  );
  const stopping = new AbortController();
  const waiters = new Waiters();
  const engines = new Map<NetworkId, RemoteNetworkEngine>();
  for (const network of opts.networks) {
    const engine = new RemoteNetworkEngine(opts, network, { ...modules, client, waiters });
    await engine.start();
    engines.set(network.network, engine);
  }
  const jobs = new Set<Promise<unknown>>();
  const track = (job: Promise<unknown>): void => {
    jobs.add(job);
    void job.finally(() => jobs.delete(job)).catch(() => undefined);
  };

  const engineOf = ({ key }: PaymentRecord): RemoteNetworkEngine => {
    const engine = engines.get(key.network);
    if (engine === undefined) throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { network: key.network } });
    return engine;
  };

  /** True when it is on disk. After an error that does not say, the ledger is asked until it does. */
  const commit = async (id: SettlementId, answer: StoredAnswer): Promise<boolean> => {
    try {
      await ledger.journalSubmission(id, answer);
      return true;
    } catch (error) {
      if (!isAppError(error) || error.detail.unknown !== true) throw error;
      log.warn({ settlementId: id }, "the journal did not answer");
    }
    for (let claimed = 0, delayMs = 100; !stopping.signal.aborted; delayMs = Math.min(delayMs * 2, 2_000)) {
      await pause(delayMs, stopping.signal);
      try {
        const now = await ledger.get(id);
        if (now?.state !== "claimed") return now?.state === "submitted";
        if (++claimed >= 3) return false;
      } catch {
        claimed = 0;
      }
    }
    return false;
  };

  return {
    networks: [...engines.keys()],

    async settle(payment, answer, signal) {
      if (stopping.signal.aborted) throw new AppError("SHUTTING_DOWN");
      const engine = engineOf(payment);
      const either = AbortSignal.any([signal, stopping.signal]);
      const resolved = waiters.wait(payment.id, either);
      await faults.reach("remote.journal.before");
      const committed = commit(payment.id, answer).then((done) => {
        if (!done) throw new AppError("SETTLEMENT_UNAVAILABLE");
        engine.ask({ ...payment, state: "submitted" });
      });
      let hasLeft = false;
      track(
        committed.catch(async () => {
          // The caller was answered that the outcome is open, so it does not release the claim.
          if (hasLeft && !stopping.signal.aborted) await ledger.release(payment.id, "SETTLEMENT_UNAVAILABLE");
        }),
      );
      hasLeft = !(await within(committed, either, GRACE_MS));
      await faults.reach("remote.journal.after");
      return await resolved;
    },

    wait: (payment, signal) => engineOf(payment).wait(payment, AbortSignal.any([signal, stopping.signal])),

    missing: (wanted) =>
      [...engines].flatMap(([id, engine]) => (wanted === undefined || wanted === id ? engine.missing() : [])),

    async [Symbol.asyncDispose]() {
      stopping.abort();
      await Promise.allSettled([...engines.values()].map((engine) => engine[Symbol.asyncDispose]()));
      await Promise.allSettled(jobs);
      await client[Symbol.asyncDispose]();
    },
  };
}
