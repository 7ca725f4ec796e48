export { delegateCode, deployGasBurner } from "./delegation.ts";
export { eventually, PATIENCE_MS } from "./eventually.ts";
export { acceptsConnections, killProgram } from "./programs.ts";
export { openRaw, type RawClient, type RawResponse, readResponses, reboundStatus } from "./raw-http.ts";
export { type Recorded, readRecorded, recordedText, startRecordedNode } from "./recorded-node.ts";
export { startRedis, type TestRedis, withoutRedis } from "./redis.ts";
export { type RefusingNode, startRefusingNode } from "./refusing-node.ts";
export { jsonRpcPayload, type RelayRequestOptions, signRelayRequest } from "./relay-request.ts";
export { sendFromNewAccount, sendMined, type TransactionReceipt } from "./send-transaction.ts";
export {
  openTestAnvil,
  openTestPostgres,
  type SharedServers,
  startSharedServers,
  type TestAnvil,
  type TestPostgres,
} from "./shared-servers.ts";
export { openSocket, refusedUpgrade, type SocketClient } from "./socket-client.ts";
export { type FakeBlock, FakeChain, type SocketNode, startSocketNode } from "./socket-node.ts";
export {
  type ChainParty,
  chainParty,
  startTestChain,
  type TestApplication,
  type TestChain,
  type TestChainOptions,
  type TestSupplier,
} from "./test-chain.ts";
export {
  isProbe,
  probeResult,
  rpcAnswer,
  startEvmUpstream,
  startUpstream,
  type Upstream,
  type UpstreamCall,
} from "./upstream.ts";
export { type VirtualClock, virtualClock } from "./virtual-clock.ts";
