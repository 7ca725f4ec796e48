import type { auth } from "@turnpike/proto";

/** A fault of parameters, in the SDK's words; undefined when they are valid. */
export function paramsFault(params: auth.Params): string | undefined {
  if (params.txSigLimit === 0n) return "invalid tx signature limit: 0";
  if (params.sigVerifyCostEd25519 === 0n) return "invalid ED25519 signature verification cost: 0";
  if (params.sigVerifyCostSecp256k1 === 0n) return "invalid SECK256k1 signature verification cost: 0";
  if (params.maxMemoCharacters === 0n) return "invalid max memo characters: 0";
  return params.txSizeCostPerByte === 0n ? "invalid tx size cost per byte: 0" : undefined;
}
