import { isAppError } from "@turnpike/base";
import type { CompactClosestProof, CompactProof } from "./closest-proof.ts";
import { GobCursor, gobFault, readItems, readStruct } from "./gob-reader.ts";
import { GOB, type GobField, GobTypes } from "./gob-types.ts";

/** Most bytes of a proof that is read when nothing else is said. */
export const MAX_PROOF_BYTES = 8 * 1024 * 1024;

// Go has no bound of its own here. A proof that means something has 256 at most.
const MOST_ITEMS = 65_536;

interface Reader {
  /** Throws when a field of this type cannot be read into ours. */
  readonly check: (types: GobTypes, type: number) => void;
  readonly read: (cursor: GobCursor, types: GobTypes, type: number) => void;
}

type Readers = Readonly<Record<string, Reader>>;

/**
 * Reads the bytes of a closest proof as Go's `encoding/gob` reads them into its struct: fields are found by name, whatever
 * the stream's type numbers are, unknown ones are passed over, those that are not sent are empty, and bytes after the
 * value are ignored. Undefined when Go would fail, when there are more than `maxBytes`, or when the stream uses what no
 * proof uses (interfaces, over 65,536 items, values nested over 512 times).
 */
export function decodeClosestProof(bytes: Uint8Array, maxBytes = MAX_PROOF_BYTES): CompactClosestProof | undefined {
  if (bytes.length > maxBytes) return undefined;
  try {
    return decode(bytes);
  } catch (error) {
    if (isAppError(error, "MALFORMED_REQUEST")) return undefined;
    throw error;
  }
}

function decode(bytes: Uint8Array): CompactClosestProof {
  const stream = new GobCursor(bytes);
  const types = new GobTypes();
  for (;;) {
    const message = new GobCursor(stream.bytes());
    const type = message.int();
    if (type >= 0) return readClosestProof(message, types, type);
    types.define(-type, message);
  }
}

// A type with an encoding of its own fits none of our fields.
const isPlain = (types: GobTypes, type: number): boolean => types.get(type)?.opaque !== true;

function requireType(holds: boolean): void {
  if (!holds) throw gobFault("type");
}

const bytesReader = (set: (bytes: Uint8Array) => void): Reader => ({
  check: (_, type) => requireType(type === GOB.bytes),
  read: (cursor) => set(cursor.bytes()),
});

const listReader = (set: (items: Uint8Array[]) => void): Reader => ({
  check: (types, type) => requireType(types.get(type)?.slice?.item === GOB.bytes && isPlain(types, type)),
  read: (cursor) => {
    const items: Uint8Array[] = [];
    readItems(cursor, cursor.uint(), MOST_ITEMS, () => items.push(cursor.bytes()));
    set(items);
  },
});

// Go makes no difference between a byte string that is empty and one that is not there.
const orUndefined = (bytes: Uint8Array): Uint8Array | undefined => (bytes.length === 0 ? undefined : bytes);

function readClosestProof(cursor: GobCursor, types: GobTypes, type: number): CompactClosestProof {
  const none: Uint8Array = new Uint8Array(0);
  const inner = {
    sideNodes: [] as readonly Uint8Array[],
    nonMembershipLeafData: undefined as Uint8Array | undefined,
    bitMask: none,
    numSideNodes: 0,
    siblingData: undefined as Uint8Array | undefined,
  } satisfies CompactProof;
  const innerReaders: Readers = {
    SideNodes: listReader((items) => {
      inner.sideNodes = items;
    }),
    NonMembershipLeafData: bytesReader((bytes) => {
      inner.nonMembershipLeafData = orUndefined(bytes);
    }),
    BitMask: bytesReader((bytes) => {
      inner.bitMask = bytes;
    }),
    NumSideNodes: {
      check: (_, int) => requireType(int === GOB.int),
      read: (at) => {
        inner.numSideNodes = at.int();
      },
    },
    SiblingData: bytesReader((bytes) => {
      inner.siblingData = orUndefined(bytes);
    }),
  };
  const proof = {
    path: none,
    flippedBits: [] as readonly Uint8Array[],
    depth: none,
    closestPath: none,
    closestValueHash: undefined as Uint8Array | undefined,
    closestProof: undefined as CompactProof | undefined,
  } satisfies CompactClosestProof;
  const readers: Readers = {
    Path: bytesReader((bytes) => {
      proof.path = bytes;
    }),
    FlippedBits: listReader((items) => {
      proof.flippedBits = items;
    }),
    Depth: bytesReader((bytes) => {
      proof.depth = bytes;
    }),
    ClosestPath: bytesReader((bytes) => {
      proof.closestPath = bytes;
    }),
    ClosestValueHash: bytesReader((bytes) => {
      proof.closestValueHash = orUndefined(bytes);
    }),
    ClosestProof: {
      check: (known, struct) => {
        requireType(isPlain(known, struct));
        checkFields(known, struct, innerReaders);
      },
      read: (at, known, struct) => {
        proof.closestProof = inner;
        readFields(at, known, struct, innerReaders);
      },
    },
  };
  const matched = checkFields(types, type, readers);
  // Go wants one of its fields among the stream's, when that has any.
  requireType(matched > 0 || types.get(type)?.fields?.length === 0);
  readFields(cursor, types, type, readers);
  return proof;
}

const readerOf = (readers: Readers, { name }: GobField): Reader | undefined =>
  Object.hasOwn(readers, name) ? readers[name] : undefined;

// Go looks at the types of all fields before it reads any.
function checkFields(types: GobTypes, type: number, readers: Readers): number {
  const fields = types.get(type)?.fields;
  if (fields === undefined) throw gobFault("type");
  let matched = 0;
  for (const field of fields) {
    requireType(field.name !== "");
    const reader = readerOf(readers, field);
    if (reader === undefined) types.checkSkippable(field.type);
    else {
      reader.check(types, field.type);
      matched += 1;
    }
  }
  return matched;
}

function readFields(cursor: GobCursor, types: GobTypes, type: number, readers: Readers): void {
  const fields = types.get(type)?.fields ?? [];
  readStruct(cursor, fields.length, (index) => {
    const field = fields[index];
    if (field === undefined) return;
    const reader = readerOf(readers, field);
    if (reader === undefined) types.skip(field.type, cursor);
    else reader.read(cursor, types, field.type);
  });
}
