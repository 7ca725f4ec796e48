import { statfs } from "node:fs/promises";
import { type Clock, type Log, silentLog } from "@turnpike/base";
import type { SessionEvidence } from "./session-evidence.ts";

export interface LogRoomOptions {
  readonly folder: string;
  /** With less room on the disk no relay is begun. */
  readonly leastFreeBytes: number;
  /** Maximum part of the room for logs that those of one application take, of all operators. */
  readonly maxApplicationShare: number;
}

export interface LogRoomModules {
  readonly clock: Clock;
  readonly log?: Log;
  readonly sessions: () => Iterable<SessionEvidence>;
  /** Only tests give another one. */
  readonly freeBytes?: (folder: string) => Promise<number>;
}

const LOOK_MS = 1_000;

async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

const applicationOf = ({ head }: SessionEvidence): string => head.header.applicationAddress;

/** True when nothing needs the session's log any more. A damaged one is for people to look at. */
function isOver({ state: { finishedAtMs, outcome } }: SessionEvidence): boolean {
  return finishedAtMs !== undefined && !(outcome?.kind === "lost" && outcome.why === "evidence-damaged");
}

/** Room that the last measurement left, less what was written since. */
interface Room {
  freeBytes: number;
  readonly maxApplicationBytes: number;
  /** Bytes of the logs of each application. */
  readonly applications: Map<string, number>;
}

/**
 * Room for relay logs on a supplier's disk, measured once a second; what is written meanwhile is subtracted. Where it is short,
 * logs of settled sessions are removed before their time, the oldest first; a relay is refused only when that is not enough.
 * Without a bound for each, one application with large requests would take the room of all others.
 */
export class LogRoom {
  readonly #options: LogRoomOptions;
  readonly #modules: LogRoomModules;
  readonly #log: Log;
  #hasRoom = true;
  #overShare: ReadonlySet<string> = new Set();
  #room: Room = { freeBytes: 0, maxApplicationBytes: 0, applications: new Map() };
  /** Bytes of the largest relay of each application that the disk had no room for since the last measurement. */
  #wanted = new Map<string, number>();
  /** Those that its own part had no room for. */
  #wantedOf = new Map<string, number>();
  /** Bytes of records that are being written, by application. */
  readonly #unwritten = new Map<string, number>();
  #measuredAtMs = Number.NEGATIVE_INFINITY;
  #measuring: Promise<void> | undefined;

  constructor(options: LogRoomOptions, modules: LogRoomModules) {
    this.#options = options;
    this.#modules = modules;
    this.#log = modules.log ?? silentLog;
  }

