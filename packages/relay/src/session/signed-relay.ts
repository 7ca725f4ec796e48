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

/** What the check of a signature found; `unchecked` says nothing of it. */
export type SignatureVerdict = "valid" | "invalid" | "unchecked";

/** Checks an ECDSA signature of a supplier, off the event loop where there are threads for it. */
export type VerifyResponse = (
  digest: Uint8Array,
  signature: Uint8Array,
  publicKey: Uint8Array,
) => Promise<SignatureVerdict>;

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
  | { readonly kind: "invalid"; readonly fault: InvalidResponse }
  /** We had no time to check it: it must not be used, and that says nothing of it. */
  | { readonly kind: "unchecked" };

/** What is wrong with a response that is not valid. */
export type InvalidResponse = "malformed" | "session" | "payload-hash" | "signature";

/** A frame of a supplier's WebSocket, once it is checked. */
export type SignedFrame =
  | { readonly kind: "payload"; readonly payload: Uint8Array }
  | Exclude<SignedAnswer, { readonly kind: "answer" }>;

/** Texts of the network's relay miners that say a session's stake is used up, or the supplier asks for less. */
const OVER_LIMIT =
  /session relay limit reached|claimable portion fully consumed|stake limit exceeded|offchain rate limit hit by relayer proxy/;
const SESSION_OVER =
  /session expired|session ID mismatch|supplier does not belong to session|is ahead of the last committed block height/;

type Refusal = Extract<SignedAnswer, { readonly kind: "over-limit" | "session-over" | "refused" }>;

const invalid = (fault: InvalidResponse) => ({ kind: "invalid", fault }) as const;

function refusalOf(text: string): Refusal {
  if (OVER_LIMIT.test(text)) return { kind: "over-limit" };
  if (SESSION_OVER.test(text)) return { kind: "session-over", text };
  return { kind: "refused", text };
}

/** What an unsigned answer of a supplier says: its status, of HTTP or gRPC, is not that of success. */
export function readRefusal(body: Uint8Array): Refusal {
  // The texts that matter are short; a long body is some proxy's page.
  return refusalOf(Buffer.from(body.subarray(0, 2_048)).toString("utf8"));
}

function errorAnswer(error: RelayMinerError): Refusal {
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
async function responseFault(
  response: RelayResponseFields,
  expected: { readonly header: SessionHeader; readonly publicKey: Uint8Array },
  verify: VerifyResponse,
): Promise<InvalidResponse | "unchecked" | undefined> {
  if (!isOfSession(response.header, expected.header)) return "session";
  const { payloadHash, payload } = response;
  if (payloadHash.length > 0 && !bytesEqual(payloadHash, sha256(payload))) return "payload-hash";
  const verdict = await verify(relayResponseDigest(response), response.signature, expected.publicKey);
  if (verdict === "unchecked") return verdict;
  return verdict === "valid" ? undefined : "signature";
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
  const frame = await readSignedFrame(bytes, expected, verify);
  if (frame.kind !== "payload") return frame;
  const response = decodeHttpResponsePayload(frame.payload);
  if (response === undefined || response.statusCode < 100 || response.statusCode > 599) return invalid("malformed");
  return { kind: "answer", response };
}

/** As {@link readSignedAnswer} does, with the payload as it came: over a WebSocket it is the back-end's own frame. */
export async function readSignedFrame(
  bytes: Uint8Array,
  expected: { readonly header: SessionHeader; readonly publicKey: Uint8Array },
  verify: VerifyResponse,
): Promise<SignedFrame> {
  const response = decodeRelayResponse(bytes);
  if (response === undefined) return invalid("malformed");
  const fault = await responseFault(response, expected, verify);
  if (fault === "unchecked") return { kind: "unchecked" };
  if (fault !== undefined) {
    // The older relay miner refuses with an unsigned response that has an error and no session.
    if (response.error !== undefined && response.signature.length === 0) return errorAnswer(response.error);
    return invalid(fault);
  }
  if (response.error !== undefined) return errorAnswer(response.error);
  return { kind: "payload", payload: response.payload };
}
