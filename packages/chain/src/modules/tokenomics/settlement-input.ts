import type { application, shared, tokenomics } from "@turnpike/proto";
import {
  type DueClaim,
  isConfigActive,
  type RewardShares,
  type SettlementApplication,
  type SettlementInput,
  type SettlementSupplier,
  type SettlementValidator,
} from "@turnpike/protocol";
import { addressText } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { getApplication, getApplicationParams } from "../application/state.ts";
import { getSupply } from "../bank/balances.ts";
import { upoktOf } from "../proof/claim-facts.ts";
import { getProofParams } from "../proof/state.ts";
import { getService } from "../service/state.ts";
import { getSharedParams, protocolParams } from "../shared/state.ts";
import { getBondedValidators, getDelegationsTo, operatorBytes, sharesOf, validatorNumbers } from "../staking/state.ts";
import { getDehydratedSupplier, getSupplierConfigs, getSupplierParams } from "../supplier/state.ts";
import { getTokenomicsParams } from "./state.ts";

/** What settlement reads, and the records that it was read from. */
export interface SettlementSource {
  readonly input: SettlementInput;
  readonly applications: ReadonlyMap<string, application.Application>;
  /** Suppliers without services. */
  readonly suppliers: ReadonlyMap<string, shared.Supplier>;
  /** The configuration that a service of a supplier in the input stands for. */
  readonly configs: ReadonlyMap<SettlementSupplier["services"][number], shared.SupplierServiceConfig>;
}

// What the bank keeps: a mint beyond it would stop the chain.
const MOST_SUPPLY = (1n << 256n) - 1n;
const NO_SHARES: RewardShares = { dao: 0, proposer: 0, supplier: 0, sourceOwner: 0, application: 0 };

function validators(ctx: Context): SettlementValidator[] {
  return getBondedValidators(ctx).map((validator) => {
    const operator = operatorBytes(validator);
    const { tokens, shares, commissionRate } = validatorNumbers(validator);
    return {
      operatorAddress: validator.operatorAddress,
      accountAddress: addressText(operator),
      tokensUpokt: tokens,
      delegatorShares: shares,
      commissionRate,
      delegations: getDelegationsTo(ctx, operator).map((delegation) => ({
        delegatorAddress: delegation.delegatorAddress,
        shares: sharesOf(delegation),
      })),
    };
  });
}

function settlementApplication(found: application.Application): SettlementApplication {
  return {
    address: found.address,
    stakeUpokt: upoktOf(found.stake),
    unstakeSessionEndHeight: found.unstakeSessionEndHeight,
    perSessionSpendLimitUpokt: upoktOf(found.perSessionSpendLimit),
  };
}

function rewardShares(
  shares: tokenomics.MintAllocationPercentages | tokenomics.MintEqualsBurnClaimDistribution | undefined,
): RewardShares {
  if (shares === undefined) return NO_SHARES;
  const { dao, proposer, supplier, sourceOwner, application: applicationShare } = shares;
  return { dao, proposer, supplier, sourceOwner, application: applicationShare };
}

/** For which services each supplier claims, with the last of the sessions' ends. */
function claimedServices(claims: readonly DueClaim[]): Map<string, Map<string, bigint>> {
  const claimed = new Map<string, Map<string, bigint>>();
  for (const { claim } of claims) {
    const { serviceId, sessionEndBlockHeight: end } = claim.sessionHeader;
    const ends = claimed.get(claim.supplierOperatorAddress) ?? new Map<string, bigint>();
    if (end > (ends.get(serviceId) ?? -1n)) ends.set(serviceId, end);
    claimed.set(claim.supplierOperatorAddress, ends);
  }
  return claimed;
}

// A supplier that ended a service since, or unbonds, is paid by the shares that held in the session. The real chain looks
// at this block alone, and discards its last claims.
function payingConfigs(ctx: Context, operatorAddress: string, serviceId: string, sessionEnd: bigint) {
  const configs = getSupplierConfigs(ctx, operatorAddress, serviceId);
  const now = configs.filter((update) => isConfigActive(update, ctx.block.heightBlocks));
  return now.length > 0 ? now : configs.filter((update) => isConfigActive(update, sessionEnd));
}

