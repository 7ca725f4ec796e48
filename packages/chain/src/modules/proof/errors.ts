import type { FaultKind } from "../../state/outcome.ts";

const kind = (codespace: string, code: number, text: string): FaultKind => ({ codespace, code, text });
const proof = (code: number, text: string): FaultKind => kind("proof", code, text);

/** The errors of codespace `proof`. */
export const PROOF = {
  invalidSigner: proof(1100, "expected gov account as only signer for proposal message"),
  invalidAddress: proof(1101, "invalid address"),
  supplierNotFound: proof(1102, "supplier not found"),
  invalidService: proof(1103, "invalid service in supplier"),
  invalidRoot: proof(1104, "invalid root hash"),
  claimNotFound: proof(1106, "claim not found"),
  proofNotFound: proof(1107, "proof not found"),
  invalidProof: proof(1108, "invalid proof"),
  invalidRelay: proof(1109, "invalid relay"),
  keyNotFound: proof(1114, "public key not found"),
  invalidHeader: proof(1115, "invalid session header"),
  invalidSessionId: proof(1116, "invalid session ID"),
  invalidEndHeight: proof(1117, "invalid session end height"),
  invalidStartHeight: proof(1118, "invalid session start height"),
  paramName: proof(1119, "the provided param name is invalid"),
  param: proof(1120, "the provided param is invalid"),
  claimWindow: proof(1121, "claim attempted outside of the session's claim window"),
  proofWindow: proof(1122, "proof attempted outside of the session's proof window"),
  supplierMismatch: proof(1123, "supplier operator address does not match the claim or proof"),
  accountNotFound: proof(1124, "account not found"),
  serviceNotFound: proof(1125, "service not found"),
  computeUnits: proof(1126, "mismatch: claim compute units != number of relays * service compute units per relay"),
  funds: proof(1127, "not enough funds to submit proof"),
  fee: proof(1128, "failed to deduct proof submission fee"),
  notRequired: proof(1129, "proof not required"),
  difficulty: proof(1130, "invalid relay difficulty"),
} as const;

/** Errors of other codespaces that a proof's relay can end in. */
export const RELAY = {
  request: kind("service", 1111, "invalid relay request"),
  response: kind("service", 1110, "invalid relay response"),
  ringRequest: kind("rings", 2, "invalid relay request"),
  ringSignature: kind("rings", 3, "invalid relay request signature"),
} as const;

/** What can be wrong with a session's header by itself. */
export const HEADER = {
  application: kind("session", 1105, "invalid application address for session"),
  height: kind("session", 1107, "invalid block height for session"),
  id: kind("session", 1108, "invalid sessionId"),
} as const;
