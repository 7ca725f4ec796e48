export { EMPTY_APP_HASH, KeptChain } from "./store/chain-store.ts";
export { type ChainStoreModules, type ChainStoreOptions, openChainStore } from "./store/open-chain-store.ts";
export type {
  BlockChanges,
  BlockRecord,
  Bytes,
  ChainStore,
  RangeOptions,
  StateChange,
  StateReader,
} from "./types.ts";
