export { type Anvil, type AnvilOptions, anvilUrlOf, findAnvil, startAnvil } from "./anvil.ts";
export { blockedAddress, type ListenAddress } from "./blocked-address.ts";
export {
  StateKeeper,
  type StateKeeperOptions,
  saveChainState,
  trimChainState,
} from "./chain-state.ts";
export { LOCAL_CHAIN_ID, LOCAL_NETWORK, MULTICALL3_ADDRESS, USDC_ADDRESS } from "./constants.ts";
export {
  createDocumentDigest,
  type DigestAlgorithm,
  type DocumentDigest,
  type DocumentDigestServer,
} from "./document-digest.ts";
export { type EvmGuard, type EvmGuardOptions, startEvmGuard } from "./evm-guard.ts";
export { PASSED_EVM_METHODS } from "./evm-methods.ts";
export { lyingToken, smartWallet, testUsd, walletFactory } from "./generated/contracts.ts";
export { endNamedProcess } from "./pid-file.ts";
export {
  type PortSplitter,
  type PortSplitterOptions,
  type SplitterTarget,
  startPortSplitter,
} from "./port-splitter.ts";
export { freePort, isPortFree } from "./ports.ts";
export { endLeftoverPostgres, type LocalPostgres, type PostgresOptions, startPostgres } from "./postgres.ts";
export { findPostgres, type PostgresPrograms } from "./postgres-programs.ts";
export { type ChildExit, childExit, endChild, endProcess, endWithParent } from "./processes.ts";
export { devRpc } from "./rpc.ts";
export {
  balanceSlot,
  deployTestToken,
  fundGas,
  randomNonce,
  setCode,
  setTokenBalance,
  type TestTokenOptions,
  type TokenHolder,
} from "./token.ts";
