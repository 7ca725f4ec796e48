import { AppError, base64ToBytes } from "@turnpike/base";
import { addressToBytes } from "@turnpike/crypto";
import { type ChainClientFlags, findKey } from "../../wiring/chain-client.ts";

/** Part of a list, as requests have it. */
export interface PageFields {
  readonly key?: Uint8Array;
  readonly offset?: bigint;
  readonly limit?: bigint;
  readonly countTotal?: boolean;
  readonly reverse?: boolean;
}

type Flags = Readonly<Record<string, unknown>>;

/** Reads the arguments and flags of a query. */
export class QueryInput {
  readonly args: readonly string[];
  readonly #flags: Flags;
  readonly #places: ChainClientFlags;

  constructor(args: readonly string[], flags: Flags, places: ChainClientFlags) {
    this.args = args;
    this.#flags = flags;
    this.#places = places;
  }

  /** A flag's text; "" when it was not given. */
  text(flag: string): string {
    const value = this.#flags[flag];
    return typeof value === "string" ? value : "";
  }

  /** A flag that is given alone, or with true or false. @throws AppError USAGE */
  yes(flag: string, otherwise = false): boolean {
    const value = this.#flags[flag];
    if (value === undefined) return otherwise;
    if (typeof value === "boolean") return value;
    if (value === "true" || value === "false") return value === "true";
    throw new AppError("USAGE", { message: `--${flag}: expected true or false, not ${JSON.stringify(value)}.` });
  }

  /** A whole number; 0 without a text. @throws AppError USAGE */
  whole(text: string | undefined, what: string): bigint {
    if (text === undefined || text === "") return 0n;
    if (/^-?\d{1,19}$/.test(text)) return BigInt(text);
    throw new AppError("USAGE", { message: `${what}: expected a whole number, not ${JSON.stringify(text)}.` });
  }

  /** An address, or that of a key's name; anything else is left to the chain to judge. */
  async address(text = ""): Promise<string> {
    if (text === "" || text.startsWith("pokt") || addressToBytes(text) !== undefined) return text;
    return findKey(text, this.#places).then(
      ({ address }) => address,
      () => text,
    );
  }

  /** The part of a list that is wanted; nothing when no flag says so. @throws AppError USAGE */
  page(): { readonly pagination?: PageFields } {
    const flag = (name: string): string => {
      const plain = this.text(name);
      return plain === "" ? this.text(`page${name[0]?.toUpperCase()}${name.slice(1)}`) : plain;
    };
    const limit = this.whole(flag("limit"), "--limit");
    const page = this.whole(this.text("page"), "--page");
    const offset = this.whole(flag("offset"), "--offset");
    const keyText = this.text("pageKey");
    const key = base64ToBytes(keyText);
    if (key === undefined) throw new AppError("USAGE", { message: "--page-key: expected base64." });
    const fields: PageFields = {
      ...(limit > 0n ? { limit } : {}),
      ...(page > 1n ? { offset: (page - 1n) * (limit > 0n ? limit : 100n) } : offset > 0n ? { offset } : {}),
      ...(keyText === "" ? {} : { key }),
      ...(this.yes("countTotal") || this.yes("pageCountTotal") ? { countTotal: true } : {}),
      ...(this.yes("reverse") || this.yes("pageReverse") ? { reverse: true } : {}),
    };
    return Object.keys(fields).length === 0 ? {} : { pagination: fields };
  }

  /** One of a list of filters. @throws AppError USAGE when there are more */
  oneOf<T>(filters: readonly (T | undefined)[], names: string): T | undefined {
    const given = filters.filter((filter) => filter !== undefined);
    if (given.length > 1) throw new AppError("USAGE", { message: `Give one of ${names}, not more.` });
    return given[0];
  }
}
