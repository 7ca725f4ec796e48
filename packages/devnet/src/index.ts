export { initChain } from "./chain/local-chain.ts";
export { namedKey } from "./chain/named-key.ts";
export { builtinChainServices, localServices } from "./chain/services.ts";
export { askStart } from "./testnet/asked-starts.ts";
export { ChainWatch, votesText } from "./testnet/chain-watch.ts";
export { joinTestnet } from "./testnet/join.ts";
export { refuseRunner, runnerOf, stopTestnet } from "./testnet/leftovers.ts";
export { addressesOf, bridgeName, networkNames, PORTS, type Testnet, type TestnetNode } from "./testnet/plan.ts";
export { findIp, findTestnetPrograms } from "./testnet/programs.ts";
export { RunningTestnet } from "./testnet/running-testnet.ts";
export {
  nodeNamed,
  readTestnet,
  shellText,
  type TestnetLayout,
  testnetJson,
  testnetLayout,
} from "./testnet/testnet-file.ts";
export { sharedInput, writeTestnet } from "./testnet/write-testnet.ts";
