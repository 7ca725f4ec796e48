import {
  AppError,
  type Clock,
  type FaultPoints,
  hexToBytes,
  isAppError,
  type Log,
  type Metrics,
  noFaults,
  noMetrics,
  silentLog,
} from "@turnpike/base";
import {
  type Amount,
  type BlockMark,
  type ChainClient,
  type ChainHead,
  type ChainSigner,
  coinAmount,
  type PocketQueries,
  usualFee,
} from "@turnpike/chain-client";
import { createMessage, packAny, proof, type shared } from "@turnpike/proto";
import { CLAIM_STATUS, PROOF_REQUIREMENT, proofPath, proofRequirement } from "@turnpike/protocol";
import type { RelayStore } from "../evidence/relay-store.ts";
import type { SessionEvidence } from "../evidence/session-evidence.ts";
import type { SessionHead, SessionState } from "../evidence/types.ts";
import {
  supplierBalanceUpokt,
  supplierClaimsHeightBlocks,
  supplierExpectedUpoktTotal,
  supplierPenaltiesUpoktTotal,
  supplierRewardsUpoktTotal,
  supplierSessionsTotal,
  supplierSettledUpoktTotal,
  supplierSettlementDelayBlocks,
  supplierUnsettledSessions,
} from "../metrics.ts";
import { configsGas } from "./claim-gas.ts";
import {
  type ChainClaim,
  type ChainFacts,
  type NeededFacts,
  neededFacts,
  nextAction,
  type SettlementFact,
  sendHeights,
} from "./next-action.ts";
import { OperatorTxs, type WantedMessage } from "./operator-txs.ts";
import { SettlementSearches } from "./settlement-search.ts";

export interface ClaimRunnerOptions {
  /** The operator's key, which signs claims and proofs. */
  readonly signer: ChainSigner;
  /** Leave out claims that are worth less than their fees. A proof that is required is never left out. */
  readonly skipUnprofitableClaims: boolean;
  /** A lower balance is reported. */
  readonly minBalanceUpokt: bigint;
  /** How long after the newest block's time a transaction may be included; 120,000 by default. */
  readonly txTimeoutMs?: number;
  /** Fee for so much gas; one upokt for a million units by default. */
  readonly feeFor?: (gasLimit: bigint) => readonly Amount[];
  /** Maximum that a transaction's fee is raised to as a window ends; 100,000 by default. */
  readonly maxFeeUpokt?: bigint;
}

export interface ClaimRunnerModules {
  readonly store: RelayStore;
  readonly head: ChainHead;
  readonly queries: PocketQueries;
  readonly client: ChainClient;
  readonly clock: Clock;
  readonly log?: Log;
  readonly metrics?: Metrics;
  readonly faults?: FaultPoints;
}

const CLAIM_GAS = 150_000n;
const PROOF_GAS = 400_000n;
/** Maximum number of steps of one session at one block: each leads to the next phase. */
const MAX_STEPS = 12;

/** Gas of a claim beyond the usual. */
function extraGas(supplier: shared.Supplier | undefined, { header }: SessionHead): bigint {
  return supplier === undefined ? 0n : configsGas(supplier, header.serviceId);
}

interface Asked {
  readonly newest: BlockMark;
  /** By session id; undefined when the node could not be asked. */
  readonly claims: ReadonlyMap<string, ChainClaim> | undefined;
  /** False when there may be claims that the list does not have. */
  readonly isWhole: boolean;
  readonly claimsHeightBlocks: bigint;
  readonly proofParams: proof.Params | undefined;
  /** Configurations of the operator; undefined when they are not known. */
  readonly supplier: shared.Supplier | undefined;
  /** By session id. */
  readonly settlements: ReadonlyMap<string, SettlementFact>;
}

interface Wanted {
  readonly claims: SessionEvidence[];
  readonly proofs: SessionEvidence[];
}

