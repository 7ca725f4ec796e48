export { makeCertificate, type TestCertificate } from "./certificate.ts";
export { type ChainAnswerer, type ChainProxy, type ChainQuestion, startChainProxy } from "./chain-proxy.ts";
export { eventually, PATIENCE_MS } from "./eventually.ts";
export { type FakeRpc, startFakeRpc, statusAt } from "./fake-comet-rpc.ts";
export { endsInLinearTime } from "./linear-time.ts";
export { acceptsConnections, killProgram } from "./programs.ts";
export { openRaw, type RawClient, type RawResponse, reboundStatus } from "./raw-http.ts";
export { type Recorded, readRecorded, recordedText, startRecordedNode } from "./recorded-node.ts";
export { type RefusingNode, startRefusingNode } from "./refusing-node.ts";
export { openSocket, refusedUpgrade, type SocketClient } from "./socket-client.ts";
export { type FakeBlock, FakeChain, type SocketNode, startSocketNode } from "./socket-node.ts";
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
