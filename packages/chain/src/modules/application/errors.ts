import type { FaultKind } from "../../state/outcome.ts";

const kind = (code: number, text: string): FaultKind => ({ codespace: "application", code, text });

/** The errors of codespace `application`, with the numbers and texts that clients match. */
export const APPLICATION = {
  invalidSigner: kind(1100, "expected gov account as only signer for proposal message"),
  invalidStake: kind(1101, "invalid application stake"),
  invalidAddress: kind(1102, "invalid application address"),
  notFound: kind(1104, "application not found"),
  invalidServiceConfigs: kind(1106, "invalid service configs"),
  gatewayNotFound: kind(1107, "gateway not found"),
  invalidGatewayAddress: kind(1108, "invalid gateway address"),
  alreadyDelegated: kind(1109, "application already delegated to gateway"),
  maxDelegatedGateways: kind(1110, "maximum number of delegated gateways reached"),
  notDelegated: kind(1111, "application not delegated to gateway"),
  isUnstaking: kind(1112, "application is in unbonding period"),
  duplicateAddress: kind(1113, "duplicate application address"),
  hasPendingTransfer: kind(1114, "application is in transfer period"),
  paramInvalid: kind(1115, "the provided param is invalid"),
  queryInvalidGatewayAddress: kind(1117, "invalid gateway address querying for apps with delegatee gateway address"),
  invalidSpendLimit: kind(1118, "invalid per-session spend limit"),
} as const;
