export { AccountSender, type OrderedSendOptions, type OrderedTxOptions } from "./account-sender.ts";
export {
  type Amount,
  coinAmount,
  feeAtPrices,
  type GasPriceAmount,
  parseAmount,
  parseAmounts,
  parseGasPrices,
  usualFee,
} from "./amounts.ts";
export { ChainClient } from "./chain-client.ts";
export { ChainHead, type ChainHeadModules, type ChainHeadOptions } from "./chain-head.ts";
export {
  PocketQueries,
  type PocketQueriesModules,
  type PocketQueriesOptions,
  type SessionClaim,
  type SupplierClaims,
} from "./pocket-queries.ts";
export { prepareTx } from "./prepare-tx.ts";
export type { ChainAnswer, ReadOptions } from "./query-cache.ts";
export type { ChainClientModules, ChainRpcOptions, RpcAnswer, RpcError } from "./rpc.ts";
export { wasRun } from "./rpc-values.ts";
export { signTx, type TxOrder, type UnsignedTx, unsignedTx } from "./sign-tx.ts";
export { type ChainSigner, createChainSigner, packPublicKey } from "./signer.ts";
export {
  type BlockMark,
  type SubscribeBlocksModules,
  type SubscribeBlocksOptions,
  subscribeBlocks,
} from "./subscribe-blocks.ts";
export type {
  AskOptions,
  Broadcast,
  ChainStatus,
  FoundTxs,
  IncludedTx,
  QueryResult,
  SendOptions,
  TxEvent,
  TxOptions,
  TxSearch,
} from "./types.ts";
export { unorderedUntil } from "./unordered.ts";
