import { type ChainAnswer, coinAmount, type PocketQueries } from "@turnpike/chain-client";
import type { application as applications, shared } from "@turnpike/proto";
import { numPendingSessions, type SessionHeader, sessionAt, sessionWindows } from "@turnpike/protocol";
import type { SessionWork } from "../evidence/types.ts";
import { claimableRelays, type EarlierSessions, type SessionBudget } from "./session-budget.ts";

export interface BudgetReaderOptions {
  /** Share that settlement mints on top of each claim, in millionths, as an upper bound. */
  readonly inflationMillionths: bigint;
  /** Percentage of an application's stake that is worked for while earlier sessions are not settled. */
  readonly unsettledPercent: number;
}

export interface BudgetReaderModules {
  readonly queries: PocketQueries;
  /** Work of an operator for an application in the sessions with an end, from its evidence. */
  readonly workOf: (operatorAddress: string, applicationAddress: string, endHeight: bigint) => readonly SessionWork[];
}

/** Session whose budget is read. */
export interface BudgetSubject {
  readonly operatorAddress: string;
  readonly header: SessionHeader;
  /** Application as it is in the session. */
  readonly application: applications.Application;
  /** Suppliers of the session. */
  readonly suppliers: number;
  readonly params: shared.Params;
}

/** Session of the same operator and application that began before, and that this process serves. */
export interface OpenBudget {
  readonly header: SessionHeader;
  readonly budget: SessionBudget;
}

/** Limit of a session's relays by a state of the chain. */
export interface BudgetLimit {
  readonly relays: bigint;
  /** True when nothing is open that could raise it. */
  readonly isFinal: boolean;
}

/** More ends than this are not counted one by one: parameters of the chain with such windows leave no budget. */
const MAX_EARLIER_ENDS = 32;

interface Price {
  readonly unitsPerRelay: bigint;
  readonly params: shared.Params;
}

/** Reads from the chain and the evidence how many relays of a session the application can pay for. */
export class BudgetReader {
  readonly #options: BudgetReaderOptions;
  readonly #modules: BudgetReaderModules;

  constructor(options: BudgetReaderOptions, modules: BudgetReaderModules) {
    this.#options = options;
    this.#modules = modules;
  }

  /** Reads a session's limit. A chain that does not answer, or an amount that is none, is an answer without a limit. */
  async limit(subject: BudgetSubject, open: readonly OpenBudget[]): Promise<ChainAnswer<BudgetLimit>> {
    const { queries } = this.#modules;
    const { header, params, application, suppliers } = subject;
    const units = await queries.computeUnitsAt(header.serviceId, header.sessionStartBlockHeight);
    if (!units.ok) return units;
    // Stake and settled sessions are of one state: a settled session must be counted neither twice nor not at all.
    const newest = await queries.applicationState(application.address);
    if (!newest.ok) return newest;
    const stakeUpokt = coinAmount(newest.value.application.stake);
    const { perSessionSpendLimit } = application;
    const spendLimitUpokt = coinAmount(perSessionSpendLimit);
    if (stakeUpokt === undefined || spendLimitUpokt === undefined) {
      return { ok: false, fault: "unreachable", text: `Stake or spend limit of ${application.address} is no amount.` };
    }
    const earlier = await this.#earlier(subject, newest.value.heightBlocks, open);
    if (!earlier.ok) return earlier;
    const relays = claimableRelays({
      applicationStakeUpokt: stakeUpokt,
      earlier: earlier.value,
      unsettledPercent: this.#options.unsettledPercent,
      perSessionSpendLimitUpokt: perSessionSpendLimit === undefined ? undefined : spendLimitUpokt,
      pendingSessions: numPendingSessions(params),
      services: Math.max(1, application.serviceConfigs.length),
      suppliers,
      inflationMillionths: this.#options.inflationMillionths,
      computeUnitsPerRelay: units.value,
      computeUnitsToTokensMultiplier: params.computeUnitsToTokensMultiplier,
      computeUnitCostGranularity: params.computeUnitCostGranularity,
    });
    return { ok: true, value: { relays, isFinal: earlier.value.length === 0 } };
  }

  /** Sessions that end before the subject begins and are not settled at a height, the earliest first. */
  async #earlier(
    subject: BudgetSubject,
    heightBlocks: bigint,
    open: readonly OpenBudget[],
  ): Promise<ChainAnswer<readonly EarlierSessions[]>> {
    const sessions: EarlierSessions[] = [];
    let end = subject.header.sessionStartBlockHeight - 1n;
    for (let ends = 0; end > 0n && ends < MAX_EARLIER_ENDS; ends++) {
      const params = await this.#modules.queries.sharedParamsAt(end);
      if (!params.ok) return params;
      if (sessionWindows(params.value, end).settlementHeight <= heightBlocks) break;
      const one = await this.#earlierAt(subject, end, params.value, open);
      if (!one.ok) return one;
      sessions.unshift(one.value);
      end = sessionAt(params.value, end).startHeight - 1n;
    }
    return { ok: true, value: sessions };
  }

  async #earlierAt(
    { operatorAddress, header, application, suppliers }: BudgetSubject,
    endHeight: bigint,
    params: shared.Params,
    open: readonly OpenBudget[],
  ): Promise<ChainAnswer<EarlierSessions>> {
    const { queries, workOf } = this.#modules;
    let ownUpokt = 0n;
    for (const work of workOf(operatorAddress, header.applicationAddress, endHeight)) {
      if (work.claimedUpokt !== undefined) {
        ownUpokt += this.#withInflation(work.claimedUpokt);
        continue;
      }
      const { serviceId, sessionStartBlockHeight: start, sessionId } = work.header;
      const units = await queries.computeUnitsAt(serviceId, start);
      if (!units.ok) return units;
      // A session that is still served may use all of its budget.
      const budget = open.find((one) => one.header.sessionId === sessionId)?.budget;
      const relays = budget === undefined ? work.relays : budget.limitRelays;
      ownUpokt += this.#withInflation(relaysUpokt(relays, { unitsPerRelay: units.value, params }));
    }
    const pendingSessions = numPendingSessions(params);
    // Only a supplier that is alone now is likely to have been: the others' sessions are not read.
    if (suppliers > 1 || application.serviceConfigs.length > 1) {
      return { ok: true, value: { pendingSessions, ownUpokt, isAlone: false } };
    }
    const session = await queries.session(header.applicationAddress, header.serviceId, endHeight);
    if (!session.ok && session.fault !== "refused") return session;
    const others = session.ok
      ? session.value.suppliers.filter((supplier) => supplier.operatorAddress !== operatorAddress)
      : [];
    return { ok: true, value: { pendingSessions, ownUpokt, isAlone: others.length === 0 } };
  }

  #withInflation(upokt: bigint): bigint {
    return upokt + (upokt * this.#options.inflationMillionths + 999_999n) / 1_000_000n;
  }
}

/** Worth of relays, rounded up. */
function relaysUpokt(relays: bigint, { unitsPerRelay, params }: Price): bigint {
  const { computeUnitsToTokensMultiplier: multiplier, computeUnitCostGranularity: granularity } = params;
  return (relays * unitsPerRelay * multiplier + granularity - 1n) / granularity;
}
