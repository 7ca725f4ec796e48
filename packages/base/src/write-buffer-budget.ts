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
  /** True: what it has not read becomes less so fast that its connection is not closed for another client's answer. */
  isReading?(): boolean;
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
  readonly connections: Map<object, Connection>;
}

/** Answers of one connection that are given up when it is closed for another client's. */
interface Connection {
  readonly holder: Holder;
  readonly answers: Set<UnreadAnswer>;
  /** Those among them whose bytes others read, too. */
  readonly shared: Map<UnreadAnswer, Source>;
  /** Bytes of the others. */
  ownBytes: number;
  /** Sum of all of their bytes, and of their bytes times the time of their arrival. */
  weighedBytes: number;
  weighedByteMs: number;
}

interface UnreadAnswer {
  readonly connection: Connection;
  readonly reader: AnswerReader;
  readonly sinceMs: number;
  weighedBytes: number;
  readonly release: ReleaseBytes;
}

/** Bytes that several connections read. */
interface Source {
  readonly bytes: number;
  readonly answers: Set<UnreadAnswer>;
  /** Number of them for each client. */
  readonly perHolder: Map<Holder, number>;
  /** Number of parts that the bytes weigh in: that of the answers, rounded down to a power of two so that it seldom changes. */
  parts: number;
}

/** Connections that may be closed, the heaviest last, and their weight. */
interface Candidate {
  readonly connections: Connection[];
  weight: number;
}

/** Part of all bytes that one client may hold, beyond its first answer. */
const CLIENT_SHARE = 0.25;
/** Added to the age of unread bytes: new ones count, too. */
const MIN_AGE_MS = 100;
/** Memory of one more reader of shared bytes. */
const SHARED_READER_BYTES = 512;
/** Maximum clients whose connections are closed for one answer. */
const MAX_CLOSED_CLIENTS = 16;

const keyOf = ({ client, connection }: AnswerReader): unknown => client ?? connection;

/** Bytes that closing a connection frees, times their age. Bytes that n answers share are an n-th for each. */
function weightOf({ weighedBytes, weighedByteMs }: Connection, nowMs: number): number {
  return weighedBytes * (nowMs + MIN_AGE_MS) - weighedByteMs;
}

const isBeingRead = ({ answers }: Connection): boolean => {
  for (const { reader } of answers) return reader.isReading?.() === true;
  return false;
};

function candidateOf(holder: Holder, isCandidate: (connection: Connection) => boolean, nowMs: number): Candidate {
  const connections = holder.connections
    .values()
    .filter(isCandidate)
    .toArray()
    .sort((one, other) => weightOf(one, nowMs) - weightOf(other, nowMs));
  return { connections, weight: connections.reduce((total, connection) => total + weightOf(connection, nowMs), 0) };
}

/** Changes the bytes of a client. */
function hold(holder: Holder, bytes: number, burst: unknown): void {
  holder.bytes += bytes;
  if (burst === undefined) return;
  if (bytes > 0 && holder.burst !== burst) {
    holder.burst = burst;
    holder.burstBytes = 0;
  }
  if (holder.burst === burst) holder.burstBytes += bytes;
}

/** Sets the weight of an answer. */
function weigh(answer: UnreadAnswer, bytes: number): void {
  const { connection, sinceMs, weighedBytes } = answer;
  connection.weighedBytes += bytes - weighedBytes;
  connection.weighedByteMs += (bytes - weighedBytes) * sinceMs;
  answer.weighedBytes = bytes;
}

/** Divides shared bytes among those who read them. */
function divide(source: Source, added?: UnreadAnswer): void {
  const { answers, bytes } = source;
  const parts = 2 ** Math.floor(Math.log2(Math.max(1, answers.size)));
  const partBytes = Math.ceil(bytes / parts) + SHARED_READER_BYTES;
  if (parts !== source.parts) for (const answer of answers) weigh(answer, partBytes);
  else if (added !== undefined) weigh(added, partBytes);
  source.parts = parts;
}

interface ClosingTask {
  /** Bytes that the client that needs room will hold beyond its own. */
  readonly holderBytes: number;
  readonly missingBytes: number;
  readonly isCandidate: (connection: Connection) => boolean;
}

/** Counts the bytes that are freed when connections are closed together. */
class Closings {
  readonly connections: Connection[] = [];
  readonly #readers = new Map<Source, number>();
  bytes = 0;

