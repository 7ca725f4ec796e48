import { AppError, bytesToUtf8, utf8ToBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { type Codec, keptCodec, noKey } from "./codecs.ts";
import { Collection } from "./collection.ts";
import { type Context, unmetered } from "./context.ts";
import { type GenesisType, heightType, listType, recordType, textType } from "./genesis-types.ts";

/** Name of the module that changes the rules, and of its part of the state. */
export const UPGRADE_MODULE = "upgrade";

/**
 * The names of all rules that blocks were ever run by, in their order; the first are those that this list began with. A
 * version that changes what a block does appends a name here (or none when it changes nothing), and keeps running blocks
 * before the upgrade as they were run. Names never leave: a node that begins from the genesis needs all of them.
 */
export const RULES = ["v1"] as const;

/** The rules of a chain whose state, or genesis, names none. */
export const FIRST_RULES: string = RULES[0];

/** Rules that a program can run blocks by. */
export interface RuleSet {
  readonly name: string;
  /** Changes the state into what the rules expect, at the beginning of the first block that is run by them. */
  migrate?(ctx: Context): void;
}

/** Rules that a chain runs blocks by. */
export interface AppliedRules {
  readonly name: string;
  /** First block that was run by them; 0 when the genesis had them. */
  readonly heightBlocks: bigint;
}

const NAME = /^[^\0]{1,128}$/u;
const ENTRY = recordType({
  name: textType((name) => (NAME.test(name) ? undefined : "not a name of 1 to 128 characters")),
  height: heightType,
});

/** Rules in the list of a state or a genesis. */
export const APPLIED_RULES: GenesisType<AppliedRules> = {
  ...ENTRY,
  read(json) {
    const read = ENTRY.read(json);
    return read.ok ? { ok: true, value: { name: read.value.name, heightBlocks: read.value.height } } : read;
  },
  write: ({ name, heightBlocks }) => ENTRY.write({ name, height: heightBlocks }),
};
const LIST = listType(APPLIED_RULES);

/** Reads the list as it is in a state; undefined when it is not one. */
export function readAppliedRules(json: unknown): readonly AppliedRules[] | undefined {
  const read = LIST.read(json);
  return read.ok ? read.value : undefined;
}

/** JSON of applied rules, as a state and a genesis have it. */
export function appliedRulesJson(list: readonly AppliedRules[]): unknown {
  return LIST.write(list);
}

const listCodec: Codec<readonly AppliedRules[]> = {
  encode: (list) => utf8ToBytes(JSON.stringify(appliedRulesJson(list))),
  decode(bytes: Bytes) {
    const list = readAppliedRules(parsed(bytesToUtf8(bytes) ?? ""));
    if (list === undefined) throw new AppError("CHAIN_STORE_DAMAGED", { detail: { damaged: "the list of rules" } });
    return list;
  },
};

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The rules that the chain runs blocks by, in the order of {@link RULES}. */
export const appliedRules = new Collection({
  module: UPGRADE_MODULE,
  prefix: Uint8Array.of(1),
  key: noKey,
  value: keptCodec(listCodec),
});

/** Rules of one state. */
export class Rules {
  /** Empty in a state of a version whose rules had no name yet. */
  readonly inForce: readonly AppliedRules[];

  constructor(inForce: readonly AppliedRules[]) {
    this.inForce = inForce;
  }

  /** True when blocks are run by these rules, too. */
  has(name: string): boolean {
    return name === FIRST_RULES || this.inForce.some((rules) => rules.name === name);
  }

  /** Name of the last that were added. */
  get newest(): string {
    return this.inForce.at(-1)?.name ?? FIRST_RULES;
  }
}

/**
 * The rules of the state that code runs on: those of the block in a block, those of the asked height in a query. What a
 * version changes is behind `rulesOf(ctx).has("…")`, at one place. It costs no gas.
 */
export function rulesOf(ctx: Context): Rules {
  return new Rules(appliedRules.get(unmetered(ctx), undefined) ?? []);
}
