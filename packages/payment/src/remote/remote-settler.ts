import { AppError, isAppError, type NetworkId, type SettlementId } from "@turnpike/base";
import { pause, Waiters, within } from "../engine/waiters.ts";
import type { Settler } from "../settler.ts";
import type { Evidence, PaymentRecord, StoredAnswer } from "../types.ts";
import { AskQueue } from "./ask-queue.ts";
import { FacilitatorClient } from "./client.ts";
import type { RemoteSettlerModules, RemoteSettlerOptions } from "./options.ts";
import { RemoteNetworkEngine } from "./remote-network-engine.ts";

/** How long a commit under way is waited for after its caller's time is up. */
const GRACE_MS = 2_000;

/** Most bytes of one answer of the facilitator. */
const MAX_ANSWER_BYTES = 65_536;
/** Requests to the facilitator at once: as many as ours takes of one client. */
const FIRST_ASKS = { maxAtOnce: 48, maxEach: 12, yieldAfterMs: 5_000 };
/** At most 25 a second, which is half of the tokens that ours returns to a client in that time. */
const REPEATED_ASKS = { maxAtOnce: 16, maxEach: 2, yieldAfterMs: 5_000, minHoldMs: 640 };
const MAX_CONNECTIONS = FIRST_ASKS.maxAtOnce + REPEATED_ASKS.maxAtOnce;
/** Looks at the ledger that must find a payment claimed until its commit, whose answer was lost, counts as not made. */
const CLAIMED_LOOKS = 3;

/**
 * Settles through a facilitator that a third party runs. The checked answer is committed first, then the
 * facilitator is asked, and whatever it says, only what our own node shows counts: evidence on the chain makes a
 * payment settled, a closed window without any makes it failed, and until then it is pending.
 * @throws AppError CONFIG_INVALID when the URL is wrong, or a network has no RPC.
 */
export async function createRemoteSettler(opts: RemoteSettlerOptions, modules: RemoteSettlerModules): Promise<Settler> {
  await using owned = new AsyncDisposableStack();
  const settler = owned.use(new RemoteSettler(opts, modules));
  await settler.start();
  owned.move();
  return settler;
}

class RemoteSettler implements Settler {
  readonly networks: readonly NetworkId[];
  readonly #modules: RemoteSettlerModules;
  readonly #client: FacilitatorClient;
  readonly #engines: ReadonlyMap<NetworkId, RemoteNetworkEngine>;
  readonly #waiters = new Waiters();
  readonly #stopping = new AbortController();
  readonly #jobs = new Set<Promise<unknown>>();

  constructor(opts: RemoteSettlerOptions, modules: RemoteSettlerModules) {
    const { facilitatorUrl: url, sellerKey, timeoutMs, networks } = opts;
    this.#modules = modules;
    const client = new FacilitatorClient(
      { url, sellerKey, timeoutMs, maxAnswerBytes: MAX_ANSWER_BYTES, maxConnections: MAX_CONNECTIONS },
      new Map(networks.map((network) => [network.network, network])),
    );
    this.#client = client;
    const queues = { first: new AskQueue(FIRST_ASKS, modules), again: new AskQueue(REPEATED_ASKS, modules) };
    const all = { ...modules, client, waiters: this.#waiters, queues };
    this.#engines = new Map(networks.map((net) => [net.network, new RemoteNetworkEngine(opts, net, all)]));
    this.networks = [...this.#engines.keys()];
  }

  async start(): Promise<void> {
    for (const engine of this.#engines.values()) await engine.start();
  }

  /** The facilitator runs the payer's code, with bounds of its own. */
  async reserve(): Promise<undefined> {
    return undefined;
  }

  async settle(payment: PaymentRecord, answer: StoredAnswer, signal: AbortSignal): Promise<Evidence | undefined> {
    const { ledger, faults } = this.#modules;
    const stop = this.#stopping.signal;
    if (stop.aborted) throw new AppError("SHUTTING_DOWN");
    const engine = this.#engineOf(payment);
    const either = AbortSignal.any([signal, stop]);
    const resolved = this.#waiters.wait(payment.id, either);
    await faults.reach("remote.journal.before");
    const committed = this.#commit(payment.id, answer).then((done) => {
      if (!done) throw new AppError("SETTLEMENT_UNAVAILABLE");
      engine.ask({ ...payment, state: "submitted" });
    });
    let hasLeft = false;
    this.#track(
      committed.catch(async () => {
        // The caller was answered that the outcome is open, so it does not release the claim.
        if (hasLeft && !stop.aborted) await ledger.release(payment.id, "SETTLEMENT_UNAVAILABLE");
      }),
    );
    hasLeft = !(await within(committed, either, GRACE_MS));
    await faults.reach("remote.journal.after");
    return await resolved;
  }

  async wait(payment: PaymentRecord, signal: AbortSignal): Promise<void> {
    return this.#engineOf(payment).wait(payment, signal);
  }

  missing(network?: NetworkId): readonly string[] {
    return [...this.#engines].flatMap(([id, engine]) =>
      network === undefined || network === id ? engine.missing() : [],
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await Promise.allSettled([...this.#engines.values()].map((engine) => engine[Symbol.asyncDispose]()));
    await Promise.allSettled(this.#jobs);
    await this.#client[Symbol.asyncDispose]();
  }

  #engineOf({ key }: PaymentRecord): RemoteNetworkEngine {
    const engine = this.#engines.get(key.network);
    if (engine === undefined) throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { network: key.network } });
    return engine;
  }

  #track(job: Promise<unknown>): void {
    this.#jobs.add(job);
    void job.finally(() => this.#jobs.delete(job)).catch(() => undefined);
  }

  /** True when it is on disk. After an error that does not say, the ledger is asked until it does. */
  async #commit(id: SettlementId, answer: StoredAnswer): Promise<boolean> {
    const { ledger, log } = this.#modules;
    try {
      await ledger.journalSubmission(id, answer);
      return true;
    } catch (error) {
      if (!isAppError(error) || error.detail.unknown !== true) throw error;
      log.warn({ settlementId: id }, "the journal did not answer");
    }
    const { signal } = this.#stopping;
    for (let claimed = 0, delayMs = 100; !signal.aborted; delayMs = Math.min(delayMs * 2, 2_000)) {
      await pause(delayMs, signal);
      try {
        const now = await ledger.get(id);
        if (now?.state !== "claimed") return now?.state === "submitted";
        if (++claimed >= CLAIMED_LOOKS) return false;
      } catch {
        claimed = 0;
      }
    }
    return false;
  }
}
