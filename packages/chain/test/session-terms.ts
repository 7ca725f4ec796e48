import assert from "node:assert/strict";
import type { shared, tokenomics } from "@turnpike/proto";
import { sessionAt } from "@turnpike/protocol";
import { getComputeUnitsPerRelayAt, services } from "../src/modules/service/state.ts";
import { getSharedParamsAt } from "../src/modules/shared/state.ts";
import { getActiveServiceConfig } from "../src/modules/supplier/state.ts";
import { getTokenomicsParams } from "../src/modules/tokenomics/state.ts";
import type { Context } from "../src/state/context.ts";

const MILLION = 1_000_000n;

/** Records that decide what a session pays, as they are at the session's beginning. */
export interface SessionTerms {
  readonly startHeight: bigint;
  readonly pricing: shared.Params;
  /** Compute units of a relay by service. */
  readonly units: ReadonlyMap<string, bigint>;
  /** Shares of rewards by operator address and service. */
  readonly shares: ReadonlyMap<string, readonly shared.ServiceRevenueShare[]>;
  /** Owners of services, after the session's first block. */
  readonly owners: ReadonlyMap<string, string>;
  /** Parameters of settlement, after the session's first block. */
  readonly tokenomics: tokenomics.Params;
}

/** Terms of sessions, copied from the state when each session begins: settlement must pay by them, whatever is changed later. */
export class TermsLog {
  readonly #byEnd = new Map<bigint, SessionTerms>();
  readonly #operators: () => readonly string[];
  #firstTerms: Omit<SessionTerms, "owners" | "tokenomics"> | undefined;

  constructor(operators: () => readonly string[]) {
    this.#operators = operators;
  }

  /** Notes what holds from a session's first height on. Call before the messages of each block. */
  beginBlock(ctx: Context): void {
    const { heightBlocks: height } = ctx.block;
    const pricing = getSharedParamsAt(ctx, height);
    this.#firstTerms = undefined;
    if (sessionAt(pricing, height).startHeight !== height) return;
    const units = new Map<string, bigint>();
    const shares = new Map<string, readonly shared.ServiceRevenueShare[]>();
    for (const [serviceId] of services.entries(ctx)) {
      units.set(serviceId, getComputeUnitsPerRelayAt(ctx, serviceId, height) ?? 0n);
      for (const operatorAddress of this.#operators()) {
        const config = getActiveServiceConfig(ctx, { operatorAddress, serviceId, height });
        shares.set(`${operatorAddress}/${serviceId}`, config?.service?.revShare ?? []);
      }
    }
    this.#firstTerms = { startHeight: height, pricing, units, shares };
  }

  /** Notes what holds after a session's first block. Call after each block. */
  endBlock(ctx: Context): void {
    const terms = this.#firstTerms;
    if (terms === undefined) return;
    const owners = new Map([...services.entries(ctx)].map(([id, { ownerAddress }]) => [id, ownerAddress]));
    const { endHeight } = sessionAt(terms.pricing, terms.startHeight);
    this.#byEnd.set(endHeight, { ...terms, owners, tokenomics: getTokenomicsParams(ctx) });
  }

  /** Terms of the sessions with an end. */
  of(endHeight: bigint): SessionTerms {
    const terms = this.#byEnd.get(endHeight);
    assert.ok(terms !== undefined, `no terms of the sessions that end at ${endHeight}`);
    return terms;
  }
}

/** Claim of a session, and the amount that it was settled for. */
export interface SettledWork {
  readonly applicationAddress: string;
  readonly operatorAddress: string;
  readonly serviceId: string;
  readonly settledUpokt: bigint;
}

/** Everything that a settled claim pays. */
export interface Payments {
  readonly accounts: ReadonlyMap<string, bigint>;
  /** Parts of the validators: of what is minted again, and of the inflation. */
  readonly pools: readonly [minted: bigint, inflation: bigint];
  readonly mintedUpokt: bigint;
  readonly inflationUpokt: bigint;
}

const millionths = (value: number): bigint => BigInt(Math.round(value * 1e6));

/** Inflation of an amount: rounded up. */
export function inflationOf({ tokenomics: { globalInflationPerClaim } }: SessionTerms, settledUpokt: bigint): bigint {
  return (settledUpokt * millionths(globalInflationPerClaim) + MILLION - 1n) / MILLION;
}

/** Worth of relays: of the base difficulty. */
export function worthOfRelays({ pricing }: SessionTerms, relays: bigint, unitsPerRelay: bigint): bigint {
  const { computeUnitsToTokensMultiplier: multiplier, computeUnitCostGranularity: granularity } = pricing;
  return (relays * unitsPerRelay * multiplier) / granularity;
}

