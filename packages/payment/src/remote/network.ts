import { AppError, FaultLogThrottle, failureCode, type SettlementId } from "@turnpike/base";
import { createSettlementChain, type Head } from "../engine/chain.ts";
import { createForeignWatch } from "../engine/foreign.ts";
import { facilitatorAnswersTotal } from "../engine/metrics.ts";
import { createPacer } from "../engine/pacer.ts";
import { createReconciler } from "../engine/reconciler.ts";
import { createResolver } from "../engine/resolver.ts";
import { evidenceIn } from "../engine/search.ts";
import { pause, type Waiters, waitForEnd } from "../engine/waiters.ts";
import type { PaymentRecord } from "../types.ts";
import type { FacilitatorClient } from "./client.ts";
import type { RemoteNetwork, RemoteSettlerModules, RemoteSettlerOptions } from "./options.ts";

/** Payments of one network that a facilitator was asked to settle. */
export interface RemoteNetworkWatch extends AsyncDisposable {
  /** Asks the facilitator about a submitted payment, and follows it on the chain to its end. */
  ask(payment: PaymentRecord): void;
  wait(payment: PaymentRecord, signal: AbortSignal): Promise<void>;
  missing(): readonly string[];
}

/** What {@link createRemoteNetwork} works with. */
export interface RemoteNetworkModules extends RemoteSettlerModules {
  readonly client: FacilitatorClient;
  readonly waiters: Waiters;
}

interface Watched {
  readonly payment: PaymentRecord;
  /** Where the facilitator says that it is. */
  hint: `0x${string}` | undefined;
  /** Monotonic milliseconds of the last look at the authorization itself. */
  judgedAtMs: number;
  /** Its authorization was seen used up without paying, and that was counted against its payer. */
  wasSpent: boolean;
}

