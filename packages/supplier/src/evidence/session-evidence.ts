import { readSync } from "node:fs";
import { readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { AppError, bytesEqual, bytesToUtf8, type Log, silentLog, utf8ToBytes } from "@turnpike/base";
import { encodeClosestProof, SumTrie } from "@turnpike/crypto";
import { claimedUpokt, isRelayApplicable, relayHash } from "@turnpike/protocol";
import { isAbsent, writeSafely } from "./files.ts";
import { OffsetTable } from "./offset-table.ts";
import {
  countsPayload,
  type FoundRecord,
  HEADER_BYTES,
  namesPayload,
  RECORD,
  type RecordKind,
  readCounts,
  readNames,
} from "./records.ts";
import { RelayLog, type WriteAll } from "./relay-log.ts";
import { requestNameOf } from "./request-name.ts";
import { headText, parseHead, parseState, stateText } from "./session-json.ts";
import type { AppendResult, RelayCounts, SealedClaim, SessionHead, SessionState } from "./types.ts";

export interface SessionEvidenceModules {
  readonly log?: Log;
  /** A random unsigned number of 32 bits. */
  readonly randomSalt: () => number;
  /** Acquires room on the disk for a record of an application: returns a function that ends the write, or undefined without room. */
  readonly acquireRoom?: (applicationAddress: string, bytes: number) => (() => void) | undefined;
  /** Only tests give another one. */
  readonly writeAll?: WriteAll;
}

/** Name of the relay log in a session's folder. */
export const LOG_FILE = "relays.log";
/** Name of its state file. */
export const STATE_FILE = "session.json";
const DAMAGED_STATE =
  "the state file of a session cannot be read; its relay log is used where it is there, and the folder is kept";
/** Bytes of a proof above which it is made without what its verification does not need: a byte of it costs forty gas. */
const MAX_WHOLE_PROOF_BYTES = 100_000;
/**
 * A node's RPC accepts a body of 1,000,000 bytes (`max_body_bytes` of CometBFT), and a transaction is in it as base64: 750,000 bytes.
 * The remaining ones are for the digests beside the leaf.
 */
export const MAX_RELAY_BYTES = 720_000;
const DIGESTS_AT_ONCE = 1_000;
/** The trie's most: about a gigabyte. */
const MAX_RELAYS = 4_000_000;
const OPEN: SessionState = { phase: "open", feesUpokt: 0n };

/** Relays that are not mined, and are being written down together. */
interface Uncounted {
  belowDifficulty: number;
  repeated: number;
  readonly names: string[];
  readonly isWritten: Promise<boolean>;
}

interface Mutable {
  served: number;
  belowDifficulty: number;
  repeated: number;
}

/** Relays of a log in memory: the trie, and where their bytes are. */
class Mined {
  readonly offsets = new OffsetTable();
  readonly trie: SumTrie;
  fd = -1;

  constructor() {
    this.trie = new SumTrie({}, { values: { get: (key) => this.#value(key) } });
  }

  add(key: Uint8Array, relay: Uint8Array, at: number, computeUnits: bigint): boolean {
    const isNew = this.trie.insert(key, relay, computeUnits);
    if (isNew) this.offsets.add(key, at);
    return isNew;
  }

  #value(key: Uint8Array): Uint8Array | undefined {
    const header = Buffer.alloc(HEADER_BYTES);
    for (const at of this.offsets.candidates(key)) {
      if (readSync(this.fd, header, 0, HEADER_BYTES, at) !== HEADER_BYTES) continue;
      const relay = Buffer.alloc(header.readUInt32LE(8));
      if (readSync(this.fd, relay, 0, relay.length, at + HEADER_BYTES) !== relay.length) continue;
      if (bytesEqual(relayHash(relay), key)) return relay;
    }
    return undefined;
  }
}

/**
 * The evidence of one supplier's relays in one session: a log of what was served, the trie that a claim commits to, and how
 * far claim and proof are. Everything but the trie is on disk, and the trie is made of the log.
 */
export class SessionEvidence {
  readonly head: SessionHead;
  readonly #folder: string;
  readonly #modules: SessionEvidenceModules;
  readonly #log: Log;
  #state: SessionState = OPEN;
  #counts: Mutable = { served: 0, belowDifficulty: 0, repeated: 0 };
  #minedBefore = 0;
  #relays: RelayLog | undefined;
  #mined: Mined | undefined;
  /** Relays that are being written, by hash: an equal one waits for the same write. */
  readonly #writing = new Map<string, Promise<AppendResult>>();
  #uncounted: Uncounted | undefined;
  #loading: Promise<Mined> | undefined;
  #isSealing = false;
  #isLogRemoved = false;
  /** Bytes of the log while it is not open here. */
  #closedLogBytes = 0;
  #inFlight = 0;
  /** Names of the requests that the log had when it was read. */
  #requests: string[] = [];
  #lastSave: Promise<void> = Promise.resolve();

  private constructor(folder: string, head: SessionHead, modules: SessionEvidenceModules) {
    this.#folder = folder;
    this.head = head;
    this.#modules = modules;
    const { operatorAddress, header } = head;
    this.#log = (modules.log ?? silentLog).child({ operatorAddress, sessionId: header.sessionId });
  }

  /** Begins the evidence of a session in a folder that is there and empty. */
  static async create(folder: string, head: SessionHead, modules: SessionEvidenceModules): Promise<SessionEvidence> {
    const made = new SessionEvidence(folder, head, modules);
    // A crash between the two leaves a log without a relay, or one that knows its session by itself.
    made.#relays = await RelayLog.create(
      join(folder, LOG_FILE),
      utf8ToBytes(headText(head)),
      modules.randomSalt(),
      made.#logModules(),
    );
    made.#mined = new Mined();
    made.#mined.fd = made.#relays.fd;
    await made.#save(true);
    return made;
  }

  /**
   * Opens what a folder has of a session. `absent`: nothing in it names one: a crash while the session began, before its
   * first relay. `damaged`: its state file is there, but neither this nor the log says which session it is of.
   */
  static async open(folder: string, modules: SessionEvidenceModules): Promise<SessionEvidence | "absent" | "damaged"> {
    const file = await readFile(join(folder, STATE_FILE), "utf8").then(
      (source) => ({ source, cause: undefined }),
      (cause: unknown) => ({ source: undefined, cause }),
    );
    const stored = parseState(file.source ?? "");
    if (stored !== undefined) {
      const found = new SessionEvidence(folder, stored.head, modules);
      found.#state = stored.state;
      found.#counts = { ...stored.counts };
      found.#minedBefore = stored.counts.mined;
      found.#closedLogBytes = await logBytesIn(folder);
      return found;
    }
    const isThere = !isAbsent(file.cause);
    if (isThere) {
      const reason = file.source === undefined ? "state_unreadable" : "state_damaged";
      modules.log?.error({ folder, reason, cause: file.cause }, DAMAGED_STATE);
    }
    const head = await headOfLog(folder);
    if (head !== undefined) {
      const session = new SessionEvidence(folder, head, modules);
      session.#closedLogBytes = await logBytesIn(folder);
      return session;
    }
    return isThere ? "damaged" : "absent";
  }

  get state(): SessionState {
    return this.#state;
  }

  get counts(): RelayCounts {
    const mined = this.#mined?.trie.size ?? this.#minedBefore;
    return { ...this.#counts, mined };
  }

  /** Relays that began and have not ended. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** False once the session is being claimed. */
  get isOpen(): boolean {
    return this.#state.phase === "open" && !this.#isSealing;
  }

  /** True once relays can be written down. */
  get isLoaded(): boolean {
    return this.#mined !== undefined;
  }

  /** True when no more relays can be appended. */
  get isFull(): boolean {
    return this.#relays?.isBroken === true || (this.#mined?.trie.size ?? 0) + this.#writing.size >= MAX_RELAYS;
  }

  /** The names of requests that the log had when it was read. They are given once, and not kept. */
  releaseRequests(): readonly string[] {
    const requests = this.#requests;
    this.#requests = [];
    return requests;
  }

  /** Bytes of the log on the disk. */
  get logBytes(): number {
    return this.#relays?.sizeBytes ?? this.#closedLogBytes;
  }

  /** Notes that a relay is being served until what is returned is called. */
  enter(): () => void {
    this.#inFlight++;
    let isOver = false;
    return () => {
      if (!isOver) this.#inFlight--;
      isOver = true;
    };
  }

  /**
   * Writes a served relay down. Resolves once it is with the kernel: only then may the answer leave.
   */
  async append(relay: Uint8Array, requestName?: string): Promise<AppendResult> {
    if (!this.isOpen) return "sealed";
    if (this.isFull) return "full";
    if (relay.length > MAX_RELAY_BYTES) return "too-large";
    const { targetHash } = this.head.terms;
    const key = relayHash(relay);
    if (!isRelayApplicable(key, targetHash)) return this.#count("belowDifficulty", requestName);
    const name = Buffer.from(key).toString("latin1");
    const writing = this.#writing.get(name);
    if (writing !== undefined || this.#mined?.trie.has(key) === true) {
      if (writing !== undefined && (await writing) === "full") return "full";
      return this.#count("repeated", requestName);
    }
    const append = this.#write(key, relay);
    this.#writing.set(name, append);
    try {
      return await append;
    } finally {
      this.#writing.delete(name);
    }
  }

  async #write(key: Uint8Array, relay: Uint8Array): Promise<AppendResult> {
    const { acquireRoom } = this.#modules;
    const written = acquireRoom?.(this.head.header.applicationAddress, HEADER_BYTES + relay.length);
    if (acquireRoom !== undefined && written === undefined) return "full";
    const at = await this.#relays?.append(RECORD.relay, relay).finally(written);
    const mined = this.#mined;
    if (at === undefined || mined === undefined) return "full";
    mined.add(key, relay, at, this.head.terms.computeUnitsPerRelay);
    this.#counts.served++;
    return "mined";
  }

  // Those of one turn are one record. They are with the kernel before an answer leaves, as mined relays are: after a crash
  // their requests are not served again, and are counted against the stake.
  async #count(kind: "belowDifficulty" | "repeated", requestName: string | undefined): Promise<AppendResult> {
    this.#uncounted ??= this.#gather();
    const { names, isWritten } = this.#uncounted;
    this.#uncounted[kind]++;
    if (requestName !== undefined) names.push(requestName);
    if (!(await isWritten)) return "full";
    this.#counts.served++;
    this.#counts[kind]++;
    return kind === "repeated" ? "mined" : "below-difficulty";
  }

  #gather(): Uncounted {
    const { promise: isWritten, resolve } = Promise.withResolvers<boolean>();
    const gathered: Uncounted = { belowDifficulty: 0, repeated: 0, names: [], isWritten };
    queueMicrotask(() => {
      this.#uncounted = undefined;
      const { belowDifficulty, repeated, names } = gathered;
      const append = (kind: RecordKind, payload: Uint8Array): Promise<number | undefined> =>
        this.#relays?.append(kind, payload) ?? Promise.resolve(undefined);
      const records = [append(RECORD.counts, countsPayload(belowDifficulty, repeated))];
      if (names.length > 0) records.push(append(RECORD.names, namesPayload(names)));
      void Promise.all(records).then((places) => resolve(places.every((at) => at !== undefined)));
    });
    return gathered;
  }

  /** Makes what was appended safe from a loss of power. False when the disk fails, or has failed before. */
  async sync(): Promise<boolean> {
    return (await this.#relays?.sync()) ?? true;
  }

  get isDirty(): boolean {
    return this.#relays?.isDirty === true;
  }

  /**
   * Ends the session's evidence: no relay is appended any more, the log is safe on the disk, and the root that will be claimed is
   * written down before it is claimed. Does the same again after a crash.
   */
  async seal(): Promise<SealedClaim> {
    const { claim } = this.#state;
    if (claim !== undefined) return claim;
    this.#isSealing = true;
    await Promise.all(this.#writing.values());
    const mined = await this.load();
    if (!(await this.sync())) {
      this.#log.error({}, "a session is claimed although its relay log may not survive a loss of power");
    }
    // The root of many relays is a second's work: others are served meanwhile.
    while (!mined.trie.digestSome(DIGESTS_AT_ONCE)) await new Promise(setImmediate);
    const sealed = this.#claimOf(mined.trie);
    await this.update({ phase: "sealed", claim: sealed });
    this.#isSealing = false;
    return sealed;
  }

  #claimOf(trie: SumTrie): SealedClaim {
    const { computeUnitsPerRelay, targetHash, pricing } = this.head.terms;
    const relays = BigInt(trie.size);
    const computeUnits = relays * computeUnitsPerRelay;
    const expectedUpokt = claimedUpokt(computeUnits, targetHash, pricing);
    return { rootHash: trie.root(), relays, computeUnits, expectedUpokt };
  }

  /**
   * The proof of the leaf that is closest to a path, in the encoding of MsgSubmitProof; undefined when the log no longer
   * holds the relays that were claimed.
   */
  async proof(path: Uint8Array): Promise<Uint8Array | undefined> {
    const { trie } = await this.load();
    const { claim } = this.#state;
    if (claim === undefined || !bytesEqual(trie.root(), claim.rootHash)) return undefined;
    try {
      const proof = trie.proveClosest(path);
      const encoded = encodeClosestProof(proof);
      if (encoded.length <= MAX_WHOLE_PROOF_BYTES) return encoded;
      // What the leaf's sibling hashes is another relay, and is not needed to verify.
      const { closestProof } = proof;
      const bare = closestProof === undefined ? undefined : { ...closestProof, siblingData: undefined };
      return encodeClosestProof({ ...proof, closestProof: bare });
    } catch (cause) {
      this.#log.error({ cause }, "a relay that was claimed cannot be read any more");
      return undefined;
    }
  }

  /** Opens the log and makes the trie of it, where that was not done yet. @throws AppError EVIDENCE_DAMAGED */
  load(): Promise<{ readonly trie: SumTrie }> {
    if (this.#mined !== undefined) return Promise.resolve(this.#mined);
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  async #load(): Promise<Mined> {
    const mined = new Mined();
    const counts: Mutable = { served: 0, belowDifficulty: 0, repeated: 0 };
    const { computeUnitsPerRelay } = this.head.terms;
    const requests: string[] = [];
    const add = ({ kind, payload, at }: FoundRecord): void => {
      if (kind === RECORD.relay) {
        counts.served++;
        const name = this.#state.phase === "open" ? requestNameOf(payload) : undefined;
        if (name !== undefined) requests.push(name);
        if (!mined.add(relayHash(payload), payload, at, computeUnitsPerRelay)) counts.repeated++;
      }
      if (kind === RECORD.names && this.#state.phase === "open") requests.push(...readNames(payload));
      const more = kind === RECORD.counts ? readCounts(payload) : undefined;
      counts.served += (more?.belowDifficulty ?? 0) + (more?.repeated ?? 0);
      counts.belowDifficulty += more?.belowDifficulty ?? 0;
      counts.repeated += more?.repeated ?? 0;
    };
    const path = join(this.#folder, LOG_FILE);
    const opened = await RelayLog.reopen(path, add, this.#logModules()).catch((cause: unknown) => {
      if (isAbsent(cause)) return undefined;
      throw cause;
    });
    if (opened === undefined) {
      const { sessionId } = this.head.header;
      throw new AppError("EVIDENCE_DAMAGED", { message: `${path} is no relay log.`, detail: { sessionId } });
    }
    const { log, scan } = opened;
    const { tornBytes, damagedBytes, records } = scan;
    if (tornBytes > 0) this.#log.warn({ tornBytes, records }, "a relay log ended in a record that was never finished");
    if (damagedBytes > 0) {
      this.#log.error({ damagedBytes, records }, "a relay log is damaged; the relays in the damaged part are lost");
    }
    mined.fd = log.fd;
    this.#relays = log;
    this.#mined = mined;
    this.#counts = counts;
    this.#requests = requests;
    return mined;
  }

  /**
   * Claims what the log still has, when that is not what was sealed: only before a claim is on the chain.
   */
  async reseal(): Promise<SealedClaim> {
    const { trie } = await this.load();
    const claim = this.#claimOf(trie);
    await this.update({ claim });
    return claim;
  }

  /** True when the log still has exactly the relays that were sealed. */
  async isWhole(): Promise<boolean> {
    const { claim } = this.#state;
    return claim !== undefined && bytesEqual((await this.load()).trie.root(), claim.rootHash);
  }

  /** Changes the state, and writes it down. A claim that could not be written down is not in the state either. */
  async update(change: Partial<SessionState>): Promise<void> {
    if (change.claim !== undefined) {
      await this.#save(true, change);
      return;
    }
    this.#state = { ...this.#state, ...change };
    // The rest is found out again from the log and the chain.
    await this.#save(change.outcome !== undefined);
  }

  /** Releases memory and the file; the evidence can be loaded again. */
  async unload(): Promise<void> {
    this.#minedBefore = this.counts.mined;
    this.#mined = undefined;
    const relays = this.#relays;
    this.#closedLogBytes = this.logBytes;
    this.#relays = undefined;
    await relays?.[Symbol.asyncDispose]();
  }

  /** Removes the log: nothing needs it after the settlement. What is known of the session stays. */
  async removeLog(): Promise<void> {
    if (this.#isLogRemoved) return;
    await this.unload();
    await rm(join(this.#folder, LOG_FILE), { force: true });
    this.#closedLogBytes = 0;
    this.#isLogRemoved = true;
  }

  /** Removes everything. */
  async remove(): Promise<void> {
    await this.unload();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** What names the session in its folder and in logs. */
  get name(): string {
    return sessionFolderName(this.head);
  }

  // One after the other: two at once would write one draft.
  #save(isSynced: boolean, change: Partial<SessionState> = {}): Promise<void> {
    const next = this.#lastSave.then(async () => {
      const text = stateText(this.head, { ...this.#state, ...change }, this.counts);
      await writeSafely(join(this.#folder, STATE_FILE), text, isSynced);
      this.#state = { ...this.#state, ...change };
    });
    this.#lastSave = next.catch(() => {});
    return next;
  }

  #logModules(): { readonly log: Log; readonly writeAll?: WriteAll } {
    const { writeAll } = this.#modules;
    return { log: this.#log, ...(writeAll === undefined ? {} : { writeAll }) };
  }
}

/** Name of a session's folder: sorted by end. */
export function sessionFolderName({ header }: Pick<SessionHead, "header">): string {
  return `${header.sessionEndBlockHeight.toString().padStart(12, "0")}-${header.sessionId}`;
}

async function logBytesIn(folder: string): Promise<number> {
  return stat(join(folder, LOG_FILE)).then(
    ({ size }) => size,
    () => 0,
  );
}

async function headOfLog(folder: string): Promise<SessionHead | undefined> {
  let head: SessionHead | undefined;
  try {
    const opened = await RelayLog.reopen(join(folder, LOG_FILE), ({ kind, payload }) => {
      if (kind === RECORD.head) head ??= parseHead(bytesToUtf8(payload) ?? "");
    });
    await opened?.log[Symbol.asyncDispose]();
  } catch (cause) {
    if (!isAbsent(cause)) throw cause;
  }
  return head;
}
