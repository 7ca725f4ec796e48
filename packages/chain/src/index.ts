export { CometRpc } from "./abci/comet-rpc.ts";
export { CometSource } from "./abci/comet-source.ts";
export { type AbciServer, type AbciServerModules, startAbciServer } from "./abci/server.ts";
export { BlockMeter } from "./app/block-meter.ts";
export { ChainApp } from "./app/chain-app.ts";
export { chainStartOf } from "./app/chain-start.ts";
export {
  type PocketMachine,
  type PocketMachineOptions,
  PROTOCOL_VERSION,
  pocketMachine,
} from "./app/pocket-machine.ts";
export { abciFault, abciOfGrpc, abciOfStatus, goDecodeFault, heightFault } from "./app/query-answers.ts";
export { eventMessages, simulateResponse, simulationJson } from "./app/simulation-answers.ts";
export { type BlockOutcome, StateMachine, type StateMachineOptions } from "./app/state-machine.ts";
export type { AbciQuerier, AppAnswer, Application, GrpcAnswer } from "./app/types.ts";
export type { EmbeddedEngine } from "./engine/embedded-engine.ts";
export { EmbeddedSource } from "./engine/embedded-source.ts";
export { loadNodeKey, loadValidatorKey, nodeIdOf } from "./engine/keys.ts";
export {
  type ChainHome,
  chainHome,
  consensusKeyOf,
  makeNodeFolder,
  readGenesis,
  validatorKeyOf,
} from "./engine/node-folder.ts";
export { type EmbeddedNodeModules, type EmbeddedNodeOptions, openEmbeddedNode } from "./engine/open-embedded-node.ts";
export {
  type VerifiedChain,
  type VerifyChainModules,
  type VerifyChainOptions,
  verifyChain,
} from "./engine/verify-chain.ts";
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
export {
  EVENT_KEY,
  type EventMap,
  eventMapOfBlock,
  eventMapOfTx,
} from "./indexing/event-map.ts";
export { type EventQuery, matchesEvents, parseEventQuery } from "./indexing/query.ts";
export { CHAIN_METRICS } from "./metrics.ts";
export { type AuthOptions, authModule } from "./modules/auth/auth-module.ts";
export { bankModule } from "./modules/bank/bank-module.ts";
export type { BankMessageOptions } from "./modules/bank/messages.ts";
export { consensusParamsOfGenesis } from "./modules/consensus/consensus-module.ts";
export { EventLoopQueue, type EventLoopQueueOptions } from "./node/event-loop-queue.ts";
export type {
  BlockReads,
  BlockResults,
  ChainSource,
  ConsensusMoment,
  EmbeddedNode,
  NodeEvent,
  NodeInfo,
  SearchPage,
  SearchResult,
  StoredBlock,
  StoredTx,
  Submission,
} from "./node/types.ts";
export { type MakeSnapshotOptions, makeSnapshot } from "./snapshots/make-snapshot.ts";
export { SnapshotFolder } from "./snapshots/snapshot-folder.ts";
export { SnapshotKeeper } from "./snapshots/snapshot-keeper.ts";
export { SnapshotMeter } from "./snapshots/snapshot-meter.ts";
export { SnapshotRestorer } from "./snapshots/snapshot-restorer.ts";
export type { KeptSnapshot, SnapshotOffer } from "./snapshots/types.ts";
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
export { SDK, type TxResult } from "./state/outcome.ts";
export { Overlay, type StateReads, type StateView } from "./state/overlay.ts";
export { ThreadedApplication } from "./threads/threaded-application.ts";
export { type GasPrice, gasPricesOf } from "./tx/fees.ts";
export { watchChain } from "./watch/watch-chain.ts";
