// What stands on a node of the relay protocol's chain, apart from the rest: it loads the whole chain.
export { jsonRpcPayload, type RelayRequestOptions, signRelayRequest } from "./relay-request.ts";
export {
  type ChainParty,
  chainParty,
  startTestChain,
  type TestApplication,
  type TestChain,
  type TestChainOptions,
  type TestSupplier,
} from "./test-chain.ts";
