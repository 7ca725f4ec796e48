import { AppError, base64ToBytes, bytesToBase64, isRecord, utf8ToBytes } from "@turnpike/base";
import type { BlockRecord, Bytes, ChainStore } from "@turnpike/chain-store";
import { rfc3339ToNs } from "@turnpike/cometbft";
import { sha256 } from "@turnpike/crypto";
import type { GenesisDocument } from "../genesis/genesis-file.ts";
import type { ValidatorUpdate } from "../state/module.ts";
import type { ChainStart } from "./types.ts";

const TABLE = "app-start";
const KEY = utf8ToBytes("genesis");
const MAX_CHAIN_ID_BYTES = 50;

/** What a store keeps of the genesis that its chain began with. */
export interface StartRecord {
  readonly chainId: string;
  readonly initialHeightBlocks: bigint;
  /** Base64 of {@link startHash}. */
  readonly hash: string;
  readonly validatorUpdates: readonly ValidatorUpdate[];
}

function invalid(why: string): AppError {
  return new AppError("CONFIG_INVALID", { message: `The genesis is not valid: ${why}.` });
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

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isRecord(value)) return value;
  const names = Object.keys(value).sort((a, b) => (a < b ? -1 : 1));
  return Object.fromEntries(names.map((name) => [name, sorted(value[name])]));
}

/** Hash of a genesis; the order of members does not count. */
export function startHash({ chainId, initialHeightBlocks, timeNanos, appState }: ChainStart): string {
  const text = JSON.stringify([chainId, `${initialHeightBlocks}`, `${timeNanos}`, sorted(appState)]);
  return bytesToBase64(sha256(utf8ToBytes(text)));
}

/** The record that a genesis leaves in the store. */
export function writeStart({ chainId, initialHeightBlocks, hash, validatorUpdates }: StartRecord): BlockRecord {
  const text = JSON.stringify({
    chainId,
    initialHeight: `${initialHeightBlocks}`,
    hash,
    validators: validatorUpdates.map(({ publicKey, power }) => [bytesToBase64(publicKey), `${power}`]),
  });
  return { table: TABLE, key: KEY, value: utf8ToBytes(text) };
}

function damaged(): AppError {
  return new AppError("CHAIN_STORE_DAMAGED", { message: "The record of the chain's genesis cannot be read." });
}

function readUpdate(pair: unknown): ValidatorUpdate {
  if (!Array.isArray(pair)) throw damaged();
  const [key, power]: unknown[] = pair;
  if (typeof key !== "string" || typeof power !== "string") throw damaged();
  const publicKey = base64ToBytes(key);
  if (publicKey === undefined) throw damaged();
  return { publicKey, power: BigInt(power) };
}

/** Reads {@link writeStart}; undefined before there is a genesis. @throws AppError CHAIN_STORE_DAMAGED */
export function readStart(store: Pick<ChainStore, "record">): StartRecord | undefined {
  const bytes: Bytes | undefined = store.record(TABLE, KEY);
  if (bytes === undefined) return undefined;
  const value: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
  if (!isRecord(value)) throw damaged();
  const { chainId, initialHeight, hash, validators } = value;
  if (typeof chainId !== "string" || typeof initialHeight !== "string" || typeof hash !== "string") throw damaged();
  if (!Array.isArray(validators)) throw damaged();
  return { chainId, initialHeightBlocks: BigInt(initialHeight), hash, validatorUpdates: validators.map(readUpdate) };
}
