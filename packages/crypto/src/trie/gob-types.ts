import { type GobCursor, gobFault, readItems, readStruct } from "./gob-reader.ts";

/** A field of a struct in a gob stream. Names are any bytes: one character each. */
export interface GobField {
  readonly name: string;
  readonly type: number;
}

/** A type that a gob stream defines. A hostile one may be several things at once: Go's order is that of the members. */
export interface GobType {
  array?: { readonly item: number; readonly length: number };
  slice?: { readonly item: number };
  fields?: readonly GobField[];
  map?: { readonly key: number; readonly value: number };
  /** True when its values are byte strings that only the type itself understands. */
  opaque?: boolean;
}

/** Numbers of the types that need no definition. */
export const GOB = { bool: 1, int: 2, uint: 3, float: 4, bytes: 5, string: 6, complex: 7 } as const;

const FIRST_DEFINED = 64;
const MOST_TYPES = 256;
const MOST_FIELDS = 256;
const MOST_NESTING = 512;

/** The types of one stream: bounded, and each defined once. */
export class GobTypes {
  readonly #types = new Map<number, GobType>();

  /** The definition of a type; undefined when there is none. */
  get(type: number): GobType | undefined {
    return this.#types.get(type);
  }

  /** Reads the definition of a type. */
  define(type: number, cursor: GobCursor): void {
    if (type < FIRST_DEFINED || this.#types.has(type) || this.#types.size >= MOST_TYPES) throw gobFault("type");
    const defined: GobType = {};
    readStruct(cursor, 7, (index) => {
      if (index === 0) defined.array = readArrayType(cursor);
      else if (index === 1) defined.slice = { item: readNumbers(cursor, 2)[0] };
      else if (index === 2) defined.fields = readStructType(cursor);
      else if (index === 3) defined.map = readMapType(cursor);
      else {
        readStruct(cursor, 1, () => skipCommon(cursor));
        defined.opaque = true;
      }
    });
    if (cursor.left > 0) throw gobFault("type");
    this.#types.set(type, defined);
  }

  /** Throws when a value of this type could not be passed over, before there is one. Interfaces cannot. */
  checkSkippable(type: number, seen = new Set<number>()): void {
    if ((type >= GOB.bool && type <= GOB.complex) || seen.has(type)) return;
    seen.add(type);
    const { array, map, slice, fields, opaque } = this.#types.get(type) ?? {};
    if (array !== undefined) this.checkSkippable(array.item, seen);
    else if (map !== undefined) {
      this.checkSkippable(map.key, seen);
      this.checkSkippable(map.value, seen);
    } else if (slice !== undefined) this.checkSkippable(slice.item, seen);
    else if (fields !== undefined) for (const field of fields) this.checkSkippable(field.type, seen);
    else if (opaque !== true) throw gobFault("type");
  }

  /** Passes over a value, which may be nested. */
  skip(type: number, cursor: GobCursor, nesting = 0): void {
    if (nesting > MOST_NESTING) throw gobFault("nesting");
    if (type === GOB.bytes || type === GOB.string) cursor.bytes();
    else if (type >= GOB.bool && type <= GOB.complex) {
      cursor.skipUint();
      if (type === GOB.complex) cursor.skipUint();
    } else this.#skipDefined(this.#types.get(type) ?? {}, cursor, nesting + 1);
  }

  #skipDefined({ array, map, slice, fields, opaque }: GobType, cursor: GobCursor, nesting: number): void {
    const list = array ?? slice;
    if (map !== undefined && array === undefined) {
      readItems(cursor, cursor.uint(), cursor.left, () => {
        this.skip(map.key, cursor, nesting);
        this.skip(map.value, cursor, nesting);
      });
    } else if (list !== undefined) {
      const count = cursor.uint();
      if (array !== undefined && count !== array.length) throw gobFault("array");
      readItems(cursor, count, cursor.left, () => this.skip(list.item, cursor, nesting));
    } else if (fields !== undefined) {
      readStruct(cursor, fields.length, (index) => this.skip(fields[index]?.type ?? 0, cursor, nesting));
    } else if (opaque === true) cursor.bytes();
    else throw gobFault("type");
  }
}

// The definitions are values of Go's own struct types, whose first field holds a name and a number that are not needed.
function skipCommon(cursor: GobCursor): void {
  readStruct(cursor, 2, (index) => {
    if (index === 0) cursor.bytes();
    else cursor.int();
  });
}

function readNumbers(cursor: GobCursor, fields: number): [number, number] {
  const numbers: [number, number] = [0, 0];
  readStruct(cursor, fields, (index) => {
    if (index === 0) skipCommon(cursor);
    else numbers[index === 1 ? 0 : 1] = cursor.int();
  });
  return numbers;
}

function readArrayType(cursor: GobCursor): { readonly item: number; readonly length: number } {
  const [item, length] = readNumbers(cursor, 3);
  return { item, length };
}

function readMapType(cursor: GobCursor): { readonly key: number; readonly value: number } {
  const [key, value] = readNumbers(cursor, 3);
  return { key, value };
}

function readStructType(cursor: GobCursor): readonly GobField[] {
  const fields: GobField[] = [];
  readStruct(cursor, 2, (index) => {
    if (index === 0) {
      skipCommon(cursor);
      return;
    }
    readItems(cursor, cursor.uint(), MOST_FIELDS, () => {
      const field = { name: "", type: 0 };
      readStruct(cursor, 2, (part) => {
        if (part === 0) field.name = Buffer.from(cursor.bytes()).toString("latin1");
        else field.type = cursor.int();
      });
      fields.push(field);
    });
  });
  return fields;
}
