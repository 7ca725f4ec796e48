import type { Bytes } from "@turnpike/chain-store";
import { type CompactClosestProof, closestValue, closestWeight, decodeClosestProof } from "@turnpike/crypto";
import { createMessage, decodeMessage, service } from "@turnpike/proto";
import { done, fail, type Outcome } from "../../state/outcome.ts";
import { boundsFault } from "../../state/read-message.ts";
import { PROOF } from "./errors.ts";

/** Most bytes of a proof that is read. A transaction of the network's mempools has no more. */
export const MOST_PROOF_BYTES = 1_048_576;

const PATH_BYTES = 32;
const MOST_SIDE_NODES = PATH_BYTES * 8;
const MOST_DEPTH_BYTES = 2;

/** The relay that a proof is about, and the proof itself. */
export interface ProvenLeaf {
  readonly closest: CompactClosestProof;
  /** The relay as it is in the trie. */
  readonly relayBytes: Bytes;
  /** Compute units that the trie gives the relay. */
  readonly weight: bigint;
  readonly request: service.RelayRequest;
  readonly response: service.RelayResponse;
}

function setBits(mask: Bytes): number {
  let count = 0;
  for (const byte of mask) for (let rest = byte; rest !== 0; rest &= rest - 1) count++;
  return count;
}

/** Why a proof cannot be expanded, which fails its transaction (smt 0.14.1 `DecompactClosestProof`); undefined when it can. */
function compactFault({ path, depth, flippedBits, closestProof }: CompactClosestProof): string | undefined {
  if (path.length !== PATH_BYTES) return `invalid path length: got ${path.length}, want ${PATH_BYTES}`;
  if (depth.length > MOST_DEPTH_BYTES) return "invalid depth";
  if (flippedBits.some((bit) => bit.length > MOST_DEPTH_BYTES)) return "invalid compressed flipped bit";
  if (closestProof === undefined) return "no closest proof";
  const { numSideNodes: nodes, bitMask, sideNodes } = closestProof;
  if (!Number.isInteger(nodes) || nodes < 0 || nodes > MOST_SIDE_NODES) {
    return `invalid number of side nodes: got ${sideNodes.length}, min is 0 and max is ${MOST_SIDE_NODES}`;
  }
  const maskBytes = Math.ceil(nodes / 8);
  if (bitMask.length !== maskBytes) return `invalid bit mask length: got ${bitMask.length} want ${maskBytes}`;
  const given = nodes - setBits(bitMask);
  if (nodes > 0 && sideNodes.length !== given) {
    return `invalid number of side nodes: got ${sideNodes.length} want ${given}`;
  }
  let needed = 0;
  for (let i = 0; i < nodes; i++) needed += (((bitMask[i >> 3] ?? 0) >> (7 - (i & 7))) & 1) ^ 1;
  // A mask with bits behind its end leaves too few nodes.
  return needed > sideNodes.length ? "invalid bit mask" : undefined;
}

const MOST_GOB_MESSAGE = 2n ** 33n;

/** Why Go's `gob` does not read a proof, which is a row of messages that each begin with their length. */
function gobFault(bytes: Bytes): string {
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at] ?? 0;
    at++;
    let length = BigInt(first);
    if (first >= 0x80) {
      // The first byte is minus the number of bytes of a longer length.
      const size = 0x100 - first;
      if (size > 8) return "gob: encoded unsigned integer out of range";
      if (at + size > bytes.length) return "unexpected EOF";
      length = BigInt(`0x${Buffer.from(bytes.subarray(at, at + size)).toString("hex")}`);
      at += size;
    }
    if (length >= MOST_GOB_MESSAGE) return "invalid message length";
    if (length > BigInt(bytes.length - at)) return "unexpected EOF";
    if (length === 0n) return "EOF";
    // An odd number is negative, and a type's definition; a value of a type ends the row.
    const head = bytes[at] ?? 0;
    const sign = head < 0x80 ? head : (bytes[at + 0x100 - head] ?? 0);
    if ((sign & 1) === 0) return "malformed";
    at += Number(length);
  }
  return "EOF";
}

/** Reads a proof down to its relay. What fails here fails the transaction; nothing is computed on the curve. */
export function readLeaf(bytes: Bytes): Outcome<ProvenLeaf> {
  const closest = decodeClosestProof(bytes, MOST_PROOF_BYTES);
  if (closest === undefined) {
    const fault = bytes.length > MOST_PROOF_BYTES ? "too large" : gobFault(bytes);
    return fail(PROOF.invalidProof, `failed to unmarshal sparse compact merkle closest proof: ${fault}`);
  }
  const wrong = compactFault(closest);
  if (wrong !== undefined) {
    return fail(PROOF.invalidProof, `failed to decompact sparse erkle closest proof: bad proof\n${wrong}`);
  }
  const empty = closest.closestValueHash === undefined;
  const relayBytes = empty ? new Uint8Array(0) : closestValue(closest);
  const weight = empty ? 0n : closestWeight(closest);
  if (relayBytes === undefined || weight === undefined) {
    return fail(PROOF.invalidProof, "failed to read the value of the closest leaf");
  }
  const excess = boundsFault(service.RelaySchema, relayBytes);
  if (excess !== undefined) return fail(PROOF.invalidRelay, `failed to unmarshal relay: ${excess}`);
  const relay = decodeMessage(service.RelaySchema, relayBytes);
  if (!relay.ok) return fail(PROOF.invalidRelay, `failed to unmarshal relay: ${relay.fault}`);
  const { req, res } = relay.message;
  return done({
    closest,
    relayBytes,
    weight,
    request: req ?? createMessage(service.RelayRequestSchema),
    response: res ?? createMessage(service.RelayResponseSchema),
  });
}
