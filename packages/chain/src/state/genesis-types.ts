import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { type AccountAddress, bytesToHex, hexToBytes, isRecord } from "@turnpike/base";
import { toApiJson } from "@turnpike/proto";
import { addressFault, parseAccount } from "./addresses.ts";
import { isHeight } from "./heights.ts";
import { type Parsed, parsedRecord } from "./parsed.ts";
import { readJson } from "./read-message.ts";
import { strictText } from "./strict-values.ts";
import type { TextKind } from "./text-kinds.ts";

/** A value of a genesis, or why its JSON is not one. */
export type GenesisRead<V> = { readonly ok: true; readonly value: V } | { readonly ok: false; readonly fault: string };

/**
 * Type of a value in a genesis that no message of the real chain has. Its texts are read as those of messages are: an address
 * and a number enter the state in one form.
 */
export interface GenesisType<V> {
  read(json: unknown): GenesisRead<V>;
  /** JSON of a value, as `read` takes it. */
  write(value: V): unknown;
  /** Kinds of its texts, by the names of their fields; the name of a value that is a text itself is empty. */
  readonly texts: Readonly<Record<string, TextKind>>;
  /** Messages inside it. */
  readonly schemas: readonly DescMessage[];
}

/** Value of a type. */
export type ValueOf<Type> = Type extends GenesisType<infer V> ? V : never;

type Fields = Readonly<Record<string, GenesisType<unknown>>>;
type RecordOf<F extends Fields> = { readonly [Name in keyof F]: ValueOf<F[Name]> };

const DIGITS = /^\d{1,20}$/;
const refused = (fault: string): { readonly ok: false; readonly fault: string } => ({ ok: false, fault });
const accepted = <V>(value: V): { readonly ok: true; readonly value: V } => ({ ok: true, value });
const noFault = (): undefined => undefined;

function typeOfText(kind: TextKind, faultOf: (text: string) => string | undefined): GenesisType<string> {
  return {
    read(json) {
      if (typeof json !== "string") return refused("not a text");
      const strict = strictText(json, kind);
      if (!strict.ok) return strict;
      const fault = faultOf(strict.text);
      return fault === undefined ? accepted(strict.text) : refused(fault);
    },
    write: (text) => text,
    texts: { "": kind },
    schemas: [],
  };
}

/** Address of an account that is not paid: a key, or an operator. */
export const addressType = typeOfText("account", (text) => addressFault(text));

/** Address of an account that is paid. */
export const accountType: GenesisType<AccountAddress> = {
  read(json) {
    if (typeof json !== "string") return refused("not a text");
    const parsed = parseAccount(json);
    return parsed.ok ? accepted(parsed.value) : refused(parsed.fault.text);
  },
  write: (address) => address,
  texts: { "": "account" },
  schemas: [],
};

/** A text that is none of the other types. */
export const textType = (faultOf: (text: string) => string | undefined = noFault): GenesisType<string> =>
  typeOfText("text", faultOf);

/** A whole number of at most 64 bits, which JSON has as a text. */
export function numberType(faultOf: (value: bigint) => string | undefined): GenesisType<bigint> {
  return {
    read(json) {
      if (typeof json !== "string" || !DIGITS.test(json)) return refused("not a whole number in a text");
      const value = BigInt(json);
      const fault = faultOf(value);
      return fault === undefined ? accepted(value) : refused(fault);
    },
    write: (value) => value.toString(),
    texts: {},
    schemas: [],
  };
}

/** Height of a block, or 0. */
export const heightType = numberType((height) => (isHeight(height) ? undefined : "a height that no block has"));

/** A number of bytes in hex. */
export function hexType(numBytes: number): GenesisType<Uint8Array> {
  return {
    read(json) {
      const bytes = typeof json === "string" ? hexToBytes(json) : undefined;
      return bytes?.length === numBytes ? accepted(bytes) : refused(`not ${numBytes} bytes in hex`);
    },
    write: (bytes) => bytesToHex(bytes),
    texts: {},
    schemas: [],
  };
}

/** A message of the real chain. */
export function messageType<Desc extends DescMessage>(
  schema: Desc,
  faultOf: (message: MessageShape<Desc>) => string | undefined,
): GenesisType<Parsed<MessageShape<Desc>>> {
  return {
    read(json) {
      const read = readJson(schema, json);
      if (!read.ok) return read;
      const fault = faultOf(read.message);
      return fault === undefined ? accepted(parsedRecord<MessageShape<Desc>>(read.message)) : refused(fault);
    },
    write: (message) => toApiJson(schema, message as MessageShape<Desc>),
    texts: {},
    schemas: [schema],
  };
}

/** A value, or `null` for none. */
export function optionalType<V>(type: GenesisType<V>): GenesisType<V | undefined> {
  return {
    ...type,
    read: (json) => (json === null ? accepted(undefined) : type.read(json)),
    write: (value) => (value === undefined ? null : type.write(value)),
  };
}

function named(name: string, texts: GenesisType<unknown>["texts"]): [string, TextKind][] {
  return Object.entries(texts).map(([inner, kind]) => [inner === "" ? name : `${name}.${inner}`, kind]);
}

/** An object that has all of these fields, and no other. */
export function recordType<F extends Fields>(fields: F): GenesisType<RecordOf<F>> {
  const entries = Object.entries(fields);
  return {
    read(json) {
      if (!isRecord(json)) return refused("not an object");
      const foreign = Object.keys(json).find((name) => !Object.hasOwn(fields, name));
      if (foreign !== undefined) return refused(`there is no field ${JSON.stringify(foreign)}`);
      const values: Record<string, unknown> = {};
      for (const [name, type] of entries) {
        const read = type.read(json[name]);
        if (!read.ok) return refused(`${name}: ${read.fault}`);
        values[name] = read.value;
      }
      return accepted(values as RecordOf<F>);
    },
    write: (value) => Object.fromEntries(entries.map(([name, type]) => [name, type.write(value[name])])),
    texts: Object.fromEntries(entries.flatMap(([name, { texts }]) => named(name, texts))),
    schemas: entries.flatMap(([, { schemas }]) => schemas),
  };
}

/** An object of which one field, a text, names the type. */
export function variantType<Name extends string, V extends Readonly<Record<Name, string>>>(
  field: Name,
  types: ReadonlyMap<string, GenesisType<V>>,
): GenesisType<V> {
  const all = [...types];
  const typeOf = (name: unknown): GenesisType<V> | undefined =>
    typeof name === "string" ? types.get(name) : undefined;
  return {
    read(json) {
      const type = typeOf(isRecord(json) ? json[field] : undefined);
      return type === undefined ? refused(`${field}: not one of ${[...types.keys()].join(", ")}`) : type.read(json);
    },
    write: (value) => typeOf(value[field])?.write(value),
    texts: Object.fromEntries(all.flatMap(([name, { texts }]) => named(name, texts))),
    schemas: all.flatMap(([, { schemas }]) => schemas),
  };
}

/** A list of values of one type. */
export function listType<V>(type: GenesisType<V>): GenesisType<readonly V[]> {
  return {
    ...type,
    read(json) {
      if (!Array.isArray(json)) return refused("not a list");
      const values: V[] = [];
      for (const [at, item] of (json as readonly unknown[]).entries()) {
        const read = type.read(item);
        if (!read.ok) return refused(`entry ${at}: ${read.fault}`);
        values.push(read.value);
      }
      return accepted(values);
    },
    write: (values) => values.map((value) => type.write(value)),
  };
}