  add(connection: Connection): void {
    this.connections.push(connection);
    this.bytes += connection.ownBytes;
    for (const source of connection.shared.values()) {
      const readers = (this.#readers.get(source) ?? source.answers.size) - 1;
      this.#readers.set(source, readers);
      this.bytes += SHARED_READER_BYTES + (readers === 0 ? source.bytes : 0);
    }
  }

  /** Returns the connections without those whose bytes are not needed to free so many. */
  needed(bytes: number): readonly Connection[] {
    let total = this.bytes;
    return this.connections.filter(({ ownBytes, shared }) => {
      for (const source of shared.values()) if (this.#readers.get(source) === 0) return true;
      const freedBytes = ownBytes + shared.size * SHARED_READER_BYTES;
      if (total - freedBytes < bytes) return true;
      total -= freedBytes;
      return false;
    });
  }
}

/**
 * Bounds the bytes of answers that wait in write buffers because their clients do not read them: together, and for each
 * client. When there is no room, connections of the clients that have held most for longest are closed: clients that read
 * nothing do not keep others from being answered. None is closed unless there is room for the answer then.
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
    if (isDue) return this.#reserveDue(bytes, this.#holderOf(reader));
    if (!this.#makeRoom(reader, bytes, bytes, undefined)) return undefined;
    const connection = this.#connectionOf(reader);
    const answer = this.#enter(connection, reader, () => {
      connection.ownBytes -= bytes;
      this.#bytes -= bytes;
      hold(connection.holder, -bytes, undefined);
    });
    connection.ownBytes += bytes;
    this.#bytes += bytes;
    hold(connection.holder, bytes, undefined);
    weigh(answer, bytes);
    return answer.release;
  }

  /**
   * Returns bytes that are counted once in total, and once for each client that reads them.
   * @param burst value of all bytes that are sent at one moment, before a client can read the first of them: these do not count
   * against the share of a client that held less than it before them
   */
  share(bytes: number, burst: unknown): SharedBytes {
    const source: Source = { bytes, answers: new Set(), perHolder: new Map(), parts: 1 };
    return {
      reserve: (reader) => {
        const current = this.#holders.get(keyOf(reader));
        const isFirst = current === undefined || !source.perHolder.has(current);
        const neededBytes = (source.answers.size > 0 ? 0 : bytes) + SHARED_READER_BYTES;
        const holderBytes = (isFirst ? bytes : 0) + SHARED_READER_BYTES;
        return this.#makeRoom(reader, holderBytes, neededBytes, burst) ? this.#share(source, reader, burst) : undefined;
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

  #holderOf(reader: AnswerReader): Holder {
    const key = keyOf(reader);
    const holder = this.#holders.get(key) ?? { key, bytes: 0, burst: undefined, burstBytes: 0, connections: new Map() };
    this.#holders.set(key, holder);
    return holder;
  }

  #connectionOf(reader: AnswerReader): Connection {
    const holder = this.#holderOf(reader);
    const connection = holder.connections.get(reader.connection) ?? {
      holder,
      answers: new Set(),
      shared: new Map(),
      ownBytes: 0,
      weighedBytes: 0,
      weighedByteMs: 0,
    };
    holder.connections.set(reader.connection, connection);
    return connection;
  }

  #removeEmpty(holder: Holder): void {
    if (holder.bytes === 0 && this.#holders.get(holder.key) === holder) this.#holders.delete(holder.key);
  }

  #reserveDue(bytes: number, holder: Holder): ReleaseBytes {
    let isReleased = false;
    this.#bytes += bytes;
    this.#dueBytes += bytes;
    hold(holder, bytes, undefined);
    return () => {
      if (isReleased) return;
      isReleased = true;
      this.#bytes -= bytes;
      this.#dueBytes -= bytes;
      hold(holder, -bytes, undefined);
      this.#removeEmpty(holder);
    };
  }

  /** Adds an answer to a connection. @param leave called once, when it is released */
  #enter(connection: Connection, reader: AnswerReader, leave: () => void): UnreadAnswer {
    const { holder, answers } = connection;
    const answer: UnreadAnswer = {
      connection,
      reader,
      sinceMs: this.#clock.monotonicMs(),
      weighedBytes: 0,
      release: () => {
        if (!answers.delete(answer)) return;
        weigh(answer, 0);
        leave();
        if (answers.size === 0 && holder.connections.get(reader.connection) === connection)
          holder.connections.delete(reader.connection);
        this.#removeEmpty(holder);
      },
    };
    answers.add(answer);
    return answer;
  }

