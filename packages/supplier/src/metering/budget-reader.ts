import { type ChainAnswer, coinAmount, type PocketQueries } from "@turnpike/chain-client";
import type { application as applications, shared } from "@turnpike/proto";
import {
  activeApplicationConfigs,
  numPendingSessions,
  type SessionHeader,
  sessionAt,
  sessionWindows,
} from "@turnpike/protocol";
import { claimableRelays, type EarlierSessions, type SessionBudget } from "./session-budget.ts";

export interface BudgetReaderOptions {
  /** Share that settlement mints on top of each claim, in millionths, as an upper bound. */
  readonly inflationMillionths: bigint;
  /** Percentage of an application's stake that is worked for while earlier sessions are not settled. */
  readonly unsettledPercent: number;
}

export interface BudgetReaderModules {
  readonly queries: PocketQueries;
  /** Work of an operator for an application in all of its sessions, from its evidence. */
  readonly workOf: (operatorAddress: string, applicationAddress: string) => Promise<readonly SessionWork[]>;
}

/** Work of one session, as far as it is known. */
export interface SessionWork {
  readonly header: SessionHeader;
  /** Relays that were served, or are being served. */
  readonly relays: bigint;
  /** Worth of its claim before the chain's caps, since it was sealed; zero where there is nothing to claim. */
  readonly claimedUpokt: bigint | undefined;
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
  /** True when no later state can raise it. */
  readonly isFinal: boolean;
}

/** Ends that are looked at. Where more are not settled, nothing of the stake is sure. */
const MAX_EARLIER_ENDS = 64;

interface Price {
  readonly unitsPerRelay: bigint;
  readonly params: shared.Params;
}

/** Facts that the earlier sessions of a subject are counted by. */
interface EarlierFacts {
  readonly subject: BudgetSubject;
  /** Application in the newest state. */
  readonly record: applications.Application;
  readonly open: readonly OpenBudget[];
  readonly work: readonly SessionWork[];
}

/** Reads from the chain and the evidence how many relays of a session the application can pay for. */
export class BudgetReader {
  readonly #options: BudgetReaderOptions;
  readonly #modules: BudgetReaderModules;
  /** Maximum number of blocks from a session's end to its settlement, of all parameters that were read. */
  #maxSettlementBlocks = 0n;

  constructor(options: BudgetReaderOptions, modules: BudgetReaderModules) {
    this.#options = options;
    this.#modules = modules;
  }

  /** Reads a session's limit. An unreachable chain, or an invalid amount, is an answer without a limit. */
  async limit(subject: BudgetSubject, open: readonly OpenBudget[]): Promise<ChainAnswer<BudgetLimit>> {
    const { queries, workOf } = this.#modules;
    const { operatorAddress, header, params, application, suppliers } = subject;
    const start = header.sessionStartBlockHeight;
    const work = await workOf(operatorAddress, header.applicationAddress);
    // A later session was served before a restart: its limit was read without more of this one's.
    if (work.some((later) => later.header.sessionStartBlockHeight > start && later.relays > 0n)) {
      return { ok: true, value: { relays: 0n, isFinal: true } };
    }
    const units = await queries.computeUnitsAt(header.serviceId, start);
    if (!units.ok) return units;
    // Stake and settled sessions are of one state: a settled session must be counted neither twice nor not at all.
    const state = await queries.applicationState(application.address);
    if (!state.ok) return state;
    const { application: record, heightBlocks } = state.value;
    const stakeUpokt = coinAmount(record.stake);
    const { perSessionSpendLimit } = application;
    const spendLimitUpokt = coinAmount(perSessionSpendLimit);
    if (stakeUpokt === undefined || spendLimitUpokt === undefined) {
      return { ok: false, fault: "unreachable", text: `Invalid stake or spend limit of ${application.address}.` };
    }
    const earlier = await this.#earlier({ subject, record, open, work }, heightBlocks);
    if (!earlier.ok) return earlier;
    const relays = claimableRelays({
      applicationStakeUpokt: stakeUpokt,
      earlier: earlier.value,
      unsettledPercent: this.#options.unsettledPercent,
      perSessionSpendLimitUpokt: perSessionSpendLimit === undefined ? undefined : spendLimitUpokt,
      pendingSessions: numPendingSessions(params),
      services: Math.max(1, servicesAt(record, start).length),
      suppliers,
      inflationMillionths: this.#options.inflationMillionths,
      computeUnitsPerRelay: units.value,
      computeUnitsToTokensMultiplier: params.computeUnitsToTokensMultiplier,
      computeUnitCostGranularity: params.computeUnitCostGranularity,
    });
    return { ok: true, value: { relays, isFinal: earlier.value.length === 0 } };
  }

