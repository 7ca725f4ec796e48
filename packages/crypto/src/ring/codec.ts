import { AppError } from "@turnpike/base";

/** Most members of a ring that is looked at when nothing else is said. Applications have a few gateways. */
export const MAX_RING_MEMBERS = 256;

const HEAD_BYTES = 4 + 32 + 33;
const MEMBER_BYTES = 32 + 33;

/** A ring signature as it stands on the wire: nothing is reduced, and the points may be none. */
export interface RingSignature {
  /** The challenge before the first member: 32 bytes. */
  readonly challenge: Uint8Array;
  /** The signer's key image: 33 bytes. Equal in all signatures of one key. */
  readonly image: Uint8Array;
  /** One response of 32 bytes a member. */
  readonly responses: readonly Uint8Array[];
  /** Compressed public keys (33 bytes) in the order of the ring. They may repeat. */
  readonly members: readonly Uint8Array[];
}

/**
 * Reads a ring signature: `BE32(n) ‖ c0 ‖ image ‖ n × (s_i ‖ P_i)`, 69 + 65n bytes. Bytes that follow are ignored, as
 * the chain ignores them. Undefined when there are no members, more than `maxMembers`, or too few bytes; nothing is
 * computed on the curve. The parts are views of `bytes`.
 */
export function decodeRingSignature(bytes: Uint8Array, maxMembers = MAX_RING_MEMBERS): RingSignature | undefined {
  if (bytes.length < HEAD_BYTES + MEMBER_BYTES) return undefined;
  const count = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0);
  if (count < 1 || count > maxMembers || bytes.length < HEAD_BYTES + MEMBER_BYTES * count) return undefined;
  const responses: Uint8Array[] = [];
  const members: Uint8Array[] = [];
  for (let offset = HEAD_BYTES; members.length < count; offset += MEMBER_BYTES) {
    responses.push(bytes.subarray(offset, offset + 32));
    members.push(bytes.subarray(offset + 32, offset + MEMBER_BYTES));
  }
  return { challenge: bytes.subarray(4, 36), image: bytes.subarray(36, HEAD_BYTES), responses, members };
}

/** The wire form of a ring signature. @throws AppError INTERNAL when a part has not its length. */
export function encodeRingSignature(signature: RingSignature): Uint8Array {
  const { challenge, image, responses, members } = signature;
  const fits =
    challenge.length === 32 &&
    image.length === 33 &&
    members.length > 0 &&
    members.length === responses.length &&
    responses.every(({ length }) => length === 32) &&
    members.every(({ length }) => length === 33);
  if (!fits) throw new AppError("INTERNAL", { detail: { ringMembers: members.length } });
  const bytes = new Uint8Array(HEAD_BYTES + MEMBER_BYTES * members.length);
  new DataView(bytes.buffer).setUint32(0, members.length);
  bytes.set(challenge, 4);
  bytes.set(image, 36);
  members.forEach((member, index) => {
    const offset = HEAD_BYTES + MEMBER_BYTES * index;
    bytes.set(responses[index] ?? member, offset);
    bytes.set(member, offset + 32);
  });
  return bytes;
}
