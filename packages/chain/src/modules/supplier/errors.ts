import type { FaultKind } from "../../state/outcome.ts";

const kind = (code: number, text: string): FaultKind => ({ codespace: "supplier", code, text });

/** The errors of codespace `supplier`, with the numbers and texts that clients match. */
export const SUPPLIER = {
  invalidSigner: kind(1100, "expected gov account as only signer for proposal message"),
  invalidStake: kind(1101, "invalid supplier stake"),
  invalidAddress: kind(1102, "invalid address"),
  notFound: kind(1103, "supplier not found"),
  invalidServiceConfig: kind(1104, "invalid service config"),
  isUnstaking: kind(1105, "supplier is in unbonding period"),
  serviceNotFound: kind(1106, "service not found"),
  paramInvalid: kind(1107, "the provided param is invalid"),
  invalidServiceId: kind(1109, "invalid service ID"),
} as const;

/** An update by someone who may not make it; codespace `shared`. */
export const UNAUTHORIZED_UPDATE: FaultKind = { codespace: "shared", code: 1105, text: "unauthorized supplier update" };
/** Revenue shares that cannot be; codespace `shared`. */
export const INVALID_REV_SHARE: FaultKind = {
  codespace: "shared",
  code: 1106,
  text: "invalid revenue share configuration",
};
