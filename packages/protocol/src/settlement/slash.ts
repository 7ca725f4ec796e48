import { least } from "../rational.ts";
import { sessionAt } from "../sessions/grid.ts";
import type { SettlementEvent } from "./events.ts";
import { coinText, OP_REASON } from "./reasons.ts";
import type { DueClaim, Operation, SettlementInput, SettlementSupplier } from "./types.ts";

/** What an expired claim costs its supplier. */
export interface Slash {
  readonly supplier: SettlementSupplier;
  /** Stake to the tokenomics module, and burned there. */
  readonly operations: readonly Operation[];
  readonly events: readonly SettlementEvent[];
}

/**
 * Slashes a supplier for one expired claim: the penalty, at most its whole stake. Below the minimum it begins to unbond
 * at the end of the present session. @NOTE that is all the real chain does: it neither ends the supplier's service
 * configurations nor puts it on the list of those that unbond. The caller that writes the changes has to.
 */
export function slashSupplier(supplier: SettlementSupplier, { claim, proof }: DueClaim, input: SettlementInput): Slash {
  const { proofMissingPenaltyUpokt } = proof;
  const penalty = least(proofMissingPenaltyUpokt, supplier.stakeUpokt);
  const stakeUpokt = supplier.stakeUpokt - penalty;
  const unbonds = stakeUpokt < input.minSupplierStakeUpokt && supplier.unstakeSessionEndHeight === 0n;
  const sessionEndHeight = sessionAt(input.shared, input.height).endHeight;
  const slashed: SettlementSupplier = {
    ...supplier,
    stakeUpokt,
    ...(unbonds ? { unstakeSessionEndHeight: sessionEndHeight } : {}),
  };
  const events: SettlementEvent[] = [];
  if (unbonds) {
    events.push({
      type: "pocket.supplier.EventSupplierUnbondingBegin",
      value: {
        supplier: slashed,
        reason: 2,
        sessionEndHeight,
        unbondingEndHeight: sessionEndHeight,
      },
    });
  }
  const { sessionHeader } = claim;
  events.push({
    type: "pocket.tokenomics.EventSupplierSlashed",
    value: {
      proofMissingPenalty: coinText(penalty),
      supplierStakeAfterSlash: coinText(stakeUpokt),
      serviceId: sessionHeader.serviceId,
      applicationAddress: sessionHeader.applicationAddress,
      sessionEndBlockHeight: sessionHeader.sessionEndBlockHeight,
      claimProofStatusInt: claim.proofValidationStatus,
      supplierOperatorAddress: claim.supplierOperatorAddress,
    },
  });
  return {
    supplier: slashed,
    operations: [
      {
        kind: "mod_to_mod",
        sender: "supplier",
        recipient: "tokenomics",
        reason: OP_REASON.UNSPECIFIED_TLM_SUPPLIER_SLASH_MODULE_TRANSFER,
        amountUpokt: penalty,
      },
      {
        kind: "burn",
        module: "tokenomics",
        reason: OP_REASON.UNSPECIFIED_TLM_SUPPLIER_SLASH_STAKE_BURN,
        amountUpokt: penalty,
      },
    ],
    events,
  };
}