  /** Returns whether there is room for a relay of this application, or what is full. */
  async look(applicationAddress: string): Promise<"room" | "disk" | "share"> {
    const nowMs = this.#modules.clock.monotonicMs();
    if (nowMs - this.#measuredAtMs >= LOOK_MS) {
      this.#measuredAtMs = nowMs;
      this.#measuring ??= this.#measure().finally(() => {
        this.#measuring = undefined;
      });
    }
    // Else all that come meanwhile would find the room that was.
    if (this.#measuring !== undefined) await this.#measuring;
    if (!this.#hasRoom || this.#wanted.has(applicationAddress)) return "disk";
    return this.#overShare.has(applicationAddress) || this.#wantedOf.has(applicationAddress) ? "share" : "room";
  }

  /**
   * Acquires room for a record that is about to be written. Returns a function that ends the write, successful or not, or undefined
   * where there is no room: then no further relay of the application begins before the next measurement.
   */
  acquire(applicationAddress: string, bytes: number): (() => void) | undefined {
    const { freeBytes, applications, maxApplicationBytes } = this.#room;
    const applicationBytes = (applications.get(applicationAddress) ?? 0) + bytes;
    const isOverShare = applicationBytes > maxApplicationBytes;
    if (isOverShare || bytes > freeBytes) {
      const wanted = isOverShare ? this.#wantedOf : this.#wanted;
      wanted.set(applicationAddress, Math.max(wanted.get(applicationAddress) ?? 0, bytes));
      return undefined;
    }
    this.#room.freeBytes -= bytes;
    applications.set(applicationAddress, applicationBytes);
    this.#addUnwritten(applicationAddress, bytes);
    return () => this.#addUnwritten(applicationAddress, -bytes);
  }

  #addUnwritten(applicationAddress: string, bytes: number): void {
    const sum = (this.#unwritten.get(applicationAddress) ?? 0) + bytes;
    if (sum === 0) this.#unwritten.delete(applicationAddress);
    else this.#unwritten.set(applicationAddress, sum);
  }

  async #measure(): Promise<void> {
    const { folder, leastFreeBytes, maxApplicationShare } = this.#options;
    const { freeBytes = freeBytesOf, sessions: all } = this.#modules;
    const wantedBytes = Math.max(0, ...this.#wanted.values());
    const wantedOf = this.#wantedOf;
    this.#wanted = new Map();
    this.#wantedOf = new Map();
    const free = (): Promise<number> => freeBytes(folder).catch(() => Number.POSITIVE_INFINITY);
    const unwrittenBytes = (): number => [...this.#unwritten.values()].reduce((sum, bytes) => sum + bytes, 0);
    const room = async (): Promise<number> => (await free()) - leastFreeBytes - unwrittenBytes();
    let roomBytes = await room();
    const sessions = [...all()].filter(({ logBytes }) => logBytes > 0);
    if (roomBytes < wantedBytes && (await this.#removeOldest(sessions, wantedBytes - roomBytes)) > 0)
      roomBytes = await room();
    this.#report(roomBytes);
    const applications = new Map(this.#unwritten);
    for (const session of sessions) {
      const application = applicationOf(session);
      applications.set(application, (applications.get(application) ?? 0) + session.logBytes);
    }
    const totalBytes = [...applications.values()].reduce((sum, bytes) => sum + bytes, 0);
    const maxApplicationBytes = Math.max(0, roomBytes + totalBytes) * maxApplicationShare;
    const over = new Set<string>();
    this.#room = { freeBytes: roomBytes, maxApplicationBytes, applications };
    for (const [application, bytes] of applications) {
      const excessBytes = bytes + (wantedOf.get(application) ?? 0) - maxApplicationBytes;
      if (excessBytes <= 0) continue;
      const ofApplication = sessions.filter((session) => applicationOf(session) === application);
      const removedBytes = await this.#removeOldest(ofApplication, excessBytes);
      this.#room.freeBytes += removedBytes;
      applications.set(application, (applications.get(application) ?? 0) - removedBytes);
      if (bytes - removedBytes > maxApplicationBytes) over.add(application);
    }
    this.#reportShares(over, maxApplicationBytes);
  }

  /** Removes settled logs until so many bytes are free; returns how many are. */
  async #removeOldest(sessions: readonly SessionEvidence[], wantedBytes: number): Promise<number> {
    const candidates = sessions.filter(isOver);
    candidates.sort((a, b) => (a.state.finishedAtMs ?? 0) - (b.state.finishedAtMs ?? 0));
    let removedBytes = 0;
    for (const session of candidates) {
      if (removedBytes >= wantedBytes) break;
      const { logBytes } = session;
      try {
        await session.removeLog();
        removedBytes += logBytes;
      } catch (cause) {
        this.#log.warn({ cause, session: session.name }, "a settled relay log cannot be removed");
      }
    }
    if (removedBytes > 0) this.#log.info({ removedBytes }, "settled relay logs were removed early, for want of room");
    return removedBytes;
  }

  #report(roomBytes: number): void {
    const { folder, leastFreeBytes } = this.#options;
    const hasRoom = roomBytes >= 0;
    if (hasRoom !== this.#hasRoom) {
      const fields = { folder, freeBytes: roomBytes + leastFreeBytes, leastFreeBytes };
      if (hasRoom) this.#log.info(fields, "there is room for relays again");
      else this.#log.error(fields, "there is too little room to write relays down: none is served");
    }
    this.#hasRoom = hasRoom;
  }

  #reportShares(over: ReadonlySet<string>, maxBytes: number): void {
    for (const applicationAddress of over) {
      if (this.#overShare.has(applicationAddress)) continue;
      const fields = { applicationAddress, maxBytes: Math.floor(maxBytes) };
      this.#log.warn(fields, "an application's unsettled relays fill its share of the disk: its relays are refused");
    }
    this.#overShare = over;
  }
}
