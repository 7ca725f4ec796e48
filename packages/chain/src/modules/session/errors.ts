import type { FaultKind } from "../../state/outcome.ts";

const kind = (code: number, text: string): FaultKind => ({ codespace: "session", code, text });

/** The errors of codespace `session`, with its numbers and texts, slips of the pen included: clients match them. */
export const SESSION = {
  invalidSigner: kind(1100, "expected gov account as only signer for proposal message"),
  hydration: kind(1101, "error during session hydration"),
  applicationNotFound: kind(1102, "application for session not found not found "),
  applicationNotStaked: kind(1103, "application in session not staked for requested service"),
  suppliersNotFound: kind(1104, "no suppliers not found for session"),
  invalidApplicationAddress: kind(1105, "invalid application address for session"),
  invalidBlockHeight: kind(1107, "invalid block height for session"),
  invalidSessionId: kind(1108, "invalid sessionId"),
  applicationNotActive: kind(1109, "application is not active"),
  paramInvalid: kind(1110, "the provided param is invalid"),
} as const;
