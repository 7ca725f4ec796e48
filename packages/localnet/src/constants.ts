import type { Address, NetworkId } from "@turnpike/base";

/** Chain id of the local settlement chain: Base Sepolia's, so that reference clients pay with their defaults. */
export const LOCAL_CHAIN_ID = 84532;
/** CAIP-2 id of the local settlement chain. */
export const LOCAL_NETWORK = "eip155:84532" as NetworkId;
/** Where the test token's code is put: the address of USDC on Base Sepolia. */
export const USDC_ADDRESS: Address = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
/** Where the batcher's code is put: the address of Multicall3 on every public chain. */
export const MULTICALL3_ADDRESS: Address = "0xcA11bde05977b3631167028862bE2a173976CA11";
