import type { FaultKind } from "../../state/outcome.ts";

const kind = (code: number, text: string): FaultKind => ({ codespace: "shared", code, text });

/** The errors of codespace `shared`, with its numbers and texts. */
export const SHARED = {
  invalidSigner: kind(1100, "expected gov account as only signer for proposal message"),
  invalidAddress: kind(1101, "invalid address"),
  paramNameInvalid: kind(1102, "the provided param name is invalid"),
  paramInvalid: kind(1103, "the provided param is invalid"),
  invalidService: kind(1107, "invalid service"),
  invalidServiceId: kind(1108, "invalid service ID"),
  invalidServiceName: kind(1109, "invalid service name"),
  invalidComputeUnitsPerRelay: kind(1110, "invalid compute units per relay"),
  invalidServiceMetadata: kind(1111, "invalid service metadata"),
} as const;
