import type { auth } from "@turnpike/proto";

/** Maximum of a gas price: that of a whole transaction of 1 MiB fits 64 bits beside any other. */
const MAX_COST = 1_000_000_000n;
/** Maximum number of signatures: more keys than a multisignature of the chain has, and than a check may verify. */
const MAX_SIGNATURES = 1_000n;
/** Maximum characters of a memo: those of the longest transaction. */
const MAX_MEMO_CHARACTERS = 1_048_576n;

/** A fault of parameters; undefined when they are valid. Below the bounds of this chain, in the SDK's words. */
export function paramsFault(params: auth.Params): string | undefined {
  if (params.txSigLimit === 0n) return "invalid tx signature limit: 0";
  if (params.sigVerifyCostEd25519 === 0n) return "invalid ED25519 signature verification cost: 0";
  if (params.sigVerifyCostSecp256k1 === 0n) return "invalid SECK256k1 signature verification cost: 0";
  if (params.maxMemoCharacters === 0n) return "invalid max memo characters: 0";
  if (params.txSizeCostPerByte === 0n) return "invalid tx size cost per byte: 0";
  const bounded = [
    ["tx signature limit", params.txSigLimit, MAX_SIGNATURES],
    ["ED25519 signature verification cost", params.sigVerifyCostEd25519, MAX_COST],
    ["SECK256k1 signature verification cost", params.sigVerifyCostSecp256k1, MAX_COST],
    ["max memo characters", params.maxMemoCharacters, MAX_MEMO_CHARACTERS],
    ["tx size cost per byte", params.txSizeCostPerByte, MAX_COST],
  ] as const;
  const excess = bounded.find(([, value, most]) => value > most);
  return excess === undefined ? undefined : `invalid ${excess[0]}: ${excess[1]}, maximum ${excess[2]}`;
}