/**
 * Sees to it that everything one operator served is claimed, proven where the chain wants it, and settled. It works after
 * every block, from what the evidence and the chain say: nothing that it knows by itself is needed to go on after a crash.
 */
export class ClaimRunner implements AsyncDisposable {
  readonly #options: ClaimRunnerOptions;
  readonly #modules: ClaimRunnerModules;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #faults: FaultPoints;
  readonly #txs: OperatorTxs;
  readonly #listening: Disposable;
  readonly #ended = new AbortController();
  readonly #checked = new Set<string>();
  readonly #searches: SettlementSearches;
  #newest: BlockMark | undefined;
  #work: Promise<void> | undefined;
  #processedBlocks = 0n;
  #waiters: { readonly heightBlocks: bigint; readonly resolve: () => void }[] = [];
  #isLow = false;

  constructor(options: ClaimRunnerOptions, modules: ClaimRunnerModules) {
    const { log = silentLog, metrics = noMetrics, faults = noFaults, client, head } = modules;
    const { signer, txTimeoutMs, feeFor, maxFeeUpokt } = options;
    this.#options = options;
    this.#modules = modules;
    this.#log = log.child({ operatorAddress: signer.address });
    this.#metrics = metrics;
    this.#faults = faults;
    this.#txs = new OperatorTxs(
      {
        signer,
        ...(txTimeoutMs === undefined ? {} : { txTimeoutMs }),
        ...(feeFor === undefined ? {} : { feeFor }),
        ...(maxFeeUpokt === undefined ? {} : { maxFeeUpokt }),
      },
      { client, log: this.#log, metrics, faults, signal: this.#ended.signal },
    );
    const { queries } = modules;
    this.#searches = new SettlementSearches({ client, queries, log: this.#log, signal: this.#ended.signal });
    this.#listening = head.onBlock((mark) => this.#heard(mark));
    if (head.newest !== undefined) this.#heard(head.newest);
  }

