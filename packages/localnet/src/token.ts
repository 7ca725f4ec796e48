import { type Address, bytesToHex0x } from "@turnpike/base";
import { keccak256 } from "@turnpike/crypto";
import { MULTICALL3_ADDRESS, USDC_ADDRESS } from "./constants.ts";
import { multicall3, settlementBatch, testUsd } from "./generated/contracts.ts";
import { devRpc } from "./rpc.ts";

/** Who holds how much of the test token, in its smallest unit. */
export interface TokenHolder {
  readonly address: Address;
  readonly units: bigint;
}

export interface TestTokenOptions {
  readonly holders: readonly TokenHolder[];
  /** Where the token goes; {@link USDC_ADDRESS} by default. */
  readonly asset?: Address;
  /** Deployed bytecode of the token; the honest test token by default. */
  readonly code?: `0x${string}`;
}

const BALANCES_SLOT = 0n;
const TOTAL_SUPPLY_SLOT = 3n;

/** 32 bytes, big-endian. */
function word(value: bigint): `0x${string}` {
  return `0x${value.toString(16).padStart(64, "0")}`;
}

/** Storage key of an account's balance in the test token: that of a mapping's value in Solidity's layout of storage. */
export function balanceSlot(account: Address): `0x${string}` {
  const words = [word(BigInt(account)), word(BALANCES_SLOT)].map((text) => text.slice(2));
  return bytesToHex0x(keccak256(Buffer.from(words.join(""), "hex")));
}

/** Sets an account's balance of the test token; the total supply follows. */
export async function setTokenBalance(
  rpcUrl: string,
  holder: TokenHolder,
  asset: Address = USDC_ADDRESS,
): Promise<void> {
  const slot = balanceSlot(holder.address);
  const read = async (key: `0x${string}`): Promise<bigint> =>
    BigInt(String(await devRpc(rpcUrl, "eth_getStorageAt", [asset, key, "latest"])));
  const supply = (await read(word(TOTAL_SUPPLY_SLOT))) - (await read(slot)) + holder.units;
  await devRpc(rpcUrl, "anvil_setStorageAt", [asset, slot, word(holder.units)]);
  await devRpc(rpcUrl, "anvil_setStorageAt", [asset, word(TOTAL_SUPPLY_SLOT), word(supply)]);
}

/** Puts code at an address of a development chain. */
export async function setCode(rpcUrl: string, address: Address, code: `0x${string}`): Promise<void> {
  await devRpc(rpcUrl, "anvil_setCode", [address, code]);
}

/** Puts the test token and the contracts that settlements use in place and gives each holder its balance. Doing it again is harmless. */
export async function deployTestToken(rpcUrl: string, options: TestTokenOptions): Promise<void> {
  const asset = options.asset ?? USDC_ADDRESS;
  await setCode(rpcUrl, asset, options.code ?? testUsd.deployedBytecode);
  await setCode(rpcUrl, MULTICALL3_ADDRESS, multicall3.deployedBytecode);
  await setCode(rpcUrl, settlementBatch.address, settlementBatch.deployedBytecode);
  for (const holder of options.holders) await setTokenBalance(rpcUrl, holder, asset);
}

/** Sets an account's balance of the chain's own coin, in wei. */
export async function fundGas(rpcUrl: string, address: Address, wei: bigint): Promise<void> {
  await devRpc(rpcUrl, "anvil_setBalance", [address, `0x${wei.toString(16)}`]);
}

/** A random 32-byte nonce for an EIP-3009 authorization. */
export function randomNonce(): `0x${string}` {
  return bytesToHex0x(crypto.getRandomValues(new Uint8Array(32)));
}
