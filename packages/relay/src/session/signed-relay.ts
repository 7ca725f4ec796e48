import { bytesEqual } from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import {
  decodeHttpResponsePayload,
  decodeRelayResponse,
  type HttpResponsePayload,
  type RelayMinerError,
  type RelayResponseFields,
  relayResponseDigest,
  type SessionHeader,
} from "@turnpike/protocol";

/** Checks an ECDSA signature of a supplier, off the event loop where there are threads for it. */
export type VerifyResponse = (digest: Uint8Array, signature: Uint8Array, publicKey: Uint8Array) => Promise<boolean>;

/** What a supplier's bytes are, once they are checked. */
export type SignedAnswer =
  | { readonly kind: "answer"; readonly response: HttpResponsePayload }
  /** The session's budget at this supplier is used up: it serves no more of this session, and that is no fault of it. */
  | { readonly kind: "over-limit" }
  /** Its session has ended, or has not begun, for this supplier: another one's may be used. */
  | { readonly kind: "session-over"; readonly text: string }
  /** It refuses to serve. */
  | { readonly kind: "refused"; readonly text: string }
  /** Not what this session's supplier may say: wrong signature, wrong session, changed payload, or no response at all. */
  | { readonly kind: "invalid"; readonly fault: InvalidResponse };

/** What is wrong with a response that is not valid. */
export type InvalidResponse = "malformed" | "session" | "payload-hash" | "signature";

/** Texts of the network's relay miners that say a session's stake is used up, or the supplier asks for less. */
const OVER_LIMIT =
  /session relay limit reached|claimable portion fully consumed|offchain rate limit hit by relayer proxy/;
const SESSION_OVER =
  /session expired|session ID mismatch|supplier does not belong to session|is ahead of the last committed block height/;

const invalid = (fault: InvalidResponse): SignedAnswer => ({ kind: "invalid", fault });

function refusalOf(text: string): SignedAnswer {
  if (OVER_LIMIT.test(text)) return { kind: "over-limit" };
  if (SESSION_OVER.test(text)) return { kind: "session-over", text };
  return { kind: "refused", text };
}

/** What an unsigned answer of a supplier says: its HTTP status is not 200. */
export function readRefusal(body: Uint8Array): SignedAnswer {
  // The texts that matter are short; a long body is some proxy's page.
  return refusalOf(Buffer.from(body.subarray(0, 2_048)).toString("utf8"));
}

function errorAnswer(error: RelayMinerError): SignedAnswer {
  // Code 7 of the real miner is its rate limit.
  if (error.codespace === "relayer_proxy" && error.code === 7) return { kind: "over-limit" };
  return refusalOf(`${error.description} ${error.message}`);
}

function isOfSession(header: SessionHeader | undefined, expected: SessionHeader): boolean {
  return (
    header !== undefined &&
    header.sessionId === expected.sessionId &&
    header.applicationAddress === expected.applicationAddress &&
    header.serviceId === expected.serviceId &&
    header.sessionStartBlockHeight === expected.sessionStartBlockHeight &&
    header.sessionEndBlockHeight === expected.sessionEndBlockHeight
  );
}

/** Undefined when a response is one of this session, with its payload as it was signed. */
export async function responseFault(
  response: RelayResponseFields,
  expected: { readonly header: SessionHeader; readonly publicKey: Uint8Array },
  verify: VerifyResponse,
): Promise<InvalidResponse | undefined> {
  if (!isOfSession(response.header, expected.header)) return "session";
  const { payloadHash, payload } = response;
  if (payloadHash.length > 0 && !bytesEqual(payloadHash, sha256(payload))) return "payload-hash";
  const isSigned = await verify(relayResponseDigest(response), response.signature, expected.publicKey);
  return isSigned ? undefined : "signature";
}

/**
 * Reads and checks the bytes of a RelayResponse. Nothing of a response that is not valid is looked at further, its error
 * least of all: anyone on the way could have written it.
 */
export async function readSignedAnswer(
  bytes: Uint8Array,
  expected: { readonly header: SessionHeader; readonly publicKey: Uint8Array },
  verify: VerifyResponse,
): Promise<SignedAnswer> {
  const response = decodeRelayResponse(bytes);
  if (response === undefined) return invalid("malformed");
  const fault = await responseFault(response, expected, verify);
  if (fault !== undefined) {
    // The older relay miner refuses with an unsigned response that has an error and no session.
    if (response.error !== undefined && response.signature.length === 0) return errorAnswer(response.error);
    return invalid(fault);
  }
  if (response.error !== undefined) return errorAnswer(response.error);
  const payload = decodeHttpResponsePayload(response.payload);
  if (payload === undefined || payload.statusCode < 100 || payload.statusCode > 599) return invalid("malformed");
  return { kind: "answer", response: payload };
}
