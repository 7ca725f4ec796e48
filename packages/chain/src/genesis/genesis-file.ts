import { isRecord } from "@turnpike/base";

/** `genesis.json`, as CometBFT 0.38 and the SDK have it. There is no `validators` key: they come from `app_state`. */
export interface GenesisDocument {
  readonly app_name: string;
  readonly app_version: string;
  /** RFC 3339, in UTC. */
  readonly genesis_time: string;
  readonly chain_id: string;
  readonly initial_height: number;
  readonly app_hash: string | null;
  readonly app_state: Readonly<Record<string, unknown>>;
  readonly consensus: { readonly params: GenesisConsensusParams };
}

/** Consensus parameters in `genesis.json`; 64-bit numbers are texts. */
export interface GenesisConsensusParams {
  readonly block: { readonly max_bytes: string; readonly max_gas: string };
  readonly evidence: {
    readonly max_age_num_blocks: string;
    readonly max_age_duration: string;
    readonly max_bytes: string;
  };
  readonly validator: { readonly pub_key_types: readonly string[] };
  readonly version: { readonly app: string };
  readonly abci: { readonly vote_extensions_enable_height: string };
}

const isText = (value: unknown): value is string => typeof value === "string";
const isNumberText = (value: unknown): boolean => isText(value) && /^-?\d{1,19}$/.test(value);

function isConsensusParams(value: unknown): value is GenesisConsensusParams {
  if (!isRecord(value)) return false;
  const { block, evidence, validator, version, abci } = value;
  if (!isRecord(block) || !isRecord(evidence) || !isRecord(validator) || !isRecord(version) || !isRecord(abci)) {
    return false;
  }
  const { max_age_num_blocks: ageBlocks, max_age_duration: ageNs, max_bytes: evidenceBytes } = evidence;
  const numbers = [block.max_bytes, block.max_gas, ageBlocks, ageNs, evidenceBytes, version.app];
  const types = validator.pub_key_types;
  return [...numbers, abci.vote_extensions_enable_height].every(isNumberText) && Array.isArray(types);
}

// CometBFT leaves out what is zero.
function cometParams(value: unknown): unknown {
  if (!isRecord(value)) return undefined;
  const version = { app: "0", ...(isRecord(value.version) ? value.version : {}) };
  const abci = { vote_extensions_enable_height: "0", ...(isRecord(value.abci) ? value.abci : {}) };
  return { ...value, version, abci };
}

function heightOf(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  return isNumberText(value) ? Number(value) : undefined;
}

/** Text of `genesis.json` in CometBFT's form, which the SDK's programs read, too. */
export function genesisFileText(genesis: GenesisDocument): string {
  const { genesis_time, chain_id, initial_height, app_state } = genesis;
  const document = {
    genesis_time,
    chain_id,
    initial_height: String(initial_height),
    consensus_params: genesis.consensus.params,
    app_hash: "",
    app_state,
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

/**
 * Reads a `genesis.json` in CometBFT's form, or in that of the SDK's programs (`initial_height` as a number, the parameters
 * in `consensus.params`). Undefined when it is neither; what the values mean is the engine's to judge.
 */
export function parseGenesisFile(text: string): GenesisDocument | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  const { genesis_time, chain_id, initial_height, app_state, consensus, consensus_params, app_hash } = value;
  const params = isRecord(consensus) ? consensus.params : cometParams(consensus_params);
  const height = heightOf(initial_height);
  if (!isText(genesis_time) || !isText(chain_id) || height === undefined) return undefined;
  if (!isRecord(app_state) || !isConsensusParams(params)) return undefined;
  return {
    app_name: isText(value.app_name) ? value.app_name : "turnpike",
    app_version: isText(value.app_version) ? value.app_version : "",
    genesis_time,
    chain_id,
    initial_height: height,
    app_hash: isText(app_hash) && app_hash !== "" ? app_hash : null,
    app_state,
    consensus: { params },
  };
}
