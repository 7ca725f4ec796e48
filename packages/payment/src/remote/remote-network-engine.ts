import { AppError, FaultLogThrottle, failureCode, type Log, type SettlementId } from "@turnpike/base";
import {
  type ChainView,
  type Head,
  type MinedTransaction,
  RpcSettlementChain,
  type SettlementChain,
} from "../engine/chain.ts";
import { ForeignPaymentWatch } from "../engine/foreign-payments.ts";
import { remoteFacilitatorAnswersTotal } from "../engine/metrics.ts";
import { PollPacer } from "../engine/pacer.ts";
import { Reconciler } from "../engine/reconciler.ts";
import { Resolver, type Verdict } from "../engine/resolver.ts";
import { evidenceIn } from "../engine/search.ts";
import { pause, type Waiters, waitForEnd } from "../engine/waiters.ts";
import type { EvmRpc } from "../evm/rpc.ts";
import type { PaymentRecord } from "../types.ts";
import { isFarAhead } from "../verify/chain-time.ts";
import type { AskQueue } from "./ask-queue.ts";
import type { FacilitatorAnswer, FacilitatorClient, FacilitatorStanding } from "./client.ts";
import type { RemoteNetwork, RemoteSettlerModules, RemoteSettlerOptions } from "./options.ts";

/** Modules of a {@link RemoteNetworkEngine}, which owns none of them. */
export interface RemoteNetworkModules extends RemoteSettlerModules {
  readonly client: FacilitatorClient;
  readonly waiters: Waiters;
  /** Places for the first request about each payment, and for repeated ones. */
  readonly queues: { readonly first: AskQueue; readonly again: AskQueue };
}

/** A submitted payment that is followed to its end. */
interface Watched {
  readonly payment: PaymentRecord;
  /** The transaction that the facilitator named. */
  hint: `0x${string}` | undefined;
  /** Monotonic milliseconds of the last look at the authorization itself. */
  judgedAtMs: number;
  /** Its authorization was seen used up without paying, and that was counted against its payer. */
  wasSpent: boolean;
  /** While our own node shows that it cannot be settled: resolves when that has changed. */
  hopeless: PromiseWithResolvers<void> | undefined;
}

const LIMIT = 1_000;
/** Bad answers in a row after which it is looked at: a payment alone cannot show that a facilitator is silent. */
const SUSPECT_ANSWERS = 3;
const BAD_ANSWERS: ReadonlySet<FacilitatorAnswer["kind"]> = new Set(["denied", "late", "absurd", "none"]);
const KEY_DENIED = "the facilitator refuses this gateway's seller key: nothing is sold until it is known";
const JUDGE_EVERY_MS = 1_000;
/** Pauses between two requests about one payment. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;

/** The payments of one network that a facilitator was asked to settle, each followed on the chain to its end. */
export class RemoteNetworkEngine implements AsyncDisposable {
  readonly #opts: RemoteSettlerOptions;
  readonly #net: RemoteNetwork;
  readonly #modules: RemoteNetworkModules;
  readonly #log: Log;
  readonly #rpc: EvmRpc;
  readonly #chain: SettlementChain;
  readonly #resolver: Resolver;
  readonly #reconciler: Reconciler;
  readonly #pacer: PollPacer;
  readonly #idleMs: number;
  readonly #reconcileMs: number;
  readonly #stopping = new AbortController();
  readonly #watched = new Map<SettlementId, Watched>();
  readonly #jobs = new Set<Promise<unknown>>();
  readonly #faultLogs;
  /** When the chain answered last; monotonic milliseconds. */
  #headAtMs = Number.NEGATIVE_INFINITY;
  #headSeconds = 0;
  /** Answers in a row that were no good, since it was looked at last. */
  #badAnswers = 0;
  #isLooking = false;
  #standing: FacilitatorStanding = "alive";

