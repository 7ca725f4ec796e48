import type { FaultKind } from "../../state/outcome.ts";

const kind = (code: number, text: string): FaultKind => ({ codespace: "gateway", code, text });

/** The errors of codespace `gateway`, with the numbers and texts that clients match. */
export const GATEWAY = {
  invalidSigner: kind(1100, "expected gov account as only signer for proposal message"),
  invalidAddress: kind(1101, "invalid gateway address"),
  invalidStake: kind(1102, "invalid gateway stake"),
  notFound: kind(1104, "gateway not found"),
  paramInvalid: kind(1105, "the provided param is invalid"),
  isUnstaking: kind(1107, "gateway is in unbonding period"),
  isInactive: kind(1108, "gateway is no longer active"),
} as const;
