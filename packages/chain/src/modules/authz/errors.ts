import type { FaultKind } from "../../state/outcome.ts";

const kind = (code: number, text: string): FaultKind => ({ codespace: "authz", code, text });

/** The errors of codespace `authz`, with the SDK's numbers and texts. */
export const AUTHZ = {
  noAuthorization: kind(2, "authorization not found"),
  invalidExpiration: kind(3, "expiration time of authorization should be more than current time"),
  unknownAuthorization: kind(4, "unknown authorization type"),
  expired: kind(6, "authorization expired"),
  granteeIsGranter: kind(7, "grantee and granter should be different"),
  numOfSigners: kind(9, "authorization can be given to msg with only one signer"),
} as const;