  /** Resolves when the work after a block of at least this height is done. */
  processed(heightBlocks: bigint): Promise<void> {
    if (this.#processedBlocks >= heightBlocks) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiters.push({ heightBlocks, resolve });
    });
  }

  #heard(mark: BlockMark): void {
    this.#newest = mark;
    this.#work ??= this.#run();
  }

  async #run(): Promise<void> {
    while (!this.#ended.signal.aborted && this.#newest !== undefined) {
      const newest = this.#newest;
      this.#newest = undefined;
      try {
        await this.#afterBlock(newest);
      } catch (cause) {
        this.#log.error(
          { cause, heightBlocks: newest.heightBlocks },
          "claims and proofs could not be looked after; the next block brings another attempt",
        );
      }
      this.#processedBlocks = newest.heightBlocks;
      const due = this.#waiters.filter(({ heightBlocks }) => heightBlocks <= newest.heightBlocks);
      this.#waiters = this.#waiters.filter((waiter) => !due.includes(waiter));
      for (const { resolve } of due) resolve();
    }
    this.#work = undefined;
  }

  async #afterBlock(newest: BlockMark): Promise<void> {
    const { store } = this.#modules;
    const { address } = this.#options.signer;
    const sessions = store.sessions(address).filter(({ state }) => state.outcome === undefined);
    await this.#noteFees(sessions, newest);
    const asked = await this.#ask(sessions, newest);
    const wanted: Wanted = { claims: [], proofs: [] };
    for (const session of sessions) {
      if (this.#ended.signal.aborted) return;
      try {
        await this.#advance(session, asked, wanted);
      } catch (cause) {
        // One session that fails must not keep the others from being claimed.
        this.#log.error({ cause, session: session.name }, "a session could not be brought further");
      }
    }
    for (const session of sessions) {
      const settlementSearch = this.#searches.unstored(session);
      if (settlementSearch !== undefined) await this.#writeDown(session, { settlementSearch });
    }
    await this.#sendClaims(wanted.claims, asked);
    await this.#sendProofs(wanted.proofs, newest);
    await store.prune(address);
    await this.#watch(newest);
  }

  /** Asks what any of the sessions needs, each question once. */
  async #ask(sessions: readonly SessionEvidence[], newest: BlockMark): Promise<Asked> {
    const { queries } = this.#modules;
    const { signal } = this.#ended;
    const { heightBlocks } = newest;
    const needs = sessions.map((session) => ({
      session,
      needed: neededFacts(session.head, session.state, heightBlocks),
    }));
    const needsAny = (pick: (needed: NeededFacts) => boolean): boolean => needs.some(({ needed }) => pick(needed));
    const claims = needsAny(({ onChain }) => onChain)
      ? await queries.claims(this.#options.signer.address, signal)
      : undefined;
    if (claims?.ok === false) this.#log.warn({ text: claims.text }, "the chain's claims cannot be asked for");
    const needsParams = needsAny(({ isProofRequired }) => isProofRequired);
    const isChoosy = this.#options.skipUnprofitableClaims;
    const params = needsParams || isChoosy ? await queries.proofParams({ fresh: needsParams, signal }) : undefined;
    const needsGas = isChoosy || needsAny(({ claimGas }) => claimGas);
    const supplier = needsGas ? await queries.supplier(this.#options.signer.address, { signal }) : undefined;
    const answer = claims?.ok === true ? claims.value : undefined;
    const chainClaims =
      answer &&
      new Map(
        answer.claims.map(({ sessionHeader, rootHash, proofValidationStatus: status }) => [
          sessionHeader?.sessionId ?? "",
          { rootHash, status },
        ]),
      );
    const claimsHeightBlocks = answer?.heightBlocks ?? 0n;
    return {
      newest,
      claims: chainClaims,
      isWhole: answer?.isWhole ?? false,
      claimsHeightBlocks,
      proofParams: params?.ok === true ? params.value : undefined,
      supplier: supplier?.ok === true ? supplier.value : undefined,
      settlements: await this.#searches.advance({
        sessions: needs.filter(({ needed }) => needed.settlement).map(({ session }) => session),
        newestBlocks: heightBlocks,
        claims: chainClaims,
        claimsHeightBlocks,
      }),
    };
  }

  async #advance(session: SessionEvidence, asked: Asked, wanted: Wanted): Promise<void> {
    for (let step = 0; step < MAX_STEPS; step++) {
      await this.#checkEvidence(session, asked.newest.heightBlocks);
      const { inFlight, state, head } = session;
      const chain = await this.#factsOf(session, asked);
      const action = nextAction(head, state, chain, { inFlight, isUnwanted: this.#isUnwanted(session, asked) });
      switch (action.kind) {
        case "wait":
          return;
        case "claim":
          wanted.claims.push(session);
          return;
        case "prove":
          wanted.proofs.push(session);
          return;
        case "seal":
          await this.#seal(session);
          break;
        case "note":
          await this.#note(session, action.change);
      }
    }
    throw new AppError("INTERNAL", {
      message: "a session has more steps than there are",
      detail: { session: session.name },
    });
  }

  async #factsOf({ head, state }: SessionEvidence, asked: Asked): Promise<ChainFacts> {
    const { newest, claims, isWhole, claimsHeightBlocks, settlements } = asked;
    const { sessionId } = head.header;
    const claim = claims?.get(sessionId);
    const isKnown = claim !== undefined || (claims !== undefined && isWhole);
    const isAsked = neededFacts(head, state, newest.heightBlocks).isProofRequired;
    return {
      heightBlocks: newest.heightBlocks,
      onChain: isKnown ? { heightBlocks: claimsHeightBlocks, claim } : undefined,
      isProofRequired: isAsked ? await this.#isProofRequired(head, state, asked, claim) : undefined,
      settlement: settlements.get(sessionId),
    };
  }

  /**
   * Returns true when the chain requires a proof of the claim that it has. A requirement never lapses: current parameters decide
   * on the main network, those at the window's seed on this chain, and a missing proof costs more than a refused one.
   */
  async #isProofRequired(
    { operatorAddress, header, terms }: SessionHead,
    { claim, isProofRequired }: SessionState,
    { proofParams }: Asked,
    onChain: ChainClaim | undefined,
  ): Promise<boolean | undefined> {
    if (isProofRequired === true) return true;
    const thresholdUpokt = coinAmount(proofParams?.proofRequirementThreshold);
    if (claim === undefined || proofParams === undefined || thresholdUpokt === undefined) return undefined;
    const seedBlockHash = await this.#hashAt(terms.windows.proofOpenHeight - 1n);
    if (seedBlockHash === undefined) return undefined;
    const requirement = proofRequirement({
      claim: {
        supplierOperatorAddress: operatorAddress,
        sessionHeader: header,
        rootHash: claim.rootHash,
        // The chain samples the claim as it stands there.
        proofValidationStatus: onChain?.status ?? CLAIM_STATUS.pending,
      },
      claimedUpokt: claim.expectedUpokt,
      thresholdUpokt,
      requestProbability: proofParams.proofRequestProbability,
      seedBlockHash,
    });
    return requirement !== PROOF_REQUIREMENT.notRequired;
  }

  /** Hash of a block, from what was seen of the chain or from the node; undefined when it does not say. */
  async #hashAt(heightBlocks: bigint): Promise<Uint8Array | undefined> {
    const { head, client } = this.#modules;
    const known = head.at(heightBlocks)?.hash;
    if (known !== undefined) return hexToBytes(known.toLowerCase());
    if (heightBlocks > (head.newest?.heightBlocks ?? 0n)) return undefined;
    const answer = await client.call("block", { height: `${heightBlocks}` }, this.#ended.signal).catch(() => undefined);
    const id = answer?.ok === true ? answer.result.block_id : undefined;
    const hash = typeof id === "object" && id !== null && "hash" in id ? id.hash : undefined;
    return typeof hash === "string" ? hexToBytes(hash.toLowerCase()) : undefined;
  }

  #isUnwanted({ head, state: { claim } }: SessionEvidence, { proofParams, supplier }: Asked): boolean {
    if (!this.#options.skipUnprofitableClaims || claim === undefined) return false;
    const feeFor = this.#options.feeFor ?? usualFee;
    const sum = (gas: bigint): bigint => feeFor(gas).reduce((total, { amount }) => total + amount, 0n);
    const submissionFee = coinAmount(proofParams?.proofSubmissionFee) ?? 0n;
    const claimGas = CLAIM_GAS + extraGas(supplier, head);
    return claim.expectedUpokt < sum(claimGas) + sum(PROOF_GAS) + submissionFee;
  }

  /** Once after a start: what was sealed must still be what the log has, while another claim can be made. */
  async #checkEvidence(session: SessionEvidence, heightBlocks: bigint): Promise<void> {
    const { phase, isClaimSent } = session.state;
    if ((phase !== "sealed" && phase !== "claimed") || this.#checked.has(session.name)) return;
    this.#checked.add(session.name);
    if (heightBlocks > sendHeights(session.head.terms.windows).claimTo) return;
    try {
      if (await session.isWhole()) return;
      await session.reseal();
      this.#log.error({ session: session.name }, "relays of a sealed session are lost; what is left is claimed");
    } catch (cause) {
      if (!isAppError(cause, "EVIDENCE_DAMAGED")) {
        this.#checked.delete(session.name);
        throw cause;
      }
      this.#log.error({ cause, session: session.name }, "the relays of a sealed session cannot be read");
      if (isClaimSent === true) return;
      // A claim that cannot be proven costs a penalty where a proof is required.
      const text = "The relay log cannot be read, so that a claim of it could not be proven.";
      await this.#note(session, {
        phase: "lost",
        outcome: { kind: "lost", heightBlocks, why: "evidence-damaged", text, penaltyUpokt: 0n },
      });
    }
  }

  async #seal(session: SessionEvidence): Promise<void> {
    await this.#faults.reach("supplier.seal.begins");
    const { inFlight } = session;
    if (inFlight > 0) {
      this.#log.warn(
        { session: session.name, inFlight },
        "a session is claimed while relays of it are in flight; they are refused",
      );
    }
    const { relays, expectedUpokt } = await session.seal();
    this.#checked.add(session.name);
    this.#log.info({ session: session.name, relays, expectedUpokt }, "a session was sealed");
    await this.#faults.reach("supplier.sealed");
  }

  /** Changes what the log and the chain say again after a crash: a disk that fails keeps no transaction back. */
  async #writeDown(session: SessionEvidence, change: Omit<Partial<SessionState>, "claim">): Promise<void> {
    try {
      await session.update(change);
    } catch (cause) {
      this.#log.error({ cause, session: session.name }, "the state of a session cannot be written down");
    }
  }

  async #note(session: SessionEvidence, change: Partial<SessionState>): Promise<void> {
    const { outcome } = change;
    if (outcome === undefined) {
      await this.#writeDown(session, change);
      this.#log.debug({ session: session.name, phase: session.state.phase }, "a session is one step further");
      if (change.phase === "claimed") await this.#faults.reach("supplier.claimed");
      if (change.phase === "proven") await this.#faults.reach("supplier.proven");
      return;
    }
    await this.#writeDown(session, { ...change, finishedAtMs: this.#modules.clock.nowMs() });
    await session.unload();
    const { serviceId: service } = session.head.header;
    const expected = session.state.claim?.expectedUpokt ?? 0n;
    this.#metrics.count(supplierExpectedUpoktTotal, { service }, Number(expected));
    if (outcome.kind === "settled") {
      const received = Object.values(outcome.rewards).reduce((sum, amount) => sum + amount, 0n);
      this.#metrics.count(supplierSessionsTotal, { service, outcome: "settled" });
      this.#metrics.count(supplierSettledUpoktTotal, { service }, Number(outcome.settledUpokt));
      this.#metrics.count(supplierRewardsUpoktTotal, { service }, Number(received));
      this.#log.info(
        { session: session.name, service, expected, settledUpokt: outcome.settledUpokt, received },
        "a session was settled",
      );
    } else {
      const { why, text, penaltyUpokt } = outcome;
      this.#metrics.count(supplierSessionsTotal, { service, outcome: why });
      this.#metrics.count(supplierPenaltiesUpoktTotal, { service }, Number(penaltyUpokt));
      const fields = { session: session.name, service, why, text, expected, penaltyUpokt };
      if (expected === 0n) this.#log.info(fields, "a session earned nothing");
      else this.#log.error(fields, "a session was lost");
    }
    if (outcome.kind === "settled") await this.#faults.reach("supplier.settled");
  }

  async #sendClaims(sessions: readonly SessionEvidence[], { newest, supplier }: Asked): Promise<void> {
    const wanted: WantedMessage[] = [];
    for (const session of sessions) {
      const { head, state } = session;
      const { claim } = state;
      if (claim === undefined) continue;
      if (state.isClaimSent !== true) await this.#writeDown(session, { isClaimSent: true });
      await this.#faults.reach("supplier.claim.intended");
      const message = createMessage(proof.MsgCreateClaimSchema, {
        supplierOperatorAddress: head.operatorAddress,
        sessionHeader: head.header,
        rootHash: claim.rootHash,
      });
      const { claimFrom, claimTo } = sendHeights(head.terms.windows);
      wanted.push({
        fromBlocks: claimFrom,
        toBlocks: claimTo,
        valueUpokt: claim.expectedUpokt,
        extraGas: extraGas(supplier, head),
        key: `claim ${session.name} ${Buffer.from(claim.rootHash).toString("hex")}`,
        message: async () => packAny(proof.MsgCreateClaimSchema, message),
        isEarly: newest.heightBlocks < head.terms.windows.claimOpenHeight,
      });
    }
    await this.#txs.send("claim", wanted, newest);
  }

  async #sendProofs(sessions: readonly SessionEvidence[], newest: BlockMark): Promise<void> {
    const wanted = sessions.map((session): WantedMessage => {
      const { head } = session;
      const { proofOpenHeight } = head.terms.windows;
      const { proveFrom, proveTo } = sendHeights(head.terms.windows);
      return {
        fromBlocks: proveFrom,
        toBlocks: proveTo,
        key: `proof ${session.name}`,
        message: async () => {
          const seed = await this.#hashAt(proofOpenHeight - 1n);
          if (seed === undefined) return undefined;
          const bytes = await session.proof(proofPath(seed, head.header.sessionId)).catch((cause: unknown) => {
            this.#log.error({ cause, session: session.name }, "the evidence of a claim cannot be read");
            return undefined;
          });
          if (bytes === undefined) {
            this.#log.error({ session: session.name }, "a required proof cannot be made");
            return undefined;
          }
          const message = createMessage(proof.MsgSubmitProofSchema, {
            supplierOperatorAddress: head.operatorAddress,
            sessionHeader: head.header,
            proof: bytes,
          });
          return packAny(proof.MsgSubmitProofSchema, message);
        },
        isEarly: newest.heightBlocks < proofOpenHeight,
      };
    });
    await this.#txs.send("proof", wanted, newest);
  }

  /** Notes what transactions have cost, each session its part. */
  async #noteFees(sessions: readonly SessionEvidence[], newest: BlockMark): Promise<void> {
    for (const { keys, feeUpokt } of await this.#txs.reconcile(newest)) {
      const count = BigInt(keys.length);
      for (const [i, key] of keys.entries()) {
        const [, name] = key.split(" ");
        const session = sessions.find((one) => one.name === name);
        const part = feeUpokt / count + (BigInt(i) < feeUpokt % count ? 1n : 0n);
        if (session !== undefined) await this.#writeDown(session, { feesUpokt: session.state.feesUpokt + part });
      }
    }
  }

  /** Balance and figures. */
  async #watch({ heightBlocks }: BlockMark): Promise<void> {
    const { address } = this.#options.signer;
    const { queries, store } = this.#modules;
    const operator = address;
    this.#metrics.set(supplierClaimsHeightBlocks, Number(heightBlocks), { operator });
    const sessions = store.sessions(address);
    const phases = sessions.map(({ state }) => state.phase);
    for (const phase of ["open", "sealed", "claimed", "proven"] as const) {
      this.#metrics.set(supplierUnsettledSessions, phases.filter((one) => one === phase).length, { operator, phase });
    }
    const delayBlocks = sessions
      .filter(({ state }) => state.outcome === undefined)
      .reduce((longest, { head }) => Math.max(longest, Number(heightBlocks - head.terms.windows.settlementHeight)), 0);
    this.#metrics.set(supplierSettlementDelayBlocks, delayBlocks, { operator });
    const balance = await queries.balance(address, { signal: this.#ended.signal });
    if (!balance.ok) return;
    this.#metrics.set(supplierBalanceUpokt, Number(balance.value), { operator });
    const lowUpokt = this.#options.minBalanceUpokt;
    const isLow = balance.value < lowUpokt;
    if (isLow && !this.#isLow) {
      this.#log.error(
        { balanceUpokt: balance.value, lowUpokt },
        "an operator's coins run out: without fees nothing is claimed or proven",
      );
    }
    this.#isLow = isLow;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort();
    this.#listening[Symbol.dispose]();
    await this.#work;
    for (const { resolve } of this.#waiters) resolve();
  }
}
