import { AppError } from "@turnpike/base";
import { unbondingEndHeight } from "../sessions/activation.ts";
import { sessionAt } from "../sessions/grid.ts";
import { numPendingSessions } from "../sessions/windows.ts";
import { type AggregatedOperation, aggregateOperations } from "./aggregate.ts";
import { addToBudget, capClaim, newSessionBudget, type SessionBudget, stakeCostUpokt } from "./budget.ts";
import { discardedEvent, expiredEvent, overservicedEvent, settledEvent } from "./claim-events.ts";
import { type PricedClaim, priceClaim, workFault } from "./claim-stage.ts";
import type { SettlementEvent } from "./events.ts";
import { type ClaimResult, runTokenLogicModules, type SettlementRates } from "./modules.ts";
import { settlementRates } from "./rates.ts";
import { coinText, OP_REASON, type ValidatorPool } from "./reasons.ts";
import type { Settlement, SettlementStep } from "./settlement.ts";
import { slashSupplier } from "./slash.ts";
import type {
  DueClaim,
  Operation,
  SettlementApplication,
  SettlementInput,
  SettlementSupplier,
  TokenomicsParams,
} from "./types.ts";
import { distributeValidatorRewards } from "./validators.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const POOLS: readonly ValidatorPool[] = [
  OP_REASON.TLM_RELAY_BURN_EQUALS_MINT_VALIDATOR_REWARD_DISTRIBUTION,
  OP_REASON.TLM_GLOBAL_MINT_VALIDATOR_REWARD_DISTRIBUTION,
];

function mintedUpokt(operations: readonly Operation[]): bigint {
  return operations.reduce((sum, { kind, amountUpokt }) => (kind === "mint" ? sum + amountUpokt : sum), 0n);
}

const sessionName = ({ claim: { sessionHeader } }: DueClaim): string =>
  `${sessionHeader.applicationAddress}/${sessionHeader.sessionId}`;

/** Settlement under way: what is read once, and what every claim adds to. */
class Run {
  readonly #input: SettlementInput;
  /** By the parameters that they were read of, which the claims of a session share. */
  readonly #rates = new Map<TokenomicsParams, SettlementRates>();
  readonly #applications = new Map<string, Mutable<SettlementApplication>>();
  readonly #suppliers = new Map<string, Mutable<SettlementSupplier>>();
  readonly #stakes = new Map<string, bigint>();
  readonly #budgets = new Map<string, SessionBudget>();
  readonly #pools = new Map<ValidatorPool, bigint>();
  readonly #steps: SettlementStep[] = [];
  readonly #settled: ClaimResult[] = [];
  readonly #expired: DueClaim[] = [];
  readonly #relays = new Map<string, bigint>();
  #discarded = 0;
  #minted = 0n;

  constructor(input: SettlementInput) {
    this.#input = input;
  }

  run(): Settlement {
    const { claims } = this.#input;
    const sessions = new Map<string, DueClaim[]>();
    for (const due of claims) {
      const some = sessions.get(sessionName(due));
      if (some === undefined) sessions.set(sessionName(due), [due]);
      else some.push(due);
    }
    // Each session's budget is of the stake that earlier ones leave that are settled in this block, too.
    for (const [, some] of sessions) this.#settleSession(some);
    this.#payValidators();
    this.#carryOut(aggregateOperations(this.#settled.flatMap(({ operations }) => operations)));
    for (const due of this.#expired) this.#slash(due);
    return this.#finish();
  }

  #emit(event: SettlementEvent): void {
    this.#steps.push({ kind: "event", event });
  }

