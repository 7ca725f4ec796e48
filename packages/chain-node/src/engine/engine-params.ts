import { AppError } from "@turnpike/base";
import type { GenesisDocument } from "@turnpike/chain";
import { MAX_BLOCK_BYTES } from "@turnpike/cometbft";

/** What the engine takes from the consensus parameters. */
export interface EngineParams {
  /** -1: CometBFT's own bound. */
  readonly maxBytes: bigint;
  /** -1: any. */
  readonly maxGas: bigint;
  readonly appVersion: bigint;
}

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
