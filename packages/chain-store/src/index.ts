export { LmdbChainStore } from "./chain-store.ts";
export { bytesToHeight, encodeKey, heightToBytes, MAX_KEY_BYTES } from "./keys.ts";
export { type ChainStoreModules, type ChainStoreOptions, openChainStore } from "./open-chain-store.ts";
export { MAX_VALUE_BYTES } from "./plan.ts";
export { SharedStates } from "./shared-states.ts";
export { StatePruner } from "./state-pruner.ts";
export { freeBytesOf, refusedStore, storeError } from "./store-errors.ts";
export { STORE_FILE } from "./store-folder.ts";
export type {
  BlockChanges,
  BlockRecord,
  Bytes,
  ChainStore,
  Derivation,
  RangeOptions,
  StateChange,
  StateReader,
  StateRestore,
} from "./types.ts";
