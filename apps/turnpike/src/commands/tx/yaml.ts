import { AppError, isRecord, nearest } from "@turnpike/base";
import { type Amount, parseAmount } from "@turnpike/chain-client";
import { addressToBytes } from "@turnpike/crypto";
import { parseDocument } from "yaml";

/** The largest stake file that is read. */
export const MAX_STAKE_FILE_BYTES = 1_048_576;

function shown(value: unknown): string {
  const plain = (_: string, inner: unknown): unknown => (typeof inner === "bigint" ? Number(inner) : inner);
  return (JSON.stringify(value, plain) ?? "nothing").slice(0, 80);
}

/** A value in a stake file, with where it stands. */
export class YamlValue {
  readonly file: string;
  /** Such as `services[0].endpoints[1].rpc_type`; "" for the whole. */
  readonly path: string;
  readonly value: unknown;
  readonly #addresses: ReadonlyMap<string, string>;

  /** @param addresses of accounts, by the name of their key, which stands for them */
  constructor(file: string, path: string, value: unknown, addresses: ReadonlyMap<string, string> = new Map()) {
    this.file = file;
    this.path = path;
    this.value = value;
    this.#addresses = addresses;
  }

  /** Another value of the same file. */
  at(path: string, value: unknown): YamlValue {
    return new YamlValue(this.file, path, value, this.#addresses);
  }

  /** Refuses the value, saying where it stands and how it is fixed. */
  fail(what: string): never {
    const at = this.path === "" ? "the file" : this.path;
    throw new AppError("CONFIG_INVALID", { message: `${this.file}: ${at}: ${what}` });
  }

  /** The members of a mapping, none but the known ones. */
  members(known: readonly string[]): Readonly<Record<string, YamlValue | undefined>> {
    const entries = this.entries();
    for (const [key] of entries) {
      if (known.includes(key)) continue;
      const near = nearest(key, known);
      const fix = near === undefined ? `the keys are ${known.join(", ")}` : `did you mean ${near}?`;
      this.at(this.#inner(key), undefined).fail(`there is no such key; ${fix}`);
    }
    return Object.fromEntries(entries);
  }

  /** The members of a mapping with any keys, in their order. */
  entries(): readonly (readonly [string, YamlValue])[] {
    if (!isRecord(this.value)) return this.fail(`expected keys with values, not ${shown(this.value)}`);
    return Object.entries(this.value)
      .filter(([, value]) => value !== null)
      .map(([key, value]) => [key, this.at(this.#inner(key), value)]);
  }

  /** The items of a list. */
  items(): readonly YamlValue[] {
    if (!Array.isArray(this.value))
      return this.fail(`expected a list, each item behind "- ", not ${shown(this.value)}`);
    return this.value.map((item: unknown, at) => this.at(`${this.path}[${at}]`, item));
  }

  text(): string {
    if (typeof this.value === "string" && this.value !== "") return this.value;
    if (typeof this.value === "number" || typeof this.value === "bigint") return this.value.toString();
    return this.fail(`expected a text, not ${shown(this.value)}`);
  }

  whole(least: bigint, most: bigint): bigint {
    const found = typeof this.value === "bigint" ? this.value : undefined;
    if (found !== undefined && found >= least && found <= most) return found;
    return this.fail(`expected a whole number from ${least} to ${most}, not ${shown(this.value)}`);
  }

  /** An amount of upokt. */
  upokt(least: bigint): Amount {
    const amount = typeof this.value === "string" ? parseAmount(this.value) : undefined;
    if (amount === undefined) {
      return this.fail(`expected an amount with its denomination, such as 1000000upokt, not ${shown(this.value)}`);
    }
    if (amount.denom !== "upokt") return this.fail(`expected upokt, not ${amount.denom}`);
    if (amount.amount < least) return this.fail(`expected at least ${least}upokt`);
    return amount;
  }

  /** An address, or that of a key's name. */
  address(): string {
    const text = this.text();
    if (addressToBytes(text) !== undefined) return text;
    const known = this.#addresses.get(text);
    if (known !== undefined) return known;
    const near = nearest(text, [...this.#addresses.keys()]);
    const fix = near === undefined ? "expected pokt1…, or the name of a key" : `did you mean the key ${near}?`;
    return this.fail(`${shown(text)} is no address; ${fix}`);
  }

  serviceId(): string {
    const text = this.text();
    if (/^[a-zA-Z0-9_-]{1,42}$/.test(text)) return text;
    return this.fail(`${shown(text)} is no id of a service; expected up to 42 letters, digits, - and _`);
  }

  #inner(key: string): string {
    return this.path === "" ? key : `${this.path}.${key}`;
  }
}

/** The value under a key that must be there. */
export function needed(
  within: YamlValue,
  members: Readonly<Record<string, YamlValue | undefined>>,
  key: string,
): YamlValue {
  const found = members[key];
  return found ?? within.fail(`${key} is missing`);
}

/**
 * Parses a stake file.
 * @param addresses of accounts, by the name of their key, which stands for them
 * @throws AppError CONFIG_INVALID
 */
export function parseYaml(file: string, text: string, addresses?: ReadonlyMap<string, string>): YamlValue {
  const document = parseDocument(text, { intAsBigInt: true, uniqueKeys: true, version: "1.2" });
  const [fault] = document.errors;
  if (fault !== undefined) throw new AppError("CONFIG_INVALID", { message: `${file}: ${fault.message.trim()}` });
  try {
    return new YamlValue(file, "", document.toJS({ maxAliasCount: 100 }), addresses);
  } catch (cause) {
    throw new AppError("CONFIG_INVALID", { message: `${file}: ${String(cause)}`, cause });
  }
}
