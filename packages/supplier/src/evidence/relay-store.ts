import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import {
  AppError,
  type Clock,
  type FaultPoints,
  isAppError,
  type Log,
  type Metrics,
  noFaults,
  noMetrics,
  silentLog,
} from "@turnpike/base";
import type { SessionHeader } from "@turnpike/protocol";
import type { SessionWork } from "../metering/budget-reader.ts";
import { supplierEvidenceRelaysTotal } from "../metrics.ts";
import { lockOperator } from "../operator/operator-lock.ts";
import { isAbsent } from "./files.ts";
import { LogRoom } from "./log-room.ts";
import { addPastSums, PAST_FILE, type PastSums, readPastSums } from "./past-sums.ts";
import type { WriteAll } from "./relay-log.ts";
import { LOG_FILE, SessionEvidence, type SessionEvidenceModules, sessionFolderName } from "./session-evidence.ts";
import { sumsOf } from "./sums.ts";
import type {
  AppendResult,
  BeginFault,
  BegunRelay,
  InFlight,
  ServedBefore,
  ServedRelay,
  TermsSource,
} from "./types.ts";

export interface RelayStoreOptions {
  /** Holds a folder for each operator, and in it one for each session. */
  readonly folder: string;
  /** Operators whose relays are served and claimed. */
  readonly operators: readonly string[];
  /**
   * A relay that was written down survives the process at once, and a loss of power after so long at most.
   * 0: each write is made safe before its relays are answered. Every claim is preceded by an fsync in any case.
   */
  readonly fsyncMs: number;
  /** With less room on the disk no relay is begun, so that claims and proofs can still be noted; 67,108,864 by default. */
  readonly leastFreeBytes?: number;
  /** Maximum part of the room for logs that the logs of one application take, of all operators; 0.25 by default. */
  readonly maxApplicationShare?: number;
  /** Most sessions of all operators that are not settled; 4,096 by default. Each open one holds a file. */
  readonly maxSessions?: number;
  /** Keep processes with other state folders on this machine from the operators' keys, too; true by default. */
  readonly isMachineWideLock?: boolean;
  /** Maximum time for which the log of a settled session is kept, while there is room; 3,600,000 by default. */
  readonly keepLogsMs?: number;
  /** How long what is known of a settled session is kept; 604,800,000 (a week) by default. Its sums stay. */
  readonly keepSessionsMs?: number;
  /** Most settled sessions of an operator of which anything but the sums is kept; 1,000 by default. */
  readonly keepSessions?: number;
}

export interface RelayStoreModules {
  readonly clock: Clock;
  /** What holds for a new session. */
  readonly termsOf: TermsSource;
  readonly log?: Log;
  readonly metrics?: Metrics;
  readonly faults?: FaultPoints;
  /** Only tests give these. */
  readonly writeAll?: WriteAll;
  readonly freeBytes?: (folder: string) => Promise<number>;
}

const UNREADABLE = "the evidence of a session cannot be read: it cannot be claimed";
const LOCK_FILE = "operator.lock";
const LEAST_FREE_BYTES = 67_108_864;
const MAX_SESSIONS = 4_096;
const MAX_APPLICATION_SHARE = 0.25;
/** A log that is not longer holds its head at most. */
const MOST_HEAD_BYTES = 4_096;
/** A salt of 32 bits. */
const SALT_BYTES = 4;

const FAULT_TEXTS: Readonly<Record<BeginFault, string>> = {
  sealed: "The session is being claimed.",
  full: "There is no room to write relays down.",
  unavailable: "The session's parameters are not known: the chain's node does not answer.",
};

const SHARE_TEXT = "Relays of this application fill its part of the disk; there is room when its sessions are settled.";

type Refused = Extract<BegunRelay, { ok: false }>;

const refuse = (fault: BeginFault, text = FAULT_TEXTS[fault]): Refused => ({ ok: false, fault, text });

/**
 * The evidence of all relays that this process serves, by operator and session. A relay's answer may leave once
 * {@link append} says `mined` or `below-difficulty`; everything else here serves that this is claimed and proven later,
 * whatever happens to the process.
 */
export class RelayStore implements AsyncDisposable {
  readonly #options: Required<RelayStoreOptions>;
  readonly #modules: RelayStoreModules;
  readonly #log: Log;
  readonly #faults: FaultPoints;
  readonly #sessions = new Map<string, SessionEvidence>();
  readonly #beginning = new Map<string, Promise<SessionEvidence | Refused>>();
  readonly #past = new Map<string, PastSums>();
  readonly #locks = new AsyncDisposableStack();
  readonly #loading = new Set<Promise<void>>();
  readonly #room: LogRoom;
  #syncTimer: NodeJS.Timeout | undefined;
  #isSyncing = false;
  #isClosed = false;