/**
 * Payments of a settled claim by the terms of its session: the application's stake pays the amount, which is burned, and its
 * inflation, which goes to the DAO; the mint ratio of the amount, and the inflation, are minted and shared out.
 */
export function paymentsOf(terms: SessionTerms, work: SettledWork): Payments {
  const { mintRatio, daoRewardAddress, mintAllocationPercentages, mintEqualsBurnClaimDistribution } = terms.tokenomics;
  const accounts = new Map<string, bigint>();
  const pay = (address: string, amount: bigint): void => {
    if (amount > 0n) accounts.set(address, (accounts.get(address) ?? 0n) + amount);
  };
  const mintedUpokt = (work.settledUpokt * millionths(mintRatio)) / MILLION;
  const inflationUpokt = inflationOf(terms, work.settledUpokt);
  const revenueShares = terms.shares.get(`${work.operatorAddress}/${work.serviceId}`) ?? [];
  const distribute = (
    amount: bigint,
    shares: tokenomics.MintAllocationPercentages | tokenomics.MintEqualsBurnClaimDistribution | undefined,
  ): bigint => {
    const part = (share: number | undefined): bigint => (amount * millionths(share ?? 0)) / MILLION;
    const [supplier, proposer] = [part(shares?.supplier), part(shares?.proposer)];
    const [owner, application] = [part(shares?.sourceOwner), part(shares?.application)];
    const parts = revenueShares.map(({ revSharePercentage }) => (supplier * revSharePercentage) / 100n);
    const remainder = supplier - parts.reduce((sum, one) => sum + one, 0n);
    for (const [i, { address }] of revenueShares.entries()) pay(address, (parts[i] ?? 0n) + (i === 0 ? remainder : 0n));
    pay(terms.owners.get(work.serviceId) ?? "", owner);
    pay(work.applicationAddress, application);
    pay(daoRewardAddress, amount - supplier - proposer - owner - application);
    return proposer;
  };
  const ofMint = distribute(mintedUpokt, mintEqualsBurnClaimDistribution);
  const ofInflation = distribute(inflationUpokt, mintAllocationPercentages);
  pay(daoRewardAddress, inflationUpokt);
  return { accounts, pools: [ofMint, ofInflation], mintedUpokt, inflationUpokt };
}

/** A validator as the accepted messages make it. */
interface KnownValidator {
  readonly tokensUpokt: bigint;
  /** In units of 10^-18. */
  rate: bigint;
  /** Tokens by delegator, itself included. */
  readonly delegations: ReadonlyMap<string, bigint>;
}

const DECIMAL_ONE = 10n ** 18n;

/** Validators of a game, and what each account gets of their part of the settlements. */
export class ValidatorLedger {
  readonly #validators = new Map<string, KnownValidator>();
  maxValidators = 100;

  create(address: string, tokensUpokt: bigint, rate: bigint, delegations?: ReadonlyMap<string, bigint>): void {
    const tokensByDelegator = delegations ?? new Map([[address, tokensUpokt]]);
    this.#validators.set(address, { tokensUpokt, rate, delegations: tokensByDelegator });
  }

  setRate(address: string, rate: bigint): void {
    const validator = this.#validators.get(address);
    if (validator !== undefined) validator.rate = rate;
  }

  tokensOf(address: string): bigint {
    return this.#validators.get(address)?.tokensUpokt ?? 0n;
  }

  get size(): number {
    return this.#validators.size;
  }

  /** Adds the parts of a pool to accounts: each may differ by the few units that rounding moves. */
  addRewards(accounts: Map<string, bigint>, poolUpokt: bigint): void {
    const byTokens = [...this.#validators].sort(([, a], [, b]) => (a.tokensUpokt > b.tokensUpokt ? -1 : 1));
    const bonded = byTokens.slice(0, this.maxValidators);
    const total = bonded.reduce((sum, [, { tokensUpokt }]) => sum + tokensUpokt, 0n);
    for (const [address, { tokensUpokt, rate, delegations }] of bonded) {
      const part = (poolUpokt * tokensUpokt) / total;
      const commission = (part * rate) / DECIMAL_ONE;
      accounts.set(address, (accounts.get(address) ?? 0n) + commission);
      for (const [delegator, tokens] of delegations) {
        const reward = ((part - commission) * tokens) / tokensUpokt;
        accounts.set(delegator, (accounts.get(delegator) ?? 0n) + reward);
      }
    }
  }
}
