import type { AccountAddress } from "@turnpike/base";
import { encodeBech32, moduleAddressBytes, sha256, VALIDATOR_PREFIX } from "@turnpike/crypto";
import { application, createMessage, proof, session, shared, staking, supplier, tokenomics } from "@turnpike/proto";
import { applicationParams, applications, setApplication } from "../../../src/modules/application/state.ts";
import { ensureModuleAccount } from "../../../src/modules/auth/accounts.ts";
import { balances, setBalance, setSupply } from "../../../src/modules/bank/balances.ts";
import { proofParams, setClaim } from "../../../src/modules/proof/state.ts";
import { serviceParams, services } from "../../../src/modules/service/state.ts";
import { blockHashes } from "../../../src/modules/session/state.ts";
import { sharedParams } from "../../../src/modules/shared/state.ts";
import { delegations, lastPowers, POWER_REDUCTION, validators } from "../../../src/modules/staking/state.ts";
import {
  configsByOperator,
  serviceConfigs,
  setDehydratedSupplier,
  supplierParams,
  suppliers,
} from "../../../src/modules/supplier/state.ts";
import { tokenomicsParams } from "../../../src/modules/tokenomics/state.ts";
import { addressText } from "../../../src/state/addresses.ts";
import type { Context } from "../../../src/state/context.ts";
import { Overlay } from "../../../src/state/overlay.ts";
import { createParsed } from "../../../src/state/parsed.ts";
import { planted } from "../../planted.ts";
import { contextAt } from "./recorded.ts";

/** A chain of made-up actors whose money adds up. */
export interface Economy {
  readonly state: Overlay;
  readonly ctx: Context;
}

/** What an economy is made of; stakes in upokt. */
export interface EconomyOptions {
  readonly applicationStakes: readonly bigint[];
  readonly spendLimitUpokt?: bigint;
  readonly supplierStakes: readonly bigint[];
  readonly computeUnitsPerRelay: bigint;
  readonly tokenomics: Partial<
    Pick<tokenomics.Params, "mintRatio" | "globalInflationPerClaim" | "overservicingBonusMultiplier">
  > & {
    readonly shares?: readonly [
      dao: number,
      proposer: number,
      supplier: number,
      sourceOwner: number,
      application: number,
    ];
  };
  readonly proofRequestProbability: number;
  readonly proofRequirementThreshold?: bigint;
  readonly penaltyUpokt: bigint;
  readonly minStakeUpokt: bigint;
}

const EMPTY = { get: () => undefined, range: () => [] };
const DECIMAL_ONE = 10n ** 18n;
const coin = (amount: bigint) => ({ denom: "upokt", amount: amount.toString() });

/** The service that everyone works for. */
export const SERVICE = "svc";

/** Address of an actor by its name, such as `application 0`. */
export function addressOf(name: string): AccountAddress {
  return addressText(moduleAddressBytes(name));
}

function fillParams(ctx: Context, opts: EconomyOptions): void {
  const [dao, proposer, supplierShare, sourceOwner, applicationShare] = opts.tokenomics.shares ?? [
    0.1, 0.05, 0.7, 0.15, 0,
  ];
  const shares = { dao, proposer, supplier: supplierShare, sourceOwner, application: applicationShare };
  tokenomicsParams.set(
    ctx,
    undefined,
    planted(
      createMessage(tokenomics.ParamsSchema, {
        daoRewardAddress: addressOf("dao"),
        mintAllocationPercentages: shares,
        mintEqualsBurnClaimDistribution: shares,
        globalInflationPerClaim: opts.tokenomics.globalInflationPerClaim ?? 0.1,
        mintRatio: opts.tokenomics.mintRatio ?? 1,
        overservicingBonusMultiplier: opts.tokenomics.overservicingBonusMultiplier ?? 1n,
      }),
    ),
  );
  proofParams.set(
    ctx,
    undefined,
    createMessage(proof.ParamsSchema, {
      proofRequestProbability: opts.proofRequestProbability,
      proofRequirementThreshold: coin(opts.proofRequirementThreshold ?? 10n ** 30n),
      proofMissingPenalty: coin(opts.penaltyUpokt),
      proofSubmissionFee: coin(1n),
    }),
  );
  sharedParams.set(
    ctx,
    undefined,
    createMessage(shared.ParamsSchema, {
      numBlocksPerSession: 10n,
      gracePeriodEndOffsetBlocks: 1n,
      claimWindowOpenOffsetBlocks: 1n,
      claimWindowCloseOffsetBlocks: 4n,
      proofWindowOpenOffsetBlocks: 0n,
      proofWindowCloseOffsetBlocks: 4n,
      supplierUnbondingPeriodSessions: 1n,
      applicationUnbondingPeriodSessions: 1n,
      gatewayUnbondingPeriodSessions: 1n,
      computeUnitsToTokensMultiplier: 42_000_000n,
      computeUnitCostGranularity: 1_000_000n,
    }),
  );
  serviceParams.set(ctx, undefined, { $typeName: "pocket.service.Params", targetNumRelays: 100n });
  applicationParams.set(
    ctx,
    undefined,
    createMessage(application.ParamsSchema, { minStake: coin(opts.minStakeUpokt) }),
  );
  supplierParams.set(ctx, undefined, createMessage(supplier.ParamsSchema, { minStake: coin(opts.minStakeUpokt) }));
}