  /**
   * Sessions that end before the subject begins and are not settled at a height, in the order of their ends. Where the windows
   * were shortened, a session waits for earlier ones, which are settled first.
   */
  async #earlier(facts: EarlierFacts, heightBlocks: bigint): Promise<ChainAnswer<readonly EarlierSessions[]>> {
    const sessions: EarlierSessions[] = [];
    let waitingEnds: { readonly end: bigint; readonly params: shared.Params }[] = [];
    let end = facts.subject.header.sessionStartBlockHeight - 1n;
    for (let ends = 0; end > 0n; ends++) {
      const params = await this.#modules.queries.sharedParamsAt(end);
      if (!params.ok) return params;
      const { settlementHeight } = sessionWindows(params.value, end);
      const isSettled = settlementHeight <= heightBlocks;
      if (settlementHeight - end > this.#maxSettlementBlocks) this.#maxSettlementBlocks = settlementHeight - end;
      if (isSettled && (end + this.#maxSettlementBlocks <= heightBlocks || ends >= MAX_EARLIER_ENDS)) break;
      if (ends >= MAX_EARLIER_ENDS) {
        sessions.unshift({ pendingSessions: 1n, ownUpokt: 0n, isAlone: false });
        break;
      }
      waitingEnds.push({ end, params: params.value });
      if (!isSettled) {
        for (const session of waitingEnds) {
          const earlier = await this.#earlierAt(facts, session.end, session.params);
          if (!earlier.ok) return earlier;
          sessions.unshift(earlier.value);
        }
        waitingEnds = [];
      }
      end = sessionAt(params.value, end).startHeight - 1n;
    }
    return { ok: true, value: sessions };
  }

  async #earlierAt(
    { subject, record, open, work }: EarlierFacts,
    endHeight: bigint,
    params: shared.Params,
  ): Promise<ChainAnswer<EarlierSessions>> {
    const { queries } = this.#modules;
    const ofEnd = ({ header }: { readonly header: SessionHeader }) => header.sessionEndBlockHeight === endHeight;
    // A session that is still served may use all of its budget.
    const served = open
      .filter(ofEnd)
      .map(({ header, budget }): SessionWork => ({ header, relays: budget.limitRelays, claimedUpokt: undefined }));
    const ended = work.filter(
      (session) => ofEnd(session) && !served.some(({ header }) => header.sessionId === session.header.sessionId),
    );
    let ownUpokt = 0n;
    for (const session of [...served, ...ended]) {
      if (session.claimedUpokt !== undefined) {
        ownUpokt += this.#withInflation(session.claimedUpokt);
        continue;
      }
      const { serviceId, sessionStartBlockHeight: start } = session.header;
      const units = await queries.computeUnitsAt(serviceId, start);
      if (!units.ok) return units;
      ownUpokt += this.#withInflation(relaysUpokt(session.relays, { unitsPerRelay: units.value, params }));
    }
    const others = await this.#hasOthers(subject, record, endHeight);
    if (!others.ok) return others;
    return { ok: true, value: { pendingSessions: numPendingSessions(params), ownUpokt, isAlone: !others.value } };
  }

  /** True when another supplier can claim of an application's sessions with an end. */
  async #hasOthers(
    { operatorAddress, suppliers }: BudgetSubject,
    record: applications.Application,
    endHeight: bigint,
  ): Promise<ChainAnswer<boolean>> {
    const [serviceId, ...more] = servicesAt(record, endHeight);
    // Only a supplier that is alone now is likely to have been: the others' sessions are not read.
    if (suppliers > 1 || serviceId === undefined || more.length > 0) return { ok: true, value: true };
    const session = await this.#modules.queries.session(record.address, serviceId, endHeight);
    if (session.ok) {
      const isOther = (supplier: shared.Supplier): boolean => supplier.operatorAddress !== operatorAddress;
      return { ok: true, value: session.value.suppliers.some(isOther) };
    }
    // There was no session, such as for lack of suppliers.
    return session.fault === "refused" ? { ok: true, value: false } : session;
  }

  #withInflation(upokt: bigint): bigint {
    return upokt + (upokt * this.#options.inflationMillionths + 999_999n) / 1_000_000n;
  }
}

/** Services that an application was staked for at a height: it had a session for each. */
function servicesAt(record: applications.Application, heightBlocks: bigint): string[] {
  const { serviceConfigs, serviceConfigHistory } = record;
  return activeApplicationConfigs(serviceConfigs, serviceConfigHistory, heightBlocks).map(({ serviceId }) => serviceId);
}

/** Worth of relays, rounded up. */
function relaysUpokt(relays: bigint, { unitsPerRelay, params }: Price): bigint {
  const { computeUnitsToTokensMultiplier: multiplier, computeUnitCostGranularity: granularity } = params;
  return (relays * unitsPerRelay * multiplier + granularity - 1n) / granularity;
}