  #share(source: Source, reader: AnswerReader, burst: unknown): ReleaseBytes {
    const connection = this.#connectionOf(reader);
    const { holder, shared } = connection;
    const { bytes, answers, perHolder } = source;
    const answer = this.#enter(connection, reader, () => {
      const count = (perHolder.get(holder) ?? 0) - 1;
      if (count > 0) perHolder.set(holder, count);
      else perHolder.delete(holder);
      hold(holder, -SHARED_READER_BYTES - (count > 0 ? 0 : bytes), burst);
      shared.delete(answer);
      answers.delete(answer);
      this.#bytes -= SHARED_READER_BYTES + (answers.size > 0 ? 0 : bytes);
      divide(source);
    });
    // Making room may have closed the last of the other readers.
    this.#bytes += SHARED_READER_BYTES + (answers.size > 0 ? 0 : bytes);
    answers.add(answer);
    shared.set(answer, source);
    const count = perHolder.get(holder) ?? 0;
    perHolder.set(holder, count + 1);
    hold(holder, SHARED_READER_BYTES + (count > 0 ? 0 : bytes), burst);
    divide(source, answer);
    return answer.release;
  }

  /**
   * Closes connections when there is no room. Returns false, with none closed, when the client holds its share, or when others that
   * hold more do not make enough room.
   * @param holderBytes bytes that the client will hold beyond its own
   * @param neededBytes bytes that will be reserved in total
   */
  #makeRoom(reader: AnswerReader, holderBytes: number, neededBytes: number, burst: unknown): boolean {
    const maxBytes = this.#maxBytes();
    const holder = this.#holders.get(keyOf(reader));
    if (holder !== undefined && reader.client !== undefined) {
      const isOfBurst = burst !== undefined && holder.burst === burst;
      const earlierBytes = holder.bytes - (isOfBurst ? holder.burstBytes : 0);
      const share = maxBytes * CLIENT_SHARE;
      // A burst may exceed the share of a client that holds less before it.
      if (earlierBytes > share) return false;
      if (burst === undefined && earlierBytes > 0 && earlierBytes + holderBytes > share) return false;
    }
    if (this.#dueBytes + neededBytes > maxBytes) return false;
    const missingBytes = this.#bytes + neededBytes - maxBytes;
    if (missingBytes <= 0) return true;
    const plan = (isCandidate: (connection: Connection) => boolean): readonly Connection[] | undefined =>
      this.#planClosings(holder, { holderBytes, missingBytes, isCandidate });
    const connections =
      plan((connection) => !isBeingRead(connection)) ??
      // Too many may read the same bytes.
      plan((connection) => connection.shared.size === 0 && !isBeingRead(connection));
    if (connections === undefined) return false;
    for (const { answers } of connections) {
      for (const { release, reader: other } of answers) {
        release();
        other.close();
      }
    }
    return true;
  }

  /**
   * Returns connections whose end frees the bytes: in turn the heaviest one of the client whose connections weigh most, and more
   * than those of the client that needs room. Undefined: there are not enough.
   */
  #planClosings(
    holder: Holder | undefined,
    { holderBytes, missingBytes, isCandidate }: ClosingTask,
  ): readonly Connection[] | undefined {
    const nowMs = this.#clock.monotonicMs();
    const minWeight =
      holder === undefined || holder.bytes === 0
        ? Number.NEGATIVE_INFINITY
        : candidateOf(holder, () => true, nowMs).weight + holderBytes * MIN_AGE_MS;
    const candidates = [...this.#holders.values()]
      .filter((other) => other !== holder)
      .map((other) => candidateOf(other, isCandidate, nowMs));
    const closings = new Closings();
    const clients = new Set<Candidate>();
    while (closings.bytes < missingBytes) {
      let heaviest: Candidate | undefined;
      for (const candidate of clients.size < MAX_CLOSED_CLIENTS ? candidates : clients) {
        if (candidate.connections.length === 0 || candidate.weight <= (heaviest?.weight ?? minWeight)) continue;
        heaviest = candidate;
      }
      const connection = heaviest?.connections.pop();
      if (heaviest === undefined || connection === undefined) return undefined;
      heaviest.weight -= weightOf(connection, nowMs);
      clients.add(heaviest);
      closings.add(connection);
    }
    return closings.needed(missingBytes);
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
