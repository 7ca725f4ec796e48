export {
  type Broadcast,
  ChainClient,
  type ChainStatus,
  type IncludedTx,
  type QueryResult,
  type SendOptions,
  type TxEvent,
} from "./chain-client.ts";
export type { ChainClientModules, ChainRpcOptions } from "./rpc.ts";
export { type Amount, signTx, type TxOrder, type UnsignedTx } from "./sign-tx.ts";
export { type ChainSigner, createChainSigner, packPublicKey } from "./signer.ts";
