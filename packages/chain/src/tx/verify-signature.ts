import type { signing } from "@turnpike/proto";
import type { AccountKey, MultisigKey } from "../modules/auth/account-keys.ts";
import type { DecodedTx } from "./decode.ts";
import { type SignDocument, type SignerFacts, signDocument } from "./sign-documents.ts";
import type { MultiSignature, SignatureData } from "./signature-data.ts";
import type { VerifySignature } from "./verified-signatures.ts";

/** The document that a signer signs, by mode. */
export type DocumentOf = (mode: signing.SignMode) => SignDocument;

/** The documents of a signer of a transaction, each made once however many members of a multisig key sign it. */
export function documentsOf(tx: DecodedTx, facts: SignerFacts): DocumentOf {
  const made = new Map<signing.SignMode, SignDocument>();
  return (mode) => {
    const document = made.get(mode) ?? signDocument(tx, mode, facts);
    made.set(mode, document);
    return document;
  };
}

/** Why a signature is not that of a key, in the words of the SDK; undefined when it is. */
export function signatureFault(
  key: AccountKey,
  given: SignatureData,
  documentOf: DocumentOf,
  verify: VerifySignature,
  notVerified = "unable to verify single signer signature",
): string | undefined {
  if (key.kind === "multisig") {
    if (given.kind === "multi") return multisigFault(key, given, documentOf, verify);
    return "expected *signing.MultiSignatureData, got *signing.SingleSignatureData";
  }
  if (given.kind === "multi") return "expected <nil>, got *secp256k1.PubKey";
  const document = documentOf(given.mode);
  if (!document.ok) return document.fault;
  return verify(document.bytes, given.signature, key.key) ? undefined : notVerified;
}

function multisigFault(
  { threshold, keys }: MultisigKey,
  { signed, parts }: MultiSignature,
  documentOf: DocumentOf,
  verify: VerifySignature,
): string | undefined {
  if (signed.length !== keys.length) return `bit array size is incorrect, expecting: ${keys.length}`;
  if (parts.length < threshold || parts.length > signed.length) return `signature size is incorrect ${parts.length}`;
  const count = signed.filter(Boolean).length;
  if (count < threshold) return `not enough signatures set, have ${count}, expected ${threshold}`;
  let next = 0;
  for (const [i, member] of keys.entries()) {
    if (signed[i] !== true) continue;
    const part = parts[next++];
    if (part === undefined) return `the signature at index ${i} is missing`;
    const fault = signatureFault(member, part, documentOf, verify, `unable to verify signature at index ${i}`);
    if (fault !== undefined) return fault;
  }
  return undefined;
}
