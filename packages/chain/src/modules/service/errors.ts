import type { FaultKind } from "../../state/outcome.ts";

const kind = (code: number, text: string): FaultKind => ({ codespace: "service", code, text });

/** The errors of codespace `service`, with its numbers and texts. */
export const SERVICE = {
  invalidSigner: kind(1100, "expected gov account as only signer for proposal message"),
  invalidAddress: kind(1102, "invalid address when adding a new service"),
  missingId: kind(1103, "missing service ID"),
  notEnoughFunds: kind(1108, "not enough funds to add service"),
  failedToDeductFee: kind(1109, "failed to deduct fee"),
  invalidOwnerAddress: kind(1113, "invalid owner address"),
  paramInvalid: kind(1115, "the provided param is invalid"),
  notFound: kind(1117, "service not found"),
  unauthorized: kind(1118, "unauthorized service operation"),
} as const;
