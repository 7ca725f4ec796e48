/** Name of the file in a node's folder that makes the node byzantine. */
export const BYZANTINE_FILE = "byzantine.json";
/** Port at which a byzantine validator's CometBFT reaches its application, in the place of the usual one. */
export const BYZANTINE_PORT = 26_650;

/** Contents of {@link BYZANTINE_FILE}. */
export interface ByzantineFile {
  /** Key of the account that signs what is proposed: hexadecimal digits. */
  readonly privateKey: string;
  readonly accountNumber: string;
  readonly chainId: string;
  /** Port of the application. */
  readonly abciPort: number;
  /** File that gets a line of JSON for every hostile block that is proposed. */
  readonly log: string;
  /** Height before which all blocks are honest. */
  readonly fromHeight: string;
}

/** A line of {@link ByzantineFile.log}. */
export interface ProposedBlock {
  readonly height: string;
  readonly kind: string;
  readonly txs: number;
  readonly bytes: number;
  /** SHA-256 of the first transaction, as hexadecimal digits; empty without one. */
  readonly first: string;
}
