import { timingSafeEqual } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { isAppError, type Log } from "@turnpike/base";
import type { ChainStart } from "@turnpike/chain";
import type { BlockRecord, Bytes, ChainStore, StateRestore } from "@turnpike/chain-store";
import { sha256 } from "@turnpike/crypto";
import { chunkHash, unpackChunk } from "./chunk-codec.ts";
import { EntryReader, HASH_BYTES, MAX_CHUNKS, SNAPSHOT_FORMAT } from "./format.ts";
import type { ChunkVerdict, OfferVerdict, SnapshotOffer } from "./types.ts";

export interface SnapshotRestorerOptions {
  /** The node's own genesis: of what a chain began with nothing is taken from a peer. */
  readonly genesis: ChainStart;
}

export interface SnapshotRestorerModules {
  /** Stays the caller's. */
  readonly store: Pick<ChainStore, "restore">;
  readonly application: {
    startRecord(genesis: ChainStart): BlockRecord;
    /** Called when the store's state is another one. */
    reload(): void;
  };
  readonly log: Log;
}

/** What is under way. */
interface Current {
  readonly offer: SnapshotOffer;
  readonly appHash: Bytes;
  readonly record: BlockRecord;
  readonly restore: StateRestore;
  readonly reader: EntryReader;
  /** Who sent its chunks, as CometBFT names peers. */
  readonly senders: Set<string>;
  /** The chunk that is awaited. */
  next: number;
}

/** What one transaction of the store takes, of entries and of their bytes. */
const BATCH_ENTRIES = 4_096;
const BATCH_BYTES = 1_048_576;
const MAX_HEIGHT = (1n << 63n) - 1n;
const ACCEPT: ChunkVerdict = { result: "accept" };

/** An untrusted snapshot may fill the disk: the next one may have room, and state sync goes on. */
const isFull = (cause: unknown): boolean => isAppError(cause, "CHAIN_STORE_FULL");
const isSame = (a: Bytes, b: Bytes): boolean => a.length === b.length && timingSafeEqual(a, b);

/**
 * Brings an empty store up from another node's snapshot. Nothing that a peer says is believed: chunks are compared with the
 * metadata, the metadata with the snapshot's hash, and the whole state with the app hash that CometBFT's light client
 * trusts; before that it is no state of this node.
 */
