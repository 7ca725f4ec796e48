export { type AuthOptions, authModule } from "./modules/auth/auth-module.ts";
export { bankModule } from "./modules/bank/bank-module.ts";
export type { BankMessageOptions } from "./modules/bank/messages.ts";
export type { BlockInfo, ChainEvent, Context, EventAttribute, ExecutionMode } from "./state/context.ts";
export { type BlockOutcome, StateMachine, type StateMachineOptions } from "./state/machine.ts";
export type { MessageHandler, Module, QueryAnswer, QueryHandler, ValidatorUpdate } from "./state/module.ts";
export { Overlay, type StateReads, type StateView } from "./state/overlay.ts";
export { EMPTY_APP_HASH, KeptChain } from "./store/chain-store.ts";
export { type ChainStoreModules, type ChainStoreOptions, openChainStore } from "./store/open-chain-store.ts";
export type { GasPrice } from "./tx/fees.ts";
export type { TxResult } from "./tx/run-tx.ts";
export type {
  BlockChanges,
  BlockRecord,
  Bytes,
  ChainStore,
  RangeOptions,
  StateChange,
  StateReader,
} from "./types.ts";
