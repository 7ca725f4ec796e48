import type { Bytes } from "@turnpike/chain-store";

/** A snapshot as one node offers it to another: what CometBFT's messages have of it. */
export interface SnapshotOffer {
  /** Block after which it is the state. */
  readonly heightBlocks: bigint;
  readonly format: number;
  readonly chunks: number;
  /** SHA-256 of the metadata. */
  readonly hash: Bytes;
  /** SHA-256 of each chunk, one after another, before it is compressed. */
  readonly metadata: Bytes;
}

/** A snapshot in the node's folder. */
export interface KeptSnapshot extends SnapshotOffer {
  /** App hash of the state. */
  readonly appHash: Bytes;
  /** Entries of the state. */
  readonly entries: number;
  /** Bytes of the entries, and of the files. */
  readonly stateBytes: number;
  readonly fileBytes: number;
}

/** What becomes of an offer. Reject: of this one; reject-format: of all that have its format; abort: of state sync. */
export type OfferVerdict = "accept" | "abort" | "reject" | "reject-format";

/** What becomes of a chunk. */
export interface ChunkVerdict {
  /** Retry: this chunk, from somebody else. Reject-snapshot: of all of it. Abort: of state sync. */
  readonly result: "accept" | "abort" | "retry" | "reject-snapshot";
  /** Who sent what is not the snapshot's, or a snapshot that is not the chain's: they are asked for nothing more. */
  readonly rejectedSenders?: readonly string[];
}
