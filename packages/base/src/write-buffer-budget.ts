import type { Socket } from "node:net";
import type { ClientKey } from "./client-queue.ts";
import { type Clock, systemClock } from "./clock.ts";

/** A response of `node:http`, or one like it. */
interface ClosableResponse {
  readonly req: { readonly socket: Socket };
  readonly destroyed: boolean;
  once(event: "close", listener: () => void): unknown;
}

/** Releases the bytes of an answer; further calls do nothing. */
export type ReleaseBytes = () => void;

/** Connection that an answer is written to. */
export interface AnswerReader {
  /** Key under which its bytes are counted; undefined: a trusted proxy's, whose connections are counted separately. */
  readonly client: ClientKey;
  /** Object of the connection, or of the part of it that is closed alone. */
  readonly connection: object;
  /** Closes the connection, or the part of it that waits for the answer. */
  close(): void;
}

/** Bytes that several connections read and that are in memory once, such as those of an event. */
export interface SharedBytes {
  /** Reserves the bytes for one more reader, as {@link WriteBufferBudget.reserve}. */
  reserve(reader: AnswerReader): ReleaseBytes | undefined;
}

/** Unread bytes of one client, or of one connection of a trusted proxy. */
interface Holder {
  readonly key: unknown;
  bytes: number;
  /** Those of the latest burst. */
  burst: unknown;
  burstBytes: number;
  /** Entries whose connections may be closed, in the order of their arrival. */
  readonly evictable: Set<Entry>;
  /** Sum of their bytes, and of their bytes times the time of their arrival. */
  evictableBytes: number;
  evictableByteMs: number;
}

/** Bytes of one holder that are released together. */
interface Entry {
  readonly holder: Holder;
  readonly sinceMs: number;
  readonly isDue: boolean;
  readonly burst: unknown;
  bytes: number;
  readonly readers: Set<{ readonly close: () => void; readonly release: ReleaseBytes }>;
}

/** Part of all bytes that one client may hold, beyond its first answer. */
const CLIENT_SHARE = 0.25;
/** Added to the age of unread bytes: new ones count, too. */
const MIN_AGE_MS = 100;
/** Memory of one more reader of shared bytes. */
const SHARED_READER_BYTES = 512;

const keyOf = ({ client, connection }: AnswerReader): unknown => client ?? connection;

/** Bytes that may be freed by closing a holder's connections, times their age. */
function weightOf({ evictableBytes, evictableByteMs }: Holder, nowMs: number): number {
  return evictableBytes * (nowMs + MIN_AGE_MS) - evictableByteMs;
}

/**
 * Bounds the bytes of answers that wait in write buffers because their clients do not read them: together, and for each
 * client. When there is no room, the connections of the client that has held most for longest are closed: clients that read
 * nothing do not keep others from being answered.
 */
export class WriteBufferBudget {
  readonly #maxBytes: () => number;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #holders = new Map<unknown, Holder>();
  readonly #connections = new WeakMap<Socket, Set<ReleaseBytes>>();
  #bytes = 0;
  /** Bytes that stay until they are read. */
  #dueBytes = 0;

  /** `maxBytes` may change. */
  constructor(maxBytes: () => number, { clock = systemClock }: { readonly clock?: Pick<Clock, "monotonicMs"> } = {}) {
    this.#maxBytes = maxBytes;
    this.#clock = clock;
  }

