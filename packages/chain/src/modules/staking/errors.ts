import type { FaultKind } from "../../state/outcome.ts";

const staking = (code: number, text: string): FaultKind => ({ codespace: "staking", code, text });

/** The errors of codespace `staking` that this chain gives, with the SDK's numbers and texts. */
export const STAKING = {
  noValidator: staking(3, "validator does not exist"),
  ownerExists: staking(4, "validator already exist for this operator address; must use new validator operator address"),
  keyExists: staking(5, "validator already exist for this pubkey; must use new validator pubkey"),
  keyType: staking(6, "validator pubkey type is not supported"),
  commissionNegative: staking(9, "commission must be positive"),
  commissionHuge: staking(10, "commission cannot be more than 100%"),
  commissionOverMax: staking(11, "commission cannot be more than the max rate"),
  commissionTooSoon: staking(12, "commission cannot be changed more than once in 24h"),
  changeRateNegative: staking(13, "commission change rate must be positive"),
  changeRateOverMax: staking(14, "commission change rate cannot be more than the max rate"),
  commissionChange: staking(15, "commission cannot be changed more than max change rate"),
  selfDelegation: staking(16, "validator's self delegation must be greater than their minimum self delegation"),
  selfDelegationDecreased: staking(17, "minimum self delegation cannot be decrease"),
  exchangeRate: staking(34, "cannot delegate to validators with invalid (zero) ex-rate"),
  emptyKey: staking(39, "empty validator public key"),
  commissionUnderMin: staking(40, "commission cannot be less than min rate"),
} as const;
