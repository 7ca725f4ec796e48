// What commands read of what runs on this machine: no part of the code that runs it is loaded for that.
export { addressesOf } from "./testnet/plan.ts";
export { readTestnet, testnetLayout } from "./testnet/testnet-file.ts";
export { findUp, findUpConfig, isUpStarting, type UpFacts, type UpFile } from "./up-file.ts";
