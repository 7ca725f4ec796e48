import type { ChainAnswer, PocketQueries } from "@turnpike/chain-client";
import { type SessionHeader, sessionWindows } from "@turnpike/protocol";
import type { SessionTerms, TermsSource } from "./types.ts";

/** Terms of sessions as the chain has them at their first block. */
export function termsOfQueries(queries: PocketQueries): TermsSource {
  return async ({ serviceId, sessionStartBlockHeight: start }: SessionHeader): Promise<ChainAnswer<SessionTerms>> => {
    const [params, computeUnits, target] = await Promise.all([
      queries.sharedParamsAt(start),
      queries.computeUnitsAt(serviceId, start),
      queries.difficultyAt(serviceId, start),
    ]);
    if (!params.ok) return params;
    if (!computeUnits.ok) return computeUnits;
    if (!target.ok) return target;
    const { computeUnitsToTokensMultiplier, computeUnitCostGranularity } = params.value;
    return {
      ok: true,
      value: {
        computeUnitsPerRelay: computeUnits.value,
        targetHash: target.value,
        windows: sessionWindows(params.value, start),
        pricing: { computeUnitsToTokensMultiplier, computeUnitCostGranularity },
      },
    };
  };
}
