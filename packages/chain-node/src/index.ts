export { CometRpc } from "./abci/comet-rpc.ts";
export { CometSource } from "./abci/comet-source.ts";
export { type AbciServer, type AbciServerModules, startAbciServer } from "./abci/server.ts";
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
export { EventLoopQueue, type EventLoopQueueOptions } from "./event-loop-queue.ts";
export { makeInSteps, type RunStep } from "./in-steps.ts";
export { EVENT_KEY, type EventMap, eventMapOfBlock, eventMapOfTx } from "./indexing/event-map.ts";
export { type EventQuery, matchesEvents, parseEventQuery } from "./indexing/query.ts";
export { CHAIN_NODE_METRICS } from "./metrics.ts";
export { type MakeSnapshotOptions, makeSnapshot } from "./snapshots/make-snapshot.ts";
export { SnapshotFolder } from "./snapshots/snapshot-folder.ts";
export { SnapshotKeeper } from "./snapshots/snapshot-keeper.ts";
export { SnapshotMeter } from "./snapshots/snapshot-meter.ts";
export { SnapshotRestorer } from "./snapshots/snapshot-restorer.ts";
export type { KeptSnapshot, SnapshotOffer } from "./snapshots/types.ts";
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
} from "./types.ts";
export { noteUpgrade } from "./upgrade-info.ts";
export { watchChain } from "./watch/watch-chain.ts";
