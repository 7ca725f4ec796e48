import type { application, shared } from "@turnpike/proto";
import {
  type DueClaim,
  isConfigActive,
  type SettlementApplication,
  type SettlementInput,
  type SettlementSupplier,
  type SettlementValidator,
} from "@turnpike/protocol";
import { addressText } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import type { Parsed } from "../../state/parsed.ts";
import { getApplication, getApplicationParams } from "../application/state.ts";
import { getSupply } from "../bank/balances.ts";
import { upoktOf } from "../proof/claim-facts.ts";
import { getSharedParams, protocolParams } from "../shared/state.ts";
import { getBondedValidators, getDelegationsTo, operatorBytes, sharesOf, validatorNumbers } from "../staking/state.ts";
import { getDehydratedSupplier, getSupplierConfigs, getSupplierParams } from "../supplier/state.ts";
import { getTokenomicsParams } from "./state.ts";

/** What settlement reads, and the records that it was read from. */
export interface SettlementSource {
  readonly input: SettlementInput;
  readonly applications: ReadonlyMap<string, Parsed<application.Application>>;
  /** Suppliers without services. */
  readonly suppliers: ReadonlyMap<string, Parsed<shared.Supplier>>;
  /** The configuration that a service of a supplier in the input stands for. */
  readonly configs: ReadonlyMap<SettlementSupplier["services"][number], Parsed<shared.SupplierServiceConfig>>;
}

// What the bank keeps: a mint beyond it would stop the chain.
const MOST_SUPPLY = (1n << 256n) - 1n;

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

function settlementApplication(found: Parsed<application.Application>): SettlementApplication {
  return {
    address: found.address,
    stakeUpokt: upoktOf(found.stake),
    unstakeSessionEndHeight: found.unstakeSessionEndHeight,
  };
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
  const configs = getSupplierConfigs(ctx, operatorAddress, { serviceId });
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
  const suppliers = new Map<string, Parsed<shared.Supplier>>();
  const settled = new Map<string, SettlementSupplier>();
  const configs = new Map<SettlementSupplier["services"][number], Parsed<shared.SupplierServiceConfig>>();
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

/** Reads what settles these claims beside what was true in their sessions: records that settlement changes, as they are now. */
export function settlementSource(ctx: Context, claims: readonly DueClaim[]): SettlementSource {
  const applications = new Map<string, Parsed<application.Application>>();
  for (const { claim } of claims) {
    const { applicationAddress } = claim.sessionHeader;
    const found = applications.has(applicationAddress) ? undefined : getApplication(ctx, applicationAddress);
    if (found !== undefined) applications.set(applicationAddress, found);
  }
  const { suppliers, configs, settled } = suppliersOf(ctx, claims);
  return {
    applications,
    suppliers,
    configs,
    input: {
      height: ctx.block.heightBlocks,
      claims,
      applications: new Map([...applications].map(([address, found]) => [address, settlementApplication(found)])),
      suppliers: settled,
      validators: validators(ctx),
      shared: protocolParams(getSharedParams(ctx)),
      daoRewardAddress: getTokenomicsParams(ctx).daoRewardAddress,
      mintRoomUpokt: MOST_SUPPLY - getSupply(ctx, "upokt"),
      minApplicationStakeUpokt: upoktOf(getApplicationParams(ctx).minStake),
      minSupplierStakeUpokt: upoktOf(getSupplierParams(ctx).minStake),
    },
  };
}
