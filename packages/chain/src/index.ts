export { dataBytes, MAX_BLOCK_TXS, MAX_RESULTS_BYTES } from "./app/block-bounds.ts";
export { BlockMeter } from "./app/block-meter.ts";
export { ChainApp, type ChainAppOptions } from "./app/chain-app.ts";
export { chainStartOf } from "./app/chain-start.ts";
export {
  BLOCK_ORDER,
  type PocketMachine,
  type PocketMachineOptions,
  PROTOCOL_VERSION,
  pocketMachine,
} from "./app/pocket-machine.ts";
export { abciFault, abciOfGrpc, abciOfStatus, goDecodeFault, heightFault } from "./app/query-answers.ts";
export { RULE_SETS } from "./app/rule-sets.ts";
export { eventMessages, simulateResponse, simulationJson } from "./app/simulation-answers.ts";
export { type BlockOutcome, StateMachine, type StateMachineOptions } from "./app/state-machine.ts";
export type {
  AbciQuerier,
  AppAnswer,
  Application,
  ChainStart,
  DrivenApplication,
  EncodedMessage,
  GrpcAnswer,
} from "./app/types.ts";
export { buildGenesis, type GenesisAccount, type GenesisPlan } from "./genesis/build-genesis.ts";
export {
  type GenesisConsensusParams,
  type GenesisDocument,
  genesisFileText,
  parseGenesisFile,
} from "./genesis/genesis-file.ts";
export type { GenesisValidator } from "./genesis/gentx.ts";
export type { LocalApplication, LocalEconomy, LocalSupplier, SuppliedService } from "./genesis/local-economy.ts";
export {
  LOCAL_ROLES,
  type LocalChain,
  type LocalRole,
  type LocalService,
  type LocalValidator,
  localGenesis,
  type Visitor,
} from "./genesis/local-genesis.ts";
export { CHAIN_PROFILES, type ChainProfile, type ProfileName } from "./genesis/profiles.ts";
export { CHAIN_METRICS } from "./metrics.ts";
export { type AuthOptions, authModule } from "./modules/auth/auth-module.ts";
export { authzModule } from "./modules/authz/authz-module.ts";
export { bankModule } from "./modules/bank/bank-module.ts";
export type { BankMessageOptions } from "./modules/bank/messages.ts";
export { consensusParamsOfGenesis } from "./modules/consensus/consensus-module.ts";
export { POWER_REDUCTION } from "./modules/staking/state.ts";
export type { BlockInfo, ChainEvent, Context, EventAttribute, ExecutionMode } from "./state/context.ts";
export { GRPC_STATUS, type QueryRefusal, refuse } from "./state/grpc-status.ts";
export {
  type MessageHandler,
  type Module,
  moduleGenesis,
  type QueryAnswer,
  type QueryHandler,
  type ValidatorUpdate,
} from "./state/module.ts";
export { integerOf } from "./state/numbers.ts";
export { type FaultKind, fail, SDK, type TxFault, type TxResult } from "./state/outcome.ts";
export { Overlay, type StateReads, type StateView } from "./state/overlay.ts";
export { boundsFault } from "./state/read-message.ts";
export { type AppliedRules, RULES, type RuleSet, Rules, readAppliedRules, rulesOf } from "./state/rules.ts";
export { ThreadedApplication } from "./threads/threaded-application.ts";
export { type GasPrice, gasPricesOf } from "./tx/fees.ts";
export { MAX_TX_BYTES } from "./tx/tx-bounds.ts";
export type { Offer, TxFacts } from "./tx/tx-facts.ts";