  #ratesOf({ tokenomics }: DueClaim): SettlementRates {
    const rates = this.#rates.get(tokenomics) ?? settlementRates(tokenomics);
    this.#rates.set(tokenomics, rates);
    return rates;
  }

  #settleSession(claims: readonly DueClaim[]): void {
    const prepared = claims.map((due) => this.#prepare(due, claims.length));
    for (const [at, due] of claims.entries()) {
      const ready = prepared[at] ?? { error: "" };
      const error = "error" in ready ? ready.error : this.#settleClaim(ready);
      if (error !== undefined) this.#discard(due, error);
    }
  }

  /** Loads a claim's actors, prices it and counts it into its session's budget. */
  #prepare(due: DueClaim, numClaims: number): PricedClaim | { readonly error: string } {
    const missing = this.#load(due);
    if (missing !== undefined) return { error: missing };
    const priced = priceClaim(due);
    if ("error" in priced || !priced.settles) return priced;
    addToBudget(this.#budget(due, numClaims), stakeCostUpokt(priced.claimedUpokt, this.#ratesOf(due).inflation));
    return priced;
  }

  #load({ claim, serviceOwnerAddress }: DueClaim): string | undefined {
    const { applicationAddress, serviceId } = claim.sessionHeader;
    if (serviceOwnerAddress === undefined) {
      return `service with ID ${JSON.stringify(serviceId)} not found: service not found`;
    }
    if (!this.#applications.has(applicationAddress)) {
      const application = this.#input.applications.get(applicationAddress);
      if (application === undefined) return "application not found";
      this.#applications.set(applicationAddress, { ...application });
    }
    const known = this.#suppliers.get(claim.supplierOperatorAddress);
    const supplier = this.#input.suppliers.get(claim.supplierOperatorAddress);
    if (supplier === undefined) return "supplier not found";
    // Of a supplier's services only those of its claims are looked up, and so only those are in its events.
    if (known?.services.some((service) => service.serviceId === serviceId) === true) return undefined;
    const services = supplier.services.filter((service) => service.serviceId === serviceId);
    if (known === undefined) this.#suppliers.set(claim.supplierOperatorAddress, { ...supplier, services });
    else known.services = [...known.services, ...services];
    return undefined;
  }

  /** An application's stake before its sessions of one end are settled: those of several services share it. */
  #stakeBefore({ claim }: DueClaim): bigint {
    const { applicationAddress, sessionEndBlockHeight } = claim.sessionHeader;
    const name = `${applicationAddress}/${sessionEndBlockHeight}`;
    const stake = this.#stakes.get(name) ?? this.#applications.get(applicationAddress)?.stakeUpokt ?? 0n;
    this.#stakes.set(name, stake);
    return stake;
  }

  #budget(due: DueClaim, numClaims: number): SessionBudget {
    const name = sessionName(due);
    const budget =
      this.#budgets.get(name) ??
      newSessionBudget({
        stakeUpokt: this.#stakeBefore(due),
        pendingSessions: numPendingSessions(due.windows) * due.numServices,
        numClaims: BigInt(numClaims),
        spendLimitUpokt: due.spendLimitUpokt,
      });
    this.#budgets.set(name, budget);
    return budget;
  }

  /** Settles or expires one claim; an error text when it has to be discarded. */
  #settleClaim(priced: PricedClaim): string | undefined {
    const { due } = priced;
    const { claim } = due;
    if (!priced.settles) {
      this.#emit(expiredEvent(priced));
      this.#expired.push(due);
      return undefined;
    }
    const fault = workFault(priced);
    if (fault !== undefined) return fault;
    const { applicationAddress, serviceId } = claim.sessionHeader;
    const application = this.#applications.get(applicationAddress);
    const supplier = this.#suppliers.get(claim.supplierOperatorAddress);
    const { serviceOwnerAddress } = due;
    if (application === undefined || supplier === undefined || serviceOwnerAddress === undefined) {
      return "application not found";
    }
    const rates = this.#ratesOf(due);

    const capped = this.#cap(priced);
    const { settledUpokt } = capped;
    const result: ClaimResult = { due, operations: [] };
    // What a claim does is done on drafts, so that one that is discarded half-way has done nothing. The real chain keeps
    // what it took off the application's record and paid to the pools: coins stay locked, and where money lacks it halts.
    const events: SettlementEvent[] = [...capped.events];
    const draft = { ...application };
    const pools = new Map(this.#pools);
    if (settledUpokt > 0n) {
      const error = runTokenLogicModules({
        due,
        settledUpokt,
        application: draft,
        supplier,
        service: { id: serviceId, ownerAddress: serviceOwnerAddress },
        rates,
        result,
        pools,
        emit: (event) => events.push(event),
      });
      if (error !== undefined) return error;
      const minted = mintedUpokt(result.operations);
      const room = this.#input.mintRoomUpokt;
      if (room !== undefined && this.#minted + minted > room) return "the supply would leave its bounds";
      this.#minted += minted;
      for (const [pool, amount] of pools) this.#pools.set(pool, amount);
      application.stakeUpokt = draft.stakeUpokt;
    }
    for (const event of events) this.#emit(event);
    if (settledUpokt > 0n) this.#unbondBelowMinimum(application);
    const supplierOwnerAddress = supplier.ownerAddress;
    this.#emit(settledEvent({ priced, settledUpokt, result, rates, supplierOwnerAddress }));
    this.#settled.push(result);
    const relays = (this.#relays.get(serviceId) ?? 0n) + priced.root.count;
    this.#relays.set(serviceId, BigInt.asUintN(64, relays));
    return undefined;
  }

  /** What a claim gets, and the event that says so when it is less than it asks. */
  #cap(priced: PricedClaim): { readonly settledUpokt: bigint; readonly events: readonly SettlementEvent[] } {
    const { claim } = priced.due;
    const budget = this.#budgets.get(sessionName(priced.due));
    if (budget === undefined) throw new AppError("INTERNAL", { detail: { budgetOf: claim.sessionHeader.sessionId } });
    const { overservicingBonusMultiplier: multiplier } = priced.due.tokenomics;
    const { inflation } = this.#ratesOf(priced.due);
    const { settledUpokt, overserviced } = capClaim(budget, priced.claimedUpokt, inflation, multiplier);
    const events = overserviced === undefined ? [] : [overservicedEvent(claim, overserviced, budget)];
    return { settledUpokt, events };
  }

  // @NOTE the event is repeated with every claim of the block. One that unbonded before keeps its height: the real chain
  // moves it on, and lets the application into sessions again.
  #unbondBelowMinimum(application: Mutable<SettlementApplication>): void {
    if (application.stakeUpokt >= this.#input.minApplicationStakeUpokt) return;
    if (this.#input.applications.get(application.address)?.unstakeSessionEndHeight !== 0n) return;
    const sessionEndHeight = sessionAt(this.#input.shared, this.#input.height).endHeight;
    application.unstakeSessionEndHeight = sessionEndHeight;
    this.#emit({
      type: "pocket.application.EventApplicationUnbondingBegin",
      value: {
        application: { ...application },
        reason: 1,
        sessionEndHeight,
        unbondingEndHeight: unbondingEndHeight("application", this.#input.shared, sessionEndHeight),
      },
    });
  }

  #discard(due: DueClaim, cause: string): void {
    this.#discarded++;
    this.#emit(discardedEvent(due, cause));
  }

  // Batches bear the session end of the first settled claim, whichever sessions they hold.
  get #batchSessionEndHeight(): bigint {
    return this.#settled[0]?.due?.claim.sessionHeader.sessionEndBlockHeight ?? 0n;
  }

  #payValidators(): void {
    const sessionEndHeight = this.#batchSessionEndHeight;
    const operations: Operation[] = [];
    for (const pool of POOLS) {
      const total = this.#pools.get(pool) ?? 0n;
      const { validators } = this.#input;
      const dao = this.#input.daoRewardAddress;
      const { transfers, events } = distributeValidatorRewards(validators, total, pool, sessionEndHeight, dao);
      for (const transfer of transfers) operations.push(transfer);
      for (const event of events) this.#emit(event);
    }
    if (operations.length > 0) this.#settled.push({ due: undefined, operations });
  }

  #carryOut(batches: readonly AggregatedOperation[]): void {
    const sessionEndBlockHeight = this.#batchSessionEndHeight;
    for (const { operation, numClaims } of batches) {
      if (operation.amountUpokt === 0n) continue;
      const moves = operation.kind === "mod_to_mod" || operation.kind === "mod_to_acct";
      this.#steps.push({ kind: "operation", operation });
      this.#emit({
        type: "pocket.tokenomics.EventSettlementBatch",
        value: {
          sessionEndBlockHeight,
          senderModule: moves ? operation.sender : operation.module,
          recipient: moves ? operation.recipient : "",
          opReason: operation.reason,
          totalAmount: coinText(operation.amountUpokt),
          numClaims,
          opType: operation.kind,
        },
      });
    }
  }

  #slash(due: DueClaim): void {
    const { claim } = due;
    const supplier = this.#suppliers.get(claim.supplierOperatorAddress);
    if (supplier === undefined) return;
    const slash = slashSupplier(supplier, due, this.#input);
    this.#suppliers.set(claim.supplierOperatorAddress, { ...slash.supplier });
    for (const operation of slash.operations) this.#steps.push({ kind: "operation", operation });
    for (const event of slash.events) this.#emit(event);
  }

  #finish(): Settlement {
    const operations = this.#steps.flatMap((step) => (step.kind === "operation" ? [step.operation] : []));
    const events = this.#steps.flatMap((step) => (step.kind === "event" ? [step.event] : []));
    return {
      steps: this.#steps,
      operations,
      events,
      changes: {
        applications: [...this.#applications.values()],
        suppliers: [...this.#suppliers.values()],
        removedClaims: this.#input.claims.map(({ claim }) => ({
          sessionId: claim.sessionHeader.sessionId,
          supplierOperatorAddress: claim.supplierOperatorAddress,
        })),
      },
      settledRelays: [...this.#relays]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([serviceId, numRelays]) => ({ serviceId, numRelays })),
      numSettled: this.#settled.filter(({ due }) => due !== undefined).length,
      numExpired: this.#expired.length,
      numDiscarded: this.#discarded,
    };
  }
}

/**
 * Settles every claim that is due in a block. Pure: it reads its input alone, and changes nothing of it. Claims are
 * counted first, then priced into their sessions' budgets, then settled or expired in order; then validators are paid,
 * the added-up operations carried out, and suppliers slashed, in the order of the chain's own end of block.
 */
export function settle(input: SettlementInput): Settlement {
  return new Run(input).run();
}
