import { deployTestToken, devRpc, fundGas, USDC_ADDRESS } from "@turnpike/localnet";
import type { LocalKeys } from "./keys.ts";

/** 1,000,000 USDC. */
const BUYER_UNITS = 1_000_000_000_000n;
const GAS_WEI = 1_000n * 10n ** 18n;
const LOW_GAS_WEI = 10n * 10n ** 18n;

/**
 * Puts token, batcher and money on a new chain. A chain that has them keeps its balances; only accounts that run out of
 * gas get more.
 */
export async function prepareEvm(url: string, keys: LocalKeys): Promise<void> {
  const isNew = (await devRpc(url, "eth_getCode", [USDC_ADDRESS, "latest"])) === "0x";
  const holders = isNew ? [{ address: keys.buyer.address, units: BUYER_UNITS }] : [];
  // the code is put in place each time: a newer version of ours replaces it, the balances stay
  await deployTestToken(url, { holders });
  for (const { address } of [keys.payTo, keys.buyer, ...keys.gatewayRelayers, ...keys.facilitatorRelayers]) {
    const balance = BigInt(String(await devRpc(url, "eth_getBalance", [address, "latest"])));
    if (balance < LOW_GAS_WEI) await fundGas(url, address, GAS_WEI);
  }
  // storage that is set takes effect for reads of the latest block with the next block
  await devRpc(url, "anvil_mine", ["0x1"]);
}