  /** @throws AppError CONFIG_INVALID when there is no RPC for the network. */
  constructor(opts: RemoteSettlerOptions, net: RemoteNetwork, modules: RemoteNetworkModules) {
    const { ledger, clock, metrics, faults, waiters } = modules;
    const { network } = net;
    const rpc = modules.rpc.get(network);
    if (rpc === undefined) throw new AppError("CONFIG_INVALID", { message: `There is no RPC for ${network}.` });
    const log = modules.log.child({ network });
    this.#opts = opts;
    this.#net = net;
    this.#modules = modules;
    this.#log = log;
    this.#rpc = rpc;
    const chain = new RpcSettlementChain(rpc, net);
    this.#chain = chain;
    this.#resolver = new Resolver(net, { chain, ledger, waiters, clock, log, metrics, faults });
    this.#reconciler = new Reconciler(net, { chain, ledger, resolver: this.#resolver, clock, log, metrics });
    const slowestMs = Math.max(20, Math.min(opts.pollMs, net.blockTimeSeconds * 250));
    this.#idleMs = Math.max(slowestMs, 2_000);
    this.#pacer = new PollPacer(slowestMs, this.#idleMs);
    this.#reconcileMs = opts.reconcileMs;
    this.#faultLogs = {
      chain: new FaultLogThrottle(clock),
      reconcile: new FaultLogThrottle(clock),
      facilitator: new FaultLogThrottle(clock),
    };
  }

  /** Starts following: what an earlier process submitted is asked for again. A chain that does not answer is no error. */
  async start(): Promise<void> {
    const { ledger, clock, metrics } = this.#modules;
    try {
      this.#saw(await this.#chain.head(AbortSignal.timeout(5_000)));
    } catch (error) {
      this.#log.warn({ code: failureCode(error) }, "the chain could not be asked");
    }
    if (this.#modules.client.hasKey) this.#track(this.#lookAtFacilitator(this.#stopping.signal));
    this.#track(this.#watchForever());
    this.#track(this.#reconcileForever());
    const foreign = new ForeignPaymentWatch(this.#net, {
      nodes: this.#rpc.nodes,
      ledger,
      clock,
      log: this.#log,
      metrics,
    });
    this.#track(foreign.run(this.#reconcileMs, this.#stopping.signal));
  }

  /** Asks the facilitator about a submitted payment, and follows it on the chain to its end. */
  ask(payment: PaymentRecord): void {
    if (this.#watched.has(payment.id)) return;
    const judgedAtMs = this.#modules.clock.monotonicMs();
    const entry: Watched = { payment, hint: undefined, judgedAtMs, wasSpent: false, hopeless: undefined };
    this.#watched.set(payment.id, entry);
    this.#track(this.#askUntilEnd(entry));
  }

  /** Resolves when a submitted payment is resolved in the ledger, or `signal` fires. */
  wait(payment: PaymentRecord, signal: AbortSignal): Promise<void> {
    const { ledger, waiters } = this.#modules;
    const either = AbortSignal.any([signal, this.#stopping.signal]);
    return waitForEnd(payment, either, { ledger, waiters, log: this.#log });
  }

  /** What is missing before payments can be settled, for `/ready`; empty when nothing is. */
  missing(): readonly string[] {
    const { network } = this.#net;
    const { clock } = this.#modules;
    const isStale = clock.monotonicMs() - this.#headAtMs > this.#idleMs * 3 + 5_000;
    return [
      ...(isFarAhead(this.#headSeconds, clock) ? [`blocks ahead of this machine's clock (${network})`] : []),
      ...(isStale ? [`chain unreachable (${network})`] : []),
      ...(this.#standing === "denied" ? [`facilitator refuses the seller key (${network})`] : []),
      ...(this.#standing === "silent" ? [`facilitator silent (${network})`] : []),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    for (const { hopeless } of this.#watched.values()) hopeless?.resolve();
    await Promise.allSettled(this.#jobs);
  }

  #track(job: Promise<unknown>): void {
    this.#jobs.add(job);
    void job.finally(() => this.#jobs.delete(job)).catch(() => undefined);
  }

  /**
   * Asks until the payment is resolved, ever more slowly: a facilitator that was killed, was not ready or lost the
   * request must be asked again. A payload is one settlement however often it is asked for, so this cannot pay twice.
   * Nothing is asked about a payment that our own node shows as hopeless: each request has its price there.
   */
  async #askUntilEnd(entry: Watched): Promise<void> {
    const { queues } = this.#modules;
    const { payment } = entry;
    const { signal } = this.#stopping;
    const isOver = (): boolean => signal.aborted || this.#watched.get(payment.id) !== entry;
    let queue = queues.first;
    for (let delayMs = FIRST_PAUSE_MS; ; delayMs = Math.min(delayMs * 2, LONGEST_PAUSE_MS)) {
      await queue.run(payment.key.from, signal, async (limit) => {
        if (!isOver() && entry.hopeless === undefined) await this.#askOnce(entry, limit);
      });
      queue = queues.again;
      if (isOver()) return;
      await pause(delayMs, signal);
      await entry.hopeless?.promise;
      if (isOver()) return;
    }
  }

  async #askOnce(entry: Watched, signal: AbortSignal): Promise<void> {
    const { client, metrics, faults } = this.#modules;
    const { payment } = entry;
    await faults.reach("remote.ask.before");
    const answer = await client.settle(payment, signal);
    await faults.reach("remote.ask.after");
    if (this.#stopping.signal.aborted) return;
    metrics.count(remoteFacilitatorAnswersTotal, { network: this.#net.network, answer: answer.kind });
    if (BAD_ANSWERS.has(answer.kind)) this.#onBadAnswer(payment, answer.kind);
    else this.#onGoodAnswer();
    entry.hint = answer.transaction ?? entry.hint;
    entry.judgedAtMs = Number.NEGATIVE_INFINITY;
    this.#pacer.wake();
  }

  #onGoodAnswer(): void {
    this.#badAnswers = 0;
    this.#standing = "alive";
    if (this.#faultLogs.facilitator.onRecovery()) this.#log.info({}, "the facilitator answers again");
  }

  #onBadAnswer(payment: PaymentRecord, answer: FacilitatorAnswer["kind"]): void {
    this.#badAnswers++;
    if (this.#faultLogs.facilitator.onFailure()) {
      this.#log.warn({ settlementId: payment.id, answer }, "the facilitator did not answer well");
    }
    if (answer !== "denied" && this.#badAnswers < SUSPECT_ANSWERS) return;
    this.#track(this.#lookAtFacilitator(this.#stopping.signal));
  }

  async #watchForever(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#look(signal);
      } catch (error) {
        if (!signal.aborted && this.#faultLogs.chain.onFailure()) {
          this.#log.warn({ code: failureCode(error) }, "the chain could not be asked");
        }
      }
      await this.#pacer.next(this.#watched.size > 0, signal);
    }
  }

  /** One look at the chain for all watched payments. Throws when the chain cannot be asked. */
  async #look(signal: AbortSignal): Promise<void> {
    const entries = [...this.#watched.values()];
    const hints = entries.flatMap(({ hint }) => hint ?? []);
    const view = await this.#chain.poll(hints, [], signal);
    this.#saw(view.head);
    if (this.#faultLogs.chain.onRecovery()) this.#log.info({}, "the chain answers again");
    const followed = entries.map((entry) => this.#follow(entry, view.head, minedOf(view, entry)));
    for (const result of await Promise.allSettled(followed)) {
      if (result.status === "rejected") this.#log.warn({ code: failureCode(result.reason) }, "look again later");
    }
  }

  #saw(head: Head): void {
    this.#headAtMs = this.#modules.clock.monotonicMs();
    this.#headSeconds = head.timeSeconds;
  }

  async #follow(entry: Watched, head: Head, mined: MinedTransaction | undefined): Promise<void> {
    const { payment } = entry;
    const evidence = mined === undefined ? undefined : evidenceIn(mined, payment);
    if (evidence !== undefined) {
      if (head.number - evidence.blockNumber + 1n < BigInt(this.#net.confirmations)) return;
      await this.#resolver.settle(payment, evidence);
      this.#end(entry);
      return;
    }
    // A transaction that is mined and is no evidence is a wrong hint.
    if (mined !== undefined) entry.hint = undefined;
    const nowMs = this.#modules.clock.monotonicMs();
    if (nowMs - entry.judgedAtMs < JUDGE_EVERY_MS) return;
    entry.judgedAtMs = nowMs;
    const verdict = await this.#resolver.judge(payment, head, this.#stopping.signal);
    // A window that closed unused may be the facilitator's fault; these are the payer's own doing.
    const isWithdrawn =
      (verdict.kind === "open" && !verdict.funded) ||
      (verdict.kind === "spent" && !entry.wasSpent) ||
      (verdict.kind === "failed" && verdict.reason === "PAYMENT_NONCE_USED" && !entry.wasSpent);
    if (isWithdrawn) this.#modules.backOff?.failed(payment);
    if (verdict.kind === "spent") entry.wasSpent = true;
    this.#hope(entry, verdict);
    if (verdict.kind === "settled") await this.#resolver.settle(payment, verdict.evidence);
    else if (verdict.kind === "failed") await this.#resolver.fail(payment, verdict.reason);
    else return;
    this.#end(entry);
  }

  /** Learns whether a facilitator could settle the payment. */
  #hope(entry: Watched, verdict: Verdict): void {
    if (verdict.kind === "unclear") return;
    if (verdict.kind === "open" && verdict.funded) {
      entry.hopeless?.resolve();
      entry.hopeless = undefined;
    } else entry.hopeless ??= Promise.withResolvers();
  }

  #end(entry: Watched): void {
    this.#watched.delete(entry.payment.id);
    entry.hopeless?.resolve();
  }

  async #reconcileForever(): Promise<void> {
    const { signal } = this.#stopping;
    for (let ageMs = 0; !signal.aborted; ageMs = this.#opts.timeoutMs + 5_000) {
      try {
        await this.#reconcile(ageMs);
      } catch (error) {
        if (!signal.aborted && this.#faultLogs.reconcile.onFailure()) {
          this.#log.warn({ code: failureCode(error) }, "a reconciliation did not end");
        }
      }
      await pause(this.#reconcileMs, signal);
    }
  }

  async #reconcile(ageMs: number): Promise<void> {
    const stop = this.#stopping.signal;
    const signal = AbortSignal.any([stop, AbortSignal.timeout(60_000)]);
    await this.#adopt(ageMs);
    const head = await this.#chain.head(signal);
    if ((await this.#reconciler.checkFinality(head, signal)) > 0) await this.#adopt(0);
    await this.#reconciler.resolve(head, signal);
    await this.#reconciler.sweep(head, signal);
    this.#faultLogs.reconcile.onRecovery();
    // Nothing is asked of it while it is missing.
    if (this.#standing !== "alive") await this.#lookAtFacilitator(stop);
  }

  async #lookAtFacilitator(signal: AbortSignal): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const standing = await this.#modules.client.standing(signal);
      if (signal.aborted) return;
      if (standing === "denied" && this.#standing !== "denied") this.#log.error({}, KEY_DENIED);
      this.#standing = standing;
      this.#badAnswers = 0;
    } finally {
      this.#isLooking = false;
    }
  }

  /** Payments that no process seems to follow: asked for again, which an honest facilitator takes for one. */
  async #adopt(ageMs: number): Promise<void> {
    const { ledger, clock } = this.#modules;
    for (const payment of await ledger.submitted(this.#net.network, LIMIT)) {
      if (clock.nowMs() - payment.updatedAtMs >= ageMs) this.ask(payment);
    }
  }
}

function minedOf(view: ChainView, { hint }: Watched): MinedTransaction | undefined {
  return hint === undefined ? undefined : view.mined.get(hint);
}
