import { AppError, bytesToHex0x, isAppError } from "@turnpike/base";
import {
  CALLS,
  decodeAggregate3,
  decodeBytes32,
  decodeQuantity,
  decodeString,
  decodeUint,
  encodeAggregate3,
} from "../evm/abi.ts";
import type { EvmRpc } from "../evm/rpc.ts";
import { domainSeparator } from "./digest.ts";
import type { VerifierNetwork } from "./options.ts";

/** Chain id of a CAIP-2 network id. @throws AppError CONFIG_INVALID when it is not `eip155:<number>`. */
export function chainIdOf(network: string): number {
  const digits = /^eip155:([1-9][0-9]{0,14})$/.exec(network)?.[1];
  if (digits === undefined) {
    throw new AppError("CONFIG_INVALID", { message: `${network} is not a network of the form eip155:<chain id>.` });
  }
  return Number(digits);
}

// Some chains show another chain's height to contracts; settlements could not be ordered by it.
const MAX_HEIGHT_DIFFERENCE = 1_000n;

/**
 * Compares a chain with its configuration: chain id, code of token and batcher, decimals, EIP-712 domain.
 * @throws AppError CHAIN_MISMATCH that names every difference; SETTLEMENT_UNAVAILABLE when the chain does not answer.
 */
export async function checkNetwork(
  config: VerifierNetwork,
  multicall3: `0x${string}`,
  rpc: EvmRpc,
  signal: AbortSignal | undefined,
): Promise<void> {
  const chainId = chainIdOf(config.network);
  const { asset } = config;
  const faults: string[] = [];
  const token = [CALLS.domainSeparator, CALLS.decimals, CALLS.name, CALLS.version].map((callData) => ({
    target: asset,
    allowFailure: true,
    callData,
  }));
  const height = { target: multicall3, allowFailure: true, callData: CALLS.getBlockNumber };
  const calls = [
    { method: "eth_chainId", params: [] },
    { method: "eth_getCode", params: [asset, "latest"] },
    { method: "eth_getCode", params: [multicall3, "latest"] },
    { method: "eth_blockNumber", params: [] },
    { method: "eth_call", params: [{ to: multicall3, data: encodeAggregate3([...token, height]) }, "latest"] },
  ];
  const [id, assetCode, multicallCode, block, reads] = await rpc.batch(calls, signal).catch((error: unknown) => {
    const other = isAppError(error) ? error.detail.foundChainId : undefined;
    throw typeof other === "string" ? mismatch(config, rpc, [`its chain id is ${other}`]) : error;
  });
  const found = id?.ok === true ? decodeQuantity(id.result) : undefined;
  if (found === undefined) {
    throw new AppError("SETTLEMENT_UNAVAILABLE", { detail: { host: rpc.host, reason: "no chain id" } });
  }
  if (found !== BigInt(chainId)) faults.push(`its chain id is ${found}`);
  const present = (reply: typeof assetCode): boolean => reply?.ok === true && String(reply.result).length > 2;
  if (!present(assetCode)) faults.push(`there is no contract at the asset ${asset}`);
  if (!present(multicallCode)) faults.push(`there is no Multicall3 at ${multicall3}`);
  if (faults.length === 0) {
    const results = reads?.ok === true ? decodeAggregate3(reads.result, 5) : undefined;
    if (results === undefined) faults.push(`${multicall3} does not answer as Multicall3 does`);
    else {
      const [separator, decimals, name, version, seen] = results.map((r) => (r.success ? r.returnData : undefined));
      const shown = decodeUint(decimals);
      if (shown !== BigInt(config.decimals)) {
        faults.push(`the token has ${shown ?? "no"} decimals, ${config.decimals} are configured`);
      }
      const expected = bytesToHex0x(domainSeparator({ name: config.name, version: config.version, chainId, asset }));
      if (decodeBytes32(separator) !== expected) {
        const says = `name ${JSON.stringify(decodeString(name) ?? null)}, version ${JSON.stringify(decodeString(version) ?? null)}`;
        const wants = `name ${JSON.stringify(config.name)}, version ${JSON.stringify(config.version)}`;
        faults.push(
          `the token's EIP-712 domain is not the configured one (the token says ${says}; configured: ${wants})`,
        );
      }
      const blockNumber = block?.ok === true ? decodeQuantity(block.result) : undefined;
      const contractNumber = decodeUint(seen);
      if (blockNumber === undefined || contractNumber === undefined || differ(blockNumber, contractNumber)) {
        faults.push("contracts do not see its block number, which settlement needs");
      }
    }
  }
  if (faults.length > 0) throw mismatch(config, rpc, faults);
}

function mismatch({ network }: VerifierNetwork, { host }: EvmRpc, faults: readonly string[]): AppError {
  return new AppError("CHAIN_MISMATCH", {
    message: `The chain at ${host} is not the configured ${network}: ${faults.join("; ")}.`,
    detail: { network, host, faults },
  });
}

function differ(a: bigint, b: bigint): boolean {
  return a > b ? a - b > MAX_HEIGHT_DIFFERENCE : b - a > MAX_HEIGHT_DIFFERENCE;
}