  /** Bytes that are reserved. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Reserves the bytes of an answer until they are released; undefined when there is no room. A client that holds nothing has room
   * for any answer that fits in all bytes together, at the cost of those that hold most.
   * @param isDue true: the answer must be written in any case, and its connection is not closed for another client's
   */
  reserve(bytes: number, reader: AnswerReader, isDue = false): ReleaseBytes | undefined {
    if (!isDue && !this.#makeRoom(reader, bytes, bytes, undefined)) return undefined;
    const entry = this.#enter(reader, isDue, undefined);
    this.#bytes += bytes;
    if (isDue) this.#dueBytes += bytes;
    this.#resize(entry, bytes);
    return this.#join(entry, reader, () => {
      this.#bytes -= bytes;
      if (isDue) this.#dueBytes -= bytes;
      this.#resize(entry, -bytes);
    });
  }

  /**
   * Returns bytes that are counted once in total, and once for each client that reads them.
   * @param burst value of all bytes that are sent at one moment, before a client can read the first of them: these do not count
   * against the share of a client that held nothing before them
   */
  share(bytes: number, burst: unknown): SharedBytes {
    const entries = new Map<unknown, Entry>();
    return {
      reserve: (reader) => {
        const key = keyOf(reader);
        const holderBytes = (entries.has(key) ? 0 : bytes) + SHARED_READER_BYTES;
        const neededBytes = (entries.size > 0 ? 0 : bytes) + SHARED_READER_BYTES;
        if (!this.#makeRoom(reader, holderBytes, neededBytes, burst)) return undefined;
        // Making room may have closed the last of the other readers.
        if (entries.size === 0) this.#bytes += bytes;
        let entry = entries.get(key);
        if (entry === undefined) {
          entry = this.#enter(reader, false, burst);
          entries.set(key, entry);
          this.#resize(entry, bytes);
        }
        const shared = entry;
        this.#bytes += SHARED_READER_BYTES;
        this.#resize(shared, SHARED_READER_BYTES);
        return this.#join(shared, reader, () => {
          this.#bytes -= SHARED_READER_BYTES;
          this.#resize(shared, -SHARED_READER_BYTES);
          if (shared.readers.size > 0) return;
          this.#resize(shared, -bytes);
          entries.delete(key);
          if (entries.size === 0) this.#bytes -= bytes;
        });
      },
    };
  }

  /**
   * Acquires the bytes of an answer that is about to be written; they are released when it is sent or its client has left.
   * False: there is no room.
   */
  acquire(res: ClosableResponse, bytes: number, client: ClientKey, isDue = false): boolean {
    const { socket } = res.req;
    // No event would come to release them.
    if (res.destroyed || socket.destroyed) return true;
    const release = this.reserve(bytes, { client, connection: socket, close: () => socket.destroy() }, isDue);
    if (release === undefined) return false;
    this.releaseAfter(res, release);
    return true;
  }

  /** Releases what was reserved for an answer when it is sent or its client has left. */
  releaseAfter(res: ClosableResponse, release: ReleaseBytes): void {
    const { socket } = res.req;
    if (res.destroyed || socket.destroyed) {
      release();
      return;
    }
    const releases = this.#releasesOf(socket);
    releases.add(release);
    res.once("close", () => {
      releases.delete(release);
      release();
    });
  }

  #enter(reader: AnswerReader, isDue: boolean, burst: unknown): Entry {
    const key = keyOf(reader);
    let holder = this.#holders.get(key);
    if (holder === undefined) {
      holder = {
        key,
        bytes: 0,
        burst,
        burstBytes: 0,
        evictable: new Set(),
        evictableBytes: 0,
        evictableByteMs: 0,
      };
      this.#holders.set(key, holder);
    }
    const entry = { holder, sinceMs: this.#clock.monotonicMs(), isDue, burst, bytes: 0, readers: new Set<never>() };
    if (!isDue) holder.evictable.add(entry);
    return entry;
  }

  /** Adds a reader to an entry. @param leave called once, when it is released */
  #join(entry: Entry, reader: AnswerReader, leave: () => void): ReleaseBytes {
    const { holder } = entry;
    const joined = {
      close: () => reader.close(),
      release: () => {
        if (!entry.readers.delete(joined)) return;
        leave();
        if (entry.readers.size === 0) holder.evictable.delete(entry);
        if (holder.bytes === 0 && this.#holders.get(holder.key) === holder) this.#holders.delete(holder.key);
      },
    };
    entry.readers.add(joined);
    return joined.release;
  }

  /** Changes the bytes of an entry, and those of its holder with them. */
  #resize(entry: Entry, bytes: number): void {
    const { holder, burst } = entry;
    entry.bytes += bytes;
    holder.bytes += bytes;
    if (burst !== undefined && bytes > 0 && holder.burst !== burst) {
      holder.burst = burst;
      holder.burstBytes = 0;
    }
    if (burst !== undefined && holder.burst === burst) holder.burstBytes += bytes;
    if (entry.isDue) return;
    holder.evictableBytes += bytes;
    holder.evictableByteMs += bytes * entry.sinceMs;
  }

  /**
   * Closes connections until there is room. Returns false when the client holds its share, or no other holds more.
   * @param holderBytes bytes that the client will hold beyond its own
   * @param neededBytes bytes that will be reserved in total
   */
  #makeRoom(reader: AnswerReader, holderBytes: number, neededBytes: number, burst: unknown): boolean {
    const maxBytes = this.#maxBytes();
    const holder = this.#holders.get(keyOf(reader));
    if (holder !== undefined && reader.client !== undefined) {
      const isOfBurst = burst !== undefined && holder.burst === burst;
      const earlierBytes = holder.bytes - (isOfBurst ? holder.burstBytes : 0);
      if (earlierBytes > 0 && holder.bytes + holderBytes > maxBytes * CLIENT_SHARE) return false;
    }
    if (this.#dueBytes + neededBytes > maxBytes) return false;
    while (this.#bytes + neededBytes > maxBytes) {
      const entry = this.#evictableFor(holder, holderBytes);
      if (entry === undefined) return false;
      for (const { release, close } of entry.readers) {
        release();
        close();
      }
    }
    return true;
  }

  /** Oldest entry of the holder whose bytes weigh most, and more than those of the client that needs room. */
  #evictableFor(holder: Holder | undefined, holderBytes: number): Entry | undefined {
    const nowMs = this.#clock.monotonicMs();
    const isNew = holder === undefined || holder.bytes === 0;
    let heaviest: Holder | undefined;
    let weight = isNew ? Number.NEGATIVE_INFINITY : weightOf(holder, nowMs) + holderBytes * MIN_AGE_MS;
    for (const other of this.#holders.values()) {
      if (other === holder || other.evictable.size === 0) continue;
      const otherWeight = weightOf(other, nowMs);
      if (otherWeight <= weight) continue;
      heaviest = other;
      weight = otherWeight;
    }
    for (const entry of heaviest?.evictable ?? []) return entry;
    return undefined;
  }

  /**
   * Releases of a connection's answers. A response that waits behind another one emits no `close` when the connection ends, so
   * that the connection's own is listened to as well.
   */
  #releasesOf(socket: Socket): Set<ReleaseBytes> {
    const existing = this.#connections.get(socket);
    if (existing !== undefined) return existing;
    const releases = new Set<ReleaseBytes>();
    this.#connections.set(socket, releases);
    socket.once("close", () => {
      for (const release of releases) release();
      releases.clear();
    });
    return releases;
  }
}