const LIMIT = 1_000;
/** Bad answers in a row after which a facilitator counts as missing, until it answers well again. */
const SILENT_ANSWERS = 3;
const JUDGE_EVERY_MS = 1_000;
/** Pauses between two askings about one payment. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;

/** Starts following one network: what an earlier process submitted is asked for again. */
export async function createRemoteNetwork(
  opts: RemoteSettlerOptions,
  net: RemoteNetwork,
  modules: RemoteNetworkModules,
): Promise<RemoteNetworkWatch> {
  const { ledger, client, clock, metrics, faults, waiters } = modules;
  const { network } = net;
  const log = modules.log.child({ network });
  const rpc = modules.rpc.get(network);
  if (rpc === undefined) throw new AppError("CONFIG_INVALID", { message: `There is no RPC for ${network}.` });
  const chain = createSettlementChain(rpc);
  const resolver = createResolver(net, { chain, ledger, waiters, log, metrics, faults });
  const reconciler = createReconciler(net, { chain, ledger, resolver, log, metrics });
  const stopping = new AbortController();
  const slowestMs = Math.max(20, Math.min(opts.pollMs, net.blockTimeSeconds * 250));
  const idleMs = Math.max(slowestMs, 2_000);
  const pacer = createPacer(slowestMs, idleMs);
  const watched = new Map<SettlementId, Watched>();
  const jobs = new Set<Promise<unknown>>();
  let headAtMs = Number.NEGATIVE_INFINITY;
  /** Answers in a row that were none, or absurd. */
  let badAnswers = 0;
  const faultLogs = {
    chain: new FaultLogThrottle(clock),
    reconcile: new FaultLogThrottle(clock),
    facilitator: new FaultLogThrottle(clock),
  };

  const track = (job: Promise<unknown>): void => {
    jobs.add(job);
    void job.finally(() => jobs.delete(job)).catch(() => undefined);
  };

  const ask = (payment: PaymentRecord): void => {
    if (watched.has(payment.id)) return;
    const entry: Watched = { payment, hint: undefined, judgedAtMs: clock.monotonicMs(), wasSpent: false };
    watched.set(payment.id, entry);
    track(askUntilEnd(entry));
  };

  /**
   * Asks until the payment is resolved, ever more slowly: a facilitator that was killed, was not ready or lost the
   * request must hear of it again. A payload is one settlement however often it is asked for, so this cannot pay twice.
   */
  const askUntilEnd = async (entry: Watched): Promise<void> => {
    const { payment } = entry;
    for (let delayMs = FIRST_PAUSE_MS; ; delayMs = Math.min(delayMs * 2, LONGEST_PAUSE_MS)) {
      await faults.reach("remote.ask.before");
      const answer = await client.settle(payment, stopping.signal);
      await faults.reach("remote.ask.after");
      if (stopping.signal.aborted) return;
      metrics.count(facilitatorAnswersTotal, { network, answer: answer.kind });
      badAnswers = answer.kind === "absurd" || answer.kind === "none" ? badAnswers + 1 : 0;
      if (badAnswers === 0 && faultLogs.facilitator.onRecovery()) log.info({}, "the facilitator answers again");
      if (badAnswers > 0 && faultLogs.facilitator.onFailure()) {
        log.warn({ settlementId: payment.id, answer: answer.kind }, "the facilitator did not answer well");
      }
      entry.hint = answer.transaction ?? entry.hint;
      entry.judgedAtMs = Number.NEGATIVE_INFINITY;
      pacer.poke();
      await pause(delayMs, stopping.signal);
      if (stopping.signal.aborted || watched.get(payment.id) !== entry) return;
    }
  };

  const follow = async (entry: Watched, head: Head, mined: ReturnType<typeof minedOf>): Promise<void> => {
    const { payment } = entry;
    const evidence = mined === undefined ? undefined : evidenceIn(mined, payment);
    if (evidence !== undefined) {
      if (head.number - evidence.blockNumber + 1n < BigInt(net.confirmations)) return;
      await resolver.settle(payment, evidence);
      watched.delete(payment.id);
      return;
    }
    // A transaction that is mined and is no evidence is a wrong hint.
    if (mined !== undefined) entry.hint = undefined;
    const nowMs = clock.monotonicMs();
    if (nowMs - entry.judgedAtMs < JUDGE_EVERY_MS) return;
    entry.judgedAtMs = nowMs;
    const verdict = await resolver.judge(payment, head, stopping.signal);
    // A window that closed unused may be the facilitator's fault; these are the payer's own doing.
    const isWithdrawn =
      (verdict.kind === "open" && !verdict.funded) ||
      (verdict.kind === "spent" && !entry.wasSpent) ||
      (verdict.kind === "failed" && verdict.reason === "PAYMENT_NONCE_USED" && !entry.wasSpent);
    if (isWithdrawn) modules.backOff?.failed(payment);
    if (verdict.kind === "spent") entry.wasSpent = true;
    if (verdict.kind === "settled") await resolver.settle(payment, verdict.evidence);
    else if (verdict.kind === "failed") await resolver.fail(payment, verdict.reason);
    else return;
    watched.delete(payment.id);
  };

  const minedOf = (view: Awaited<ReturnType<typeof chain.poll>>, { hint }: Watched) =>
    hint === undefined ? undefined : view.mined.get(hint);

  const watch = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        const entries = [...watched.values()];
        const view = await chain.poll(
          entries.flatMap(({ hint }) => hint ?? []),
          [],
          stopping.signal,
        );
        headAtMs = clock.monotonicMs();
        if (faultLogs.chain.onRecovery()) log.info({}, "the chain answers again");
        for (const result of await Promise.allSettled(entries.map((e) => follow(e, view.head, minedOf(view, e))))) {
          if (result.status === "rejected") log.warn({ code: failureCode(result.reason) }, "look again later");
        }
      } catch (error) {
        if (!stopping.signal.aborted && faultLogs.chain.onFailure()) {
          log.warn({ code: failureCode(error) }, "the chain could not be asked");
        }
      }
      await pacer.next(watched.size > 0, stopping.signal);
    }
  };

  /** Payments that nobody seems to work on: asked for again, which an honest facilitator takes for one. */
  const adopt = async (ageMs: number): Promise<void> => {
    for (const payment of await ledger.submitted(network, LIMIT)) {
      if (clock.nowMs() - payment.updatedAtMs >= ageMs) ask(payment);
    }
  };

  const reconcileForever = async (): Promise<void> => {
    for (let ageMs = 0; !stopping.signal.aborted; ageMs = opts.timeoutMs + 5_000) {
      try {
        const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(60_000)]);
        await adopt(ageMs);
        const head = await chain.head(signal);
        if ((await reconciler.checkFinality(head, signal)) > 0) await adopt(0);
        await reconciler.resolve(head, signal);
        await reconciler.sweep(head, signal);
        faultLogs.reconcile.onRecovery();
        // Nothing is asked of it while it is missing, so it is looked at here; its next bad answer counts again.
        if (badAnswers >= SILENT_ANSWERS && (await client.alive(stopping.signal))) badAnswers = SILENT_ANSWERS - 1;
      } catch (error) {
        if (!stopping.signal.aborted && faultLogs.reconcile.onFailure()) {
          log.warn({ code: failureCode(error) }, "a reconciliation did not end");
        }
      }
      await pause(opts.reconcileMs ?? 5_000, stopping.signal);
    }
  };

  try {
    await chain.head(AbortSignal.timeout(5_000));
    headAtMs = clock.monotonicMs();
  } catch (error) {
    log.warn({ code: failureCode(error) }, "the chain could not be asked");
  }
  track(watch());
  track(reconcileForever());
  const foreign = createForeignWatch(net, { nodes: rpc.nodes, ledger, clock, log, metrics });
  track(foreign.run(opts.reconcileMs ?? 5_000, stopping.signal));

  return {
    ask,

    wait: (payment, signal) =>
      waitForEnd(payment, AbortSignal.any([signal, stopping.signal]), { ledger, waiters, log }),

    missing: () => [
      ...(clock.monotonicMs() - headAtMs > idleMs * 3 + 5_000 ? [`chain unreachable (${network})`] : []),
      ...(badAnswers >= SILENT_ANSWERS ? [`facilitator silent (${network})`] : []),
    ],

    async [Symbol.asyncDispose]() {
      stopping.abort();
      await Promise.allSettled(jobs);
    },
  };
}