/** Suppliers of claims, with the configurations by which their claims are paid. */
function suppliersOf(
  ctx: Context,
  claims: readonly DueClaim[],
): Pick<SettlementSource, "suppliers" | "configs"> & {
  readonly settled: ReadonlyMap<string, SettlementSupplier>;
} {
  const suppliers = new Map<string, shared.Supplier>();
  const settled = new Map<string, SettlementSupplier>();
  const configs = new Map<SettlementSupplier["services"][number], shared.SupplierServiceConfig>();
  for (const [operatorAddress, ends] of claimedServices(claims)) {
    const found = getDehydratedSupplier(ctx, operatorAddress);
    if (found === undefined) continue;
    suppliers.set(operatorAddress, found);
    const services = [...ends].flatMap(([serviceId, end]) =>
      payingConfigs(ctx, operatorAddress, serviceId, end).flatMap((update) => {
        if (update.service === undefined) return [];
        const service = {
          serviceId,
          revShare: update.service.revShare.map(({ address, revSharePercentage }) => ({ address, revSharePercentage })),
        };
        configs.set(service, update.service);
        return [service];
      }),
    );
    settled.set(operatorAddress, {
      operatorAddress,
      ownerAddress: found.ownerAddress,
      stakeUpokt: upoktOf(found.stake),
      unstakeSessionEndHeight: found.unstakeSessionEndHeight,
      services,
    });
  }
  return { suppliers, configs, settled };
}

/** Reads everything that settles these claims. */
export function settlementSource(ctx: Context, claims: readonly DueClaim[]): SettlementSource {
  const applications = new Map<string, application.Application>();
  const services = new Map<string, { readonly id: string; readonly ownerAddress: string }>();
  for (const { claim } of claims) {
    const { applicationAddress, serviceId } = claim.sessionHeader;
    const found = applications.has(applicationAddress) ? undefined : getApplication(ctx, applicationAddress);
    if (found !== undefined) applications.set(applicationAddress, found);
    const service = services.has(serviceId) ? undefined : getService(ctx, serviceId);
    if (service !== undefined) services.set(serviceId, { id: serviceId, ownerAddress: service.ownerAddress });
  }
  const { suppliers, configs, settled } = suppliersOf(ctx, claims);
  const params = getTokenomicsParams(ctx);
  const proofParams = getProofParams(ctx);
  return {
    applications,
    suppliers,
    configs,
    input: {
      height: ctx.block.heightBlocks,
      claims,
      applications: new Map([...applications].map(([address, found]) => [address, settlementApplication(found)])),
      suppliers: settled,
      services,
      validators: validators(ctx),
      shared: protocolParams(getSharedParams(ctx)),
      tokenomics: {
        daoRewardAddress: params.daoRewardAddress,
        mintAllocationPercentages: rewardShares(params.mintAllocationPercentages),
        mintEqualsBurnClaimDistribution: rewardShares(params.mintEqualsBurnClaimDistribution),
        globalInflationPerClaim: params.globalInflationPerClaim,
        mintRatio: params.mintRatio,
        overservicingBonusMultiplier: params.overservicingBonusMultiplier,
      },
      proof: {
        proofRequestProbability: proofParams.proofRequestProbability,
        proofRequirementThresholdUpokt: upoktOf(proofParams.proofRequirementThreshold),
        proofMissingPenaltyUpokt: upoktOf(proofParams.proofMissingPenalty),
      },
      mintRoomUpokt: MOST_SUPPLY - getSupply(ctx, "upokt"),
      minApplicationStakeUpokt: upoktOf(getApplicationParams(ctx).minStake),
      minSupplierStakeUpokt: upoktOf(getSupplierParams(ctx).minStake),
    },
  };
}
