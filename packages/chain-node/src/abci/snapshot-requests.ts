import type { Log } from "@turnpike/base";
import { cometAbci, createMessage } from "@turnpike/proto";
import type { SnapshotFolder } from "../snapshots/snapshot-folder.ts";
import type { SnapshotRestorer } from "../snapshots/snapshot-restorer.ts";
import type { ChunkVerdict, OfferVerdict } from "../snapshots/types.ts";

/** What state sync needs of a node. */
export interface StateSync {
  /** What it gives to others. */
  readonly folder: SnapshotFolder;
  /** What it takes of them. */
  readonly restorer: SnapshotRestorer;
}

export interface SnapshotRequestsModules {
  /** Undefined: there are no snapshots, and none is taken. */
  readonly sync: StateSync | undefined;
  readonly log: Log;
}

type Answer = cometAbci.Response["value"];

const { ResponseOfferSnapshot_Result: Offer, ResponseApplySnapshotChunk_Result: Apply } = cometAbci;
/** CometBFT sends a peer no more. */
const MOST_LISTED = 10;

const OFFERS: Readonly<Record<OfferVerdict, cometAbci.ResponseOfferSnapshot_Result>> = {
  accept: Offer.ACCEPT,
  abort: Offer.ABORT,
  reject: Offer.REJECT,
  "reject-format": Offer.REJECT_FORMAT,
};
const CHUNKS: Readonly<Record<ChunkVerdict["result"], cometAbci.ResponseApplySnapshotChunk_Result>> = {
  accept: Apply.ACCEPT,
  abort: Apply.ABORT,
  retry: Apply.RETRY,
  "reject-snapshot": Apply.REJECT_SNAPSHOT,
};

/** ABCI's four requests of state sync. None of them fails: an exception would end CometBFT, and peers cause them. */
export class SnapshotRequests {
  readonly #sync: StateSync | undefined;
  readonly #log: Log;

  constructor({ sync, log }: SnapshotRequestsModules) {
    this.#sync = sync;
    this.#log = log;
  }

  /** What this node has. */
  async list(): Promise<Answer> {
    const kept = (await this.#orNothing(() => this.#sync?.folder.list(MOST_LISTED))) ?? [];
    const snapshots = kept.map(({ heightBlocks: height, format, chunks, hash, metadata }) =>
      createMessage(cometAbci.SnapshotSchema, { height, format, chunks, hash, metadata }),
    );
    const value = createMessage(cometAbci.ResponseListSnapshotsSchema, { snapshots });
    return { case: "listSnapshots", value };
  }

  /** One of its chunks; an empty one says that it is not here. */
  async load({ height, format, chunk }: cometAbci.RequestLoadSnapshotChunk): Promise<Answer> {
    const found = await this.#orNothing(() => this.#sync?.folder.load(height, format, chunk));
    const value = createMessage(cometAbci.ResponseLoadSnapshotChunkSchema, found === undefined ? {} : { chunk: found });
    return { case: "loadSnapshotChunk", value };
  }

  /** A peer's snapshot, with the app hash that the light client trusts. */
  async offer({ snapshot, appHash }: cometAbci.RequestOfferSnapshot): Promise<Answer> {
    const verdict = await this.#orNothing(() => {
      if (this.#sync === undefined || snapshot === undefined) return Promise.resolve("reject" as const);
      const { height: heightBlocks, format, chunks, hash, metadata } = snapshot;
      return this.#sync.restorer.offer({ heightBlocks, format, chunks, hash, metadata }, appHash);
    });
    const value = createMessage(cometAbci.ResponseOfferSnapshotSchema, { result: OFFERS[verdict ?? "abort"] });
    return { case: "offerSnapshot", value };
  }

  /** A chunk of the snapshot that was taken. */
  async apply({ index, chunk, sender }: cometAbci.RequestApplySnapshotChunk): Promise<Answer> {
    const verdict = await this.#orNothing(() => this.#sync?.restorer.apply(index, chunk, sender));
    const { result, rejectedSenders } = verdict ?? { result: "abort" };
    const value = createMessage(cometAbci.ResponseApplySnapshotChunkSchema, {
      result: CHUNKS[result],
      refetchChunks: result === "retry" ? [index] : [],
      rejectSenders: [...(rejectedSenders ?? [])],
    });
    return { case: "applySnapshotChunk", value };
  }

  async #orNothing<T>(action: () => Promise<T> | undefined): Promise<T | undefined> {
    try {
      return await action();
    } catch (cause) {
      this.#log.error({ cause }, "a request of state sync failed");
      return undefined;
    }
  }
}
