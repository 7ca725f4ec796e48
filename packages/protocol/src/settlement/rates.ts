import { float64ToDecimal, float64ToRational } from "../rational.ts";
import type { SettlementRates, ShareRates } from "./modules.ts";
import type { RewardShares, TokenomicsParams } from "./types.ts";

function shareRates(shares: RewardShares): ShareRates {
  return {
    supplier: float64ToRational(shares.supplier),
    proposer: float64ToRational(shares.proposer),
    sourceOwner: float64ToRational(shares.sourceOwner),
    application: float64ToRational(shares.application),
  };
}

/** The float parameters of settlement as fractions: read once, by their decimal texts. */
export function settlementRates(tokenomics: TokenomicsParams): SettlementRates {
  return {
    inflation: float64ToRational(tokenomics.globalInflationPerClaim),
    mintRatio: float64ToRational(tokenomics.mintRatio),
    mintRatioText: float64ToDecimal(tokenomics.mintRatio),
    ofMint: shareRates(tokenomics.mintEqualsBurnClaimDistribution),
    ofInflation: shareRates(tokenomics.mintAllocationPercentages),
    daoRewardAddress: tokenomics.daoRewardAddress,
  };
}
