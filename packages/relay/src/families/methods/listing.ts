import type { FamilyId } from "@turnpike/catalogue";
import type { CacheRule, MethodTraits } from "../method-traits.ts";
import { BEACON_PATHS } from "./beacon-methods.ts";
import { BITCOIN_METHODS } from "./bitcoin-methods.ts";
import { COMET_METHODS, COSMOS_PATHS } from "./cosmos-methods.ts";
import { EVM_METHODS } from "./evm-methods.ts";
import { NEAR_METHODS } from "./near-methods.ts";
import type { PathTable } from "./paths.ts";
import { RADIX_PATHS } from "./radix-methods.ts";
import type { MethodTable } from "./rules.ts";
import { SOLANA_METHODS } from "./solana-methods.ts";
import { SUI_METHODS } from "./sui-methods.ts";
import { TRON_PATHS } from "./tron-methods.ts";

/** A method or path of a family, and what the relay does with it. */
export interface ListedMethod {
  /** `eth_call`, or verb and template (`GET /eth/v1/beacon/headers/{block_id}`); without a verb it is both. */
  readonly name: string;
  readonly kind: MethodTraits["kind"];
  readonly cachedBy: CacheRule["by"];
  readonly isComparable: boolean;
}

function ofTable({ methods }: MethodTable): readonly ListedMethod[] {
  return [...methods].map(([name, choice]) => {
    const { kind, cache, isComparable } = typeof choice === "function" ? choice(undefined) : choice;
    return { name, kind, cachedBy: cache.by, isComparable };
  });
}

function ofPaths({ rows }: PathTable): readonly ListedMethod[] {
  return rows.map(([name, { kind, cache, isComparable }]) => ({ name, kind, cachedBy: cache.by, isComparable }));
}

/** What the relay knows of the methods of each family, for the page that lists them. */
export const LISTED_METHODS: Readonly<Partial<Record<FamilyId, readonly ListedMethod[]>>> = {
  evm: ofTable(EVM_METHODS),
  cosmos: [...ofTable(COMET_METHODS), ...ofPaths(COSMOS_PATHS)],
  solana: ofTable(SOLANA_METHODS),
  near: ofTable(NEAR_METHODS),
  sui: ofTable(SUI_METHODS),
  radix: ofPaths(RADIX_PATHS),
  tron: ofPaths(TRON_PATHS),
  bitcoin: ofTable(BITCOIN_METHODS),
  beacon: ofPaths(BEACON_PATHS),
};
