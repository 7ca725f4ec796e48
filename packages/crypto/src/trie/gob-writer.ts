import { concatBytes } from "@turnpike/base";
import type { CompactClosestProof } from "./closest-proof.ts";

// The definitions of the proof's types, which Go writes before the first value: types 65, 66 and 67.
const TYPES = Buffer.from(
  "ff88ff810301011f537061727365436f6d706163744d65726b6c65436c6f7365737450726f6f6601ff82000106010450617468010a00010b466c" +
    "69707065644269747301ff840001054465707468010a00010b436c6f7365737450617468010a000110436c6f7365737456616c75654861736801" +
    "0a00010c436c6f7365737450726f6f6601ff8600000017ff83020101095b5d5b5d75696e743801ff8400010a00007cff8503010118537061727365" +
    "436f6d706163744d65726b6c6550726f6f6601ff860001050109536964654e6f64657301ff840001154e6f6e4d656d626572736869704c6561" +
    "6644617461010a0001074269744d61736b010a00010c4e756d536964654e6f646573010400010b5369626c696e6744617461010a000000",
  "hex",
);
const PROOF_TYPE = 65;

function uint(value: number): Uint8Array {
  if (value < 128) return Uint8Array.of(value);
  const bytes: number[] = [];
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return Uint8Array.of(256 - bytes.length, ...bytes);
}

function counted(bytes: Uint8Array): readonly Uint8Array[] {
  return [uint(bytes.length), bytes];
}

/** Writes the fields of a struct: zero values are left out, and a field says how many it is behind the one before. */
class Fields {
  readonly #parts: Uint8Array[] = [];
  #behind = 0;

  field(parts: readonly Uint8Array[] | undefined): this {
    this.#behind += 1;
    if (parts === undefined) return this;
    this.#parts.push(uint(this.#behind), ...parts);
    this.#behind = 0;
    return this;
  }

  bytes(bytes: Uint8Array | undefined): this {
    return this.field(bytes === undefined || bytes.length === 0 ? undefined : counted(bytes));
  }

  list(items: readonly Uint8Array[]): this {
    return this.field(items.length === 0 ? undefined : [uint(items.length), ...items.flatMap(counted)]);
  }

  end(): readonly Uint8Array[] {
    return [...this.#parts, Uint8Array.of(0)];
  }
}

/** The bytes of a closest proof as MsgSubmitProof carries them: what Go's `encoding/gob` writes for it. */
export function encodeClosestProof(proof: CompactClosestProof): Uint8Array {
  const inner = proof.closestProof;
  const value = new Fields()
    .bytes(proof.path)
    .list(proof.flippedBits)
    .bytes(proof.depth)
    .bytes(proof.closestPath)
    .bytes(proof.closestValueHash)
    .field(
      inner === undefined
        ? undefined
        : new Fields()
            .list(inner.sideNodes)
            .bytes(inner.nonMembershipLeafData)
            .bytes(inner.bitMask)
            .field(inner.numSideNodes === 0 ? undefined : [uint(inner.numSideNodes * 2)])
            .bytes(inner.siblingData)
            .end(),
    )
    .end();
  const message = concatBytes(uint(PROOF_TYPE * 2), ...value);
  return concatBytes(TYPES, uint(message.length), message);
}