function addSupplier(ctx: Context, index: number, stake: bigint): void {
  const operatorAddress = addressOf(`supplier ${index}`);
  const ownerAddress = addressOf(`owner ${index}`);
  setDehydratedSupplier(
    ctx,
    planted(createMessage(shared.SupplierSchema, { ownerAddress, operatorAddress, stake: coin(stake) })),
  );
  const share = 10n + BigInt(index % 80);
  serviceConfigs.set(
    ctx,
    [SERVICE, [1n, operatorAddress]],
    planted(
      createMessage(shared.ServiceConfigUpdateSchema, {
        operatorAddress,
        activationHeight: 1n,
        service: {
          serviceId: SERVICE,
          revShare: [
            { address: ownerAddress, revSharePercentage: share },
            { address: addressOf(`partner ${index}`), revSharePercentage: 100n - share },
          ],
        },
      }),
    ),
  );
  configsByOperator.set(ctx, [operatorAddress, [SERVICE, 1n]], undefined);
}

/** Adds a bonded validator, with itself and one more as delegators. */
export function addValidator(ctx: Context, index: number, tokens: bigint): void {
  const operator = moduleAddressBytes(`validator ${index}`);
  const operatorAddress = encodeBech32(VALIDATOR_PREFIX, operator);
  validators.set(
    ctx,
    operator,
    createMessage(staking.ValidatorSchema, {
      operatorAddress,
      tokens: tokens.toString(),
      delegatorShares: (tokens * DECIMAL_ONE).toString(),
      status: staking.BondStatus.BONDED,
      commission: { commissionRates: { rate: (DECIMAL_ONE / 10n).toString() } },
    }),
  );
  lastPowers.set(ctx, operator, tokens / POWER_REDUCTION);
  for (const [name, part] of [
    [`validator ${index}`, tokens / 2n],
    ["delegator", tokens - tokens / 2n],
  ] as const) {
    const shares = (part * DECIMAL_ONE).toString();
    const delegation = createParsed(staking.DelegationSchema, { delegatorAddress: addressOf(name), shares });
    delegations.set(ctx, [operator, moduleAddressBytes(name)], delegation);
  }
}

/** Makes an economy. */
export function makeEconomy(opts: EconomyOptions): Economy {
  const state = new Overlay(EMPTY);
  const ctx = contextAt(state, 1n);
  fillParams(ctx, opts);
  const stakes = { application: 0n, supplier: 0n, tokenomics: 0n };
  for (const [i, stake] of opts.applicationStakes.entries()) {
    const limit = opts.spendLimitUpokt === undefined ? {} : { perSessionSpendLimit: coin(opts.spendLimitUpokt) };
    const address = addressOf(`application ${i}`);
    const serviceConfigsOf = [{ serviceId: SERVICE }];
    setApplication(
      ctx,
      planted(
        createMessage(application.ApplicationSchema, {
          address,
          stake: coin(stake),
          serviceConfigs: serviceConfigsOf,
          ...limit,
        }),
      ),
    );
    stakes.application += stake;
  }
  for (const [i, stake] of opts.supplierStakes.entries()) {
    addSupplier(ctx, i, stake);
    stakes.supplier += stake;
  }
  addValidator(ctx, 0, 7_000_003n);
  addValidator(ctx, 1, 1_000_001n);
  const ownerAddress = addressOf("source owner");
  const computeUnitsPerRelay = opts.computeUnitsPerRelay;
  services.set(ctx, SERVICE, createParsed(shared.ServiceSchema, { id: SERVICE, computeUnitsPerRelay, ownerAddress }));
  for (const [name, amount] of Object.entries(stakes)) {
    ensureModuleAccount(ctx, name, []);
    setBalance(ctx, moduleAddressBytes(name), { denom: "upokt", amount });
  }
  setSupply(ctx, { denom: "upokt", amount: stakes.application + stakes.supplier });
  for (let height = 1n; height <= 120n; height++) blockHashes.set(ctx, height, sha256(Buffer.from(`block ${height}`)));
  return { state, ctx };
}

/** A claim of a session that ends at a height, written without its message. */
export function addClaim(
  ctx: Context,
  claim: {
    readonly application: number;
    readonly supplier: number;
    readonly end: bigint;
    readonly relays: bigint;
    readonly units: bigint;
    readonly status?: 0 | 1 | 2;
    readonly serviceId?: string;
    /** Name of one of several sessions that end together. */
    readonly session?: string;
  },
): void {
  const rootHash = Buffer.alloc(48, claim.supplier + 1);
  rootHash.writeBigUInt64BE(BigInt.asUintN(64, claim.units * claim.relays), 32);
  rootHash.writeBigUInt64BE(claim.relays, 40);
  const sessionId = sha256(Buffer.from(`${claim.application}/${claim.end}${claim.session ?? ""}`));
  setClaim(
    ctx,
    createMessage(proof.ClaimSchema, {
      supplierOperatorAddress: addressOf(`supplier ${claim.supplier}`),
      sessionHeader: createMessage(session.SessionHeaderSchema, {
        applicationAddress: addressOf(`application ${claim.application}`),
        serviceId: claim.serviceId ?? SERVICE,
        sessionId: Buffer.from(sessionId).toString("hex"),
        sessionStartBlockHeight: claim.end - 9n,
        sessionEndBlockHeight: claim.end,
      }),
      rootHash,
      proofValidationStatus: claim.status ?? 0,
    }),
  );
}

/** Sum of all balances. */
export function sumOfBalances(ctx: Context): bigint {
  let sum = 0n;
  for (const [, amount] of balances.entries(ctx)) sum += amount;
  return sum;
}

/** Sums of the stakes that the records of actors say. */
export function sumsOfStakes(ctx: Context): { readonly application: bigint; readonly supplier: bigint } {
  const sum = (
    list: Iterable<readonly [unknown, { readonly stake?: { readonly amount: string } | undefined }]>,
  ): bigint => {
    let total = 0n;
    for (const [, { stake }] of list) total += BigInt(stake?.amount ?? "0");
    return total;
  };
  return { application: sum(applications.entries(ctx)), supplier: sum(suppliers.entries(ctx)) };
}