  private constructor(options: RelayStoreOptions, modules: RelayStoreModules) {
    this.#options = {
      leastFreeBytes: LEAST_FREE_BYTES,
      maxApplicationShare: MAX_APPLICATION_SHARE,
      maxSessions: MAX_SESSIONS,
      isMachineWideLock: true,
      keepLogsMs: 3_600_000,
      keepSessionsMs: 604_800_000,
      keepSessions: 1_000,
      ...options,
    };
    this.#modules = modules;
    this.#log = modules.log ?? silentLog;
    this.#faults = modules.faults ?? noFaults;
    this.#room = new LogRoom(this.#options, {
      clock: modules.clock,
      log: this.#log,
      sessions: () => this.#sessions.values(),
      ...(modules.freeBytes === undefined ? {} : { freeBytes: modules.freeBytes }),
    });
  }

  /**
   * Opens the evidence of a state folder, and holds the operators' keys for this process: sessions that are served go on, with
   * the relays that were written down.
   * @throws AppError OPERATOR_KEY_HELD when another process has a key, EVIDENCE_FOLDER when the folder cannot be used
   */
  static async open(options: RelayStoreOptions, modules: RelayStoreModules): Promise<RelayStore> {
    const store = new RelayStore(options, modules);
    try {
      for (const operator of options.operators) await store.#openOperator(operator);
      return store;
    } catch (error) {
      await store[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Sessions of an operator that are known here, those that end first before the others. */
  sessions(operatorAddress: string): readonly SessionEvidence[] {
    return [...this.#sessions.values()]
      .filter(({ head }) => head.operatorAddress === operatorAddress)
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** One session; undefined when nothing of it was served here. */
  session(operatorAddress: string, sessionId: string): SessionEvidence | undefined {
    return this.#sessions.get(`${operatorAddress} ${sessionId}`);
  }

  /**
   * Begins a relay of a session that was verified to be one. Dispose what is returned when the answer has left, or will not:
   * the session is not claimed before, as long as there is time.
   */
  async begin(operatorAddress: string, header: SessionHeader): Promise<BegunRelay> {
    const room = await this.#room.look(header.applicationAddress);
    if (room !== "room") return refuse("full", room === "share" ? SHARE_TEXT : undefined);
    const known = this.session(operatorAddress, header.sessionId);
    const session = known ?? (await this.#beginSession(operatorAddress, header));
    if (!(session instanceof SessionEvidence)) return session;
    if (!session.isOpen) return refuse("sealed");
    if (!session.isLoaded && !(await this.#load(session))) return refuse("full");
    if (session.isFull) return refuse("full");
    const leave = session.enter();
    const relay: InFlight = {
      append: (bytes, requestName) => this.#append(session, bytes, requestName),
      [Symbol.dispose]: leave,
    };
    return { ok: true, relay };
  }

  /** What is in the log of a session that is not served yet; the names of its requests are given once. */
  async servedBefore(operatorAddress: string, sessionId: string): Promise<ServedBefore> {
    const session = this.session(operatorAddress, sessionId);
    if (session?.isOpen === true) await this.#load(session);
    return { relays: BigInt(session?.counts.served ?? 0), requests: session?.releaseRequests() ?? [] };
  }

  /** Work of an operator for an application, by session. Open sessions are read first: after a crash only their logs know it. */
  async workOf(operatorAddress: string, applicationAddress: string): Promise<SessionWork[]> {
    const sessions = [...this.#sessions.values()].filter(
      ({ head }) => head.operatorAddress === operatorAddress && head.header.applicationAddress === applicationAddress,
    );
    for (const session of sessions) if (session.isOpen && !session.isLoaded) await this.#load(session);
    return sessions.map(({ head: { header }, state: { phase, claim }, counts, inFlight }) => ({
      header,
      relays: BigInt(counts.served + inFlight),
      claimedUpokt: phase === "open" ? undefined : (claim?.expectedUpokt ?? 0n),
    }));
  }

  /** Resolves when the evidence of all sessions that were open before is read. */
  async loaded(): Promise<void> {
    await Promise.all(this.#loading);
  }

  #load(session: SessionEvidence): Promise<boolean> {
    return session.load().then(
      () => true,
      () => false,
    );
  }

  /** Begins and ends a relay whose answer is ready. */
  async append({ operatorAddress, header, relay }: ServedRelay): Promise<AppendResult | "unavailable"> {
    const begun = await this.begin(operatorAddress, header);
    if (!begun.ok) return begun.fault;
    using one = begun.relay;
    return await one.append(relay);
  }

  /** Sums of an operator's sessions that are not kept by themselves any more. */
  pastSums(operatorAddress: string): PastSums {
    return this.#past.get(operatorAddress) ?? { services: {}, added: [] };
  }

  /** Removes what settled sessions of an operator leave, when its time is over: first the logs, later all but the sums. */
  async prune(operatorAddress: string): Promise<void> {
    const now = this.#modules.clock.nowMs();
    const { keepSessions, keepSessionsMs } = this.#options;
    const ages = this.sessions(operatorAddress).flatMap((session) => {
      const { finishedAtMs } = session.state;
      return finishedAtMs === undefined ? [] : [{ session, ageMs: now - finishedAtMs }];
    });
    const tooMany = ages.length - keepSessions;
    const old = ages.filter(({ ageMs }, at) => at < tooMany || ageMs >= keepSessionsMs).map(({ session }) => session);
    if (old.length > 0) await this.#removeSessions(operatorAddress, old);
    for (const { session, ageMs } of ages) {
      const { outcome } = session.state;
      const isDamaged = outcome?.kind === "lost" && outcome.why === "evidence-damaged";
      if (ageMs >= this.#options.keepLogsMs && !isDamaged && !old.includes(session)) await session.removeLog();
    }
  }

  async #removeSessions(operator: string, sessions: readonly SessionEvidence[]): Promise<void> {
    const file = join(this.#options.folder, operator, PAST_FILE);
    const rows = sessions.map((session) => ({
      name: session.name,
      serviceId: session.head.header.serviceId,
      sums: sumsOf(session),
    }));
    const past = this.pastSums(operator);
    const left: string[] = [];
    for (const name of past.added) {
      await rm(join(this.#options.folder, operator, name), { recursive: true, force: true }).catch(() =>
        left.push(name),
      );
    }
    this.#past.set(operator, await addPastSums(file, { ...past, added: left }, rows));
    await this.#faults.reach("supplier.sums.added");
    for (const session of sessions) {
      this.#sessions.delete(`${operator} ${session.head.header.sessionId}`);
      await session.remove();
    }
  }

  async #append(session: SessionEvidence, relay: Uint8Array, requestName?: string): Promise<AppendResult> {
    const result = await session.append(relay, requestName);
    const { metrics = noMetrics } = this.#modules;
    metrics.count(supplierEvidenceRelaysTotal, { service: session.head.header.serviceId, outcome: result });
    if (result === "mined") {
      await this.#faults.reach("supplier.relay.written");
      if (this.#options.fsyncMs !== 0) this.#syncSoon();
      // The relay stays in the log and may be claimed; its answer is not sent.
      else if (!(await session.sync())) return "full";
    }
    return result;
  }

  #syncSoon(): void {
    if (this.#syncTimer !== undefined || this.#isSyncing || this.#isClosed) return;
    this.#syncTimer = setTimeout(() => {
      this.#syncTimer = undefined;
      void this.#syncAll();
    }, this.#options.fsyncMs);
  }

  /** One file after the other: an fsync holds up a thread that others write with. */
  async #syncAll(): Promise<void> {
    this.#isSyncing = true;
    for (const session of this.#sessions.values()) if (session.isDirty) await session.sync();
    this.#isSyncing = false;
    if ([...this.#sessions.values()].some(({ isDirty }) => isDirty)) this.#syncSoon();
  }

  #beginSession(operatorAddress: string, header: SessionHeader): Promise<SessionEvidence | Refused> {
    const key = `${operatorAddress} ${header.sessionId}`;
    const known = this.#beginning.get(key);
    if (known !== undefined) return known;
    const beginning = this.#createSession(key, operatorAddress, header).finally(() => this.#beginning.delete(key));
    this.#beginning.set(key, beginning);
    return beginning;
  }

  async #createSession(
    key: string,
    operatorAddress: string,
    header: SessionHeader,
  ): Promise<SessionEvidence | Refused> {
    if (!this.#options.operators.includes(operatorAddress)) {
      throw new AppError("INTERNAL", { message: `${operatorAddress} is not an operator of this store.` });
    }
    const unsettled = [...this.#sessions.values()].filter(({ state }) => state.outcome === undefined).length;
    if (this.#isClosed || unsettled >= this.#options.maxSessions) return refuse("full");
    const terms = await this.#modules.termsOf(header);
    if (!terms.ok) return refuse("unavailable", terms.text);
    const head = { operatorAddress, header, terms: terms.value };
    const folder = join(this.#options.folder, operatorAddress, sessionFolderName(head));
    let isNew = false;
    try {
      await mkdir(folder, { mode: 0o700 });
      isNew = true;
      const session = await SessionEvidence.create(folder, head, this.#sessionModules());
      this.#sessions.set(key, session);
      await this.#faults.reach("supplier.session.created");
      return session;
    } catch (cause) {
      this.#log.error({ cause, folder }, "a session cannot be written down: its relays are refused");
      // An old folder holds evidence that could not be read.
      if (isNew) await rm(folder, { recursive: true, force: true }).catch(() => {});
      return refuse("full");
    }
  }

  async #openOperator(operatorAddress: string): Promise<void> {
    const folder = join(this.#options.folder, operatorAddress);
    let names: readonly string[];
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      names = await readdir(folder);
    } catch (cause) {
      const message = `${folder} cannot be used for evidence: ${cause instanceof Error ? cause.message : ""}.`;
      throw new AppError("EVIDENCE_FOLDER", { message, cause });
    }
    const { folder: stateFolder, isMachineWideLock: isMachineWide } = this.#options;
    const lock = { operatorAddress, folder: stateFolder, lockFile: join(folder, LOCK_FILE), isMachineWide };
    this.#locks.use(await lockOperator(lock, { clock: this.#modules.clock }));
    const past = await readPastSums(join(folder, PAST_FILE));
    this.#past.set(operatorAddress, past);
    for (const name of names) {
      if (!/^\d+-/.test(name)) continue;
      if (past.added.includes(name)) {
        await rm(join(folder, name), { recursive: true, force: true });
        continue;
      }
      await this.#openSession(join(folder, name));
    }
  }

  /** One session that cannot be read does not keep the others from being claimed. */
  async #openSession(folder: string): Promise<void> {
    try {
      const session = await SessionEvidence.open(folder, this.#sessionModules());
      // Logged when it was opened. It may be all that is left of a settled session.
      if (session === "damaged") return;
      if (session === "absent") {
        await this.#removeBeginning(folder);
        return;
      }
      const { operatorAddress, header } = session.head;
      this.#sessions.set(`${operatorAddress} ${header.sessionId}`, session);
      if (session.state.phase !== "open") return;
      // Other sessions are served meanwhile: a log of a hundred thousand relays is read in a second or two.
      const loading = session
        .load()
        .then(() => {})
        .catch(async (cause: unknown) => {
          this.#log.error({ cause, folder }, UNREADABLE);
          // Anything else may pass: too many open files, a disk that hangs.
          if (isAppError(cause, "EVIDENCE_DAMAGED")) await this.#giveUp(session);
        })
        .finally(() => this.#loading.delete(loading));
      this.#loading.add(loading);
    } catch (cause) {
      this.#log.error({ cause, folder }, UNREADABLE);
    }
  }

  /** Ends a session whose relays cannot be read. Its log stays, for people to look at. */
  async #giveUp(session: SessionEvidence): Promise<void> {
    const text = "The relay log cannot be read.";
    const outcome = { kind: "lost", heightBlocks: 0n, why: "evidence-damaged", text, penaltyUpokt: 0n } as const;
    try {
      await session.update({ phase: "lost", outcome, finishedAtMs: this.#modules.clock.nowMs() });
    } catch (cause) {
      this.#log.error({ cause, session: session.name }, "the state of a session cannot be written down");
    }
  }

  /** Removes what a crash left of a session that had not begun. What may hold relays stays, for people to look at. */
  async #removeBeginning(folder: string): Promise<void> {
    const size = await stat(join(folder, LOG_FILE)).then(
      (found) => found.size,
      (cause: unknown) => {
        if (isAbsent(cause)) return 0;
        throw cause;
      },
    );
    if (size <= MOST_HEAD_BYTES) await rm(folder, { recursive: true, force: true });
    else this.#log.error({ folder, size }, "a relay log does not say which session it is of: it cannot be claimed");
  }

  #sessionModules(): SessionEvidenceModules {
    const { writeAll } = this.#modules;
    return {
      log: this.#log,
      randomSalt: () => randomBytes(SALT_BYTES).readUInt32LE(),
      acquireRoom: (applicationAddress, bytes) => this.#room.acquire(applicationAddress, bytes),
      ...(writeAll === undefined ? {} : { writeAll }),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#syncTimer);
    await Promise.all([...this.#beginning.values(), ...this.#loading]);
    for (const session of this.#sessions.values()) await session.unload();
    await this.#locks.disposeAsync();
  }
}
