import type { FaultKind } from "../../state/outcome.ts";

const tokenomics = (code: number, text: string): FaultKind => ({ codespace: "tokenomics", code, text });

/** The errors of codespace `tokenomics` that messages end in. */
export const TOKENOMICS = {
  invalidSigner: tokenomics(1100, "the provided authority address does not match the onchain governance address"),
  authorityAddress: tokenomics(1101, "the provided authority address is not a valid bech32 address"),
  params: tokenomics(1108, "provided params are invalid"),
  paramName: tokenomics(1111, "the provided param name is invalid"),
  param: tokenomics(1112, "the provided param is invalid"),
} as const;
