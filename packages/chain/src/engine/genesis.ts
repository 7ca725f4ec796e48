import { AppError, isRecord, utf8ToBytes } from "@turnpike/base";
import { MAX_BLOCK_BYTES, rfc3339ToNs } from "@turnpike/cometbft";
import type { ChainStart } from "../app/types.ts";
import type { GenesisDocument } from "../genesis/genesis-file.ts";

/** What the engine takes from the consensus parameters. */
export interface EngineParams {
  /** -1: CometBFT's own bound. */
  readonly maxBytes: bigint;
  /** -1: any. */
  readonly maxGas: bigint;
  readonly appVersion: bigint;
}

const MAX_CHAIN_ID_BYTES = 50;
const INTEGER = /^-?\d{1,19}$/;

function invalid(why: string): AppError {
  return new AppError("CONFIG_INVALID", { message: `The genesis is not valid: ${why}.` });
}

function integer(text: unknown, name: string, least: bigint, most = (1n << 63n) - 1n): bigint {
  const value = typeof text === "string" && INTEGER.test(text) ? BigInt(text) : undefined;
  if (value === undefined || value < least || value > most)
    throw invalid(`${name} is not a number of its range, as text`);
  return value;
}

/** Reads the consensus parameters. @throws AppError CONFIG_INVALID */
export function engineParams({ consensus: { params } }: GenesisDocument): EngineParams {
  const maxBytes = integer(params.block.max_bytes, "block.max_bytes", -1n, BigInt(MAX_BLOCK_BYTES));
  if (maxBytes >= 0n && maxBytes < 4096n) throw invalid("block.max_bytes leaves no room for transactions");
  if (!params.validator.pub_key_types.includes("ed25519")) throw invalid("validators have no ed25519 keys");
  const extensions = params.abci.vote_extensions_enable_height;
  if (integer(extensions, "abci.vote_extensions_enable_height", 0n) !== 0n)
    throw invalid("votes have no extensions here");
  return {
    maxBytes,
    maxGas: integer(params.block.max_gas, "block.max_gas", -1n),
    appVersion: integer(params.version.app, "version.app", 0n),
  };
}

/** What the application begins with. @throws AppError CONFIG_INVALID */
export function chainStartOf(genesis: GenesisDocument): ChainStart {
  const { chain_id: chainId, initial_height: initialHeight, genesis_time: time, app_state: appState } = genesis;
  const idBytes = utf8ToBytes(chainId).length;
  if (idBytes === 0 || idBytes > MAX_CHAIN_ID_BYTES) throw invalid("chain_id has 1 to 50 bytes");
  if (!Number.isSafeInteger(initialHeight) || initialHeight < 1) throw invalid("initial_height is not at least 1");
  const timeNanos = rfc3339ToNs(time);
  if (timeNanos === undefined) throw invalid("genesis_time is not RFC 3339 in UTC");
  if (genesis.app_hash !== null && genesis.app_hash !== "") throw invalid("app_hash is not empty");
  if (!isRecord(appState)) throw invalid("app_state is no object");
  return { chainId, initialHeightBlocks: BigInt(initialHeight), timeNanos, appState };
}