export class SnapshotRestorer implements AsyncDisposable {
  readonly #genesis: ChainStart;
  readonly #modules: SnapshotRestorerModules;
  #current: Current | undefined;
  // Worked out once: a large genesis takes its time, and peers offer as often as they like.
  #record: BlockRecord | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor({ genesis }: SnapshotRestorerOptions, modules: SnapshotRestorerModules) {
    this.#genesis = genesis;
    this.#modules = modules;
  }

  /** Takes a snapshot or not. What was under way is given up. @param appHash of the state, as the light client trusts it */
  offer(offer: SnapshotOffer, appHash: Bytes): Promise<OfferVerdict> {
    return this.#inTurn(() => this.#offer(offer, appHash));
  }

  /** Takes the next chunk. @param sender who sent it, as CometBFT names peers */
  apply(index: number, packed: Bytes, sender: string): Promise<ChunkVerdict> {
    return this.#inTurn(() => this.#apply(index, packed, sender));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#inTurn(() => this.#giveUp());
  }

  async #offer(offer: SnapshotOffer, appHash: Bytes): Promise<OfferVerdict> {
    const { store, application, log } = this.#modules;
    const height = { heightBlocks: `${offer.heightBlocks}` };
    if (offer.format !== SNAPSHOT_FORMAT) return "reject-format";
    const why = this.#faultOf(offer, appHash);
    if (why !== undefined) {
      log.warn({ ...height, why }, "snapshot refused");
      return "reject";
    }
    try {
      await this.#giveUp();
      this.#record ??= application.startRecord(this.#genesis);
      const record = this.#record;
      const restore = await store.restore(offer.heightBlocks);
      application.reload();
      this.#current = { offer, appHash, record, restore, reader: new EntryReader(), senders: new Set(), next: 0 };
    } catch (cause) {
      log.error({ ...height, cause }, "no snapshot can be restored here");
      return isFull(cause) ? "reject" : "abort";
    }
    log.info({ ...height, chunks: offer.chunks }, "snapshot taken; its state is being restored");
    return "accept";
  }

  async #apply(index: number, packed: Bytes, sender: string): Promise<ChunkVerdict> {
    const current = this.#current;
    const { log } = this.#modules;
    // CometBFT gives them in order; a chunk of its own that comes otherwise is no peer's fault.
    if (current === undefined || index !== current.next) {
      log.error({ chunk: index, awaited: current?.next }, "a chunk came that was not asked for");
      return { result: "abort" };
    }
    const chunk = await unpackChunk(packed);
    const hash = current.offer.metadata.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES);
    if (chunk === undefined || !isSame(await chunkHash(chunk), hash)) {
      log.warn({ chunk: index, sender }, "a chunk is not the snapshot's; it is asked of another peer");
      return { result: "retry", rejectedSenders: [sender] };
    }
    current.senders.add(sender);
    try {
      const fault = (await this.#write(current, chunk)) ?? (await this.#finish(current));
      if (fault === undefined) return ACCEPT;
      log.warn({ heightBlocks: `${current.offer.heightBlocks}`, fault }, "snapshot refused");
      await this.#giveUp();
      // Its chunks are what its hash says: each of them sent, and so offered, a state that is not the chain's.
      return { result: "reject-snapshot", rejectedSenders: [...current.senders] };
    } catch (cause) {
      log.error({ cause }, "the snapshot could not be restored");
      await this.#giveUp().catch((also: unknown) =>
        log.error({ cause: also }, "its remains are removed at the next start"),
      );
      return { result: isFull(cause) ? "reject-snapshot" : "abort" };
    }
  }

  #faultOf({ heightBlocks, chunks, hash, metadata }: SnapshotOffer, appHash: Bytes): string | undefined {
    if (heightBlocks < this.#genesis.initialHeightBlocks || heightBlocks > MAX_HEIGHT) return "no block has its height";
    if (chunks < 1 || chunks > MAX_CHUNKS) return `it has ${chunks} chunks`;
    if (metadata.length !== chunks * HASH_BYTES) return "its metadata is malformed";
    if (!isSame(sha256(metadata), hash)) return "its hash is not that of its metadata";
    return appHash.length === HASH_BYTES ? undefined : "the app hash is none";
  }

  /** Entries of one chunk into the store; why they cannot be. */
  async #write({ reader, restore }: Current, chunk: Buffer): Promise<string | undefined> {
    reader.push(chunk);
    let batch: (readonly [Bytes, Bytes])[] = [];
    let batchBytes = 0;
    for (;;) {
      const found = reader.next();
      if (found.kind === "malformed") return found.fault;
      if (found.kind === "entry") {
        batch.push([found.key, found.value]);
        batchBytes += found.key.length + found.value.length;
      }
      const isFull = batch.length >= BATCH_ENTRIES || batchBytes >= BATCH_BYTES;
      if (batch.length > 0 && (isFull || found.kind === "partial")) {
        await restore.add(batch);
        [batch, batchBytes] = [[], 0];
        await nextTurn();
      }
      if (found.kind === "partial") return undefined;
    }
  }

  /** After the last chunk: the state is this node's, or why it cannot be. */
  async #finish(current: Current): Promise<string | undefined> {
    const { offer, reader, restore, appHash, record } = current;
    const { application, log } = this.#modules;
    current.next++;
    if (current.next < offer.chunks) return undefined;
    if (!reader.isAtEnd) return "its last entry is cut off";
    if (!(await restore.finish(appHash, [record]))) return "its state does not have the app hash of the chain";
    this.#current = undefined;
    application.reload();
    log.info({ heightBlocks: `${offer.heightBlocks}` }, "snapshot restored");
    return undefined;
  }

  // A CometBFT that died may have left a chunk under way when the next one offers.
  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(action);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async #giveUp(): Promise<void> {
    const current = this.#current;
    this.#current = undefined;
    await current?.restore[Symbol.asyncDispose]();
  }
}
