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

/**
 * Room for relay logs on a supplier's disk, measured once a second. Where it is short, logs of settled sessions are removed
 * before their time, the oldest first; a relay is refused only when that is not enough. Without a bound for each, one
 * application with large answers would take the room of all others.
 */
export class LogRoom {
  readonly #options: LogRoomOptions;
  readonly #modules: LogRoomModules;
  readonly #log: Log;
  #hasRoom = true;
  #overShare: ReadonlySet<string> = new Set();
  #measuredAtMs = Number.NEGATIVE_INFINITY;

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
      await this.#measure();
    }
    if (!this.#hasRoom) return "disk";
    return this.#overShare.has(applicationAddress) ? "share" : "room";
  }

  async #measure(): Promise<void> {
    const { folder, leastFreeBytes, maxApplicationShare } = this.#options;
    const { freeBytes = freeBytesOf, sessions: all } = this.#modules;
    const free = (): Promise<number> => freeBytes(folder).catch(() => Number.POSITIVE_INFINITY);
    let roomBytes = (await free()) - leastFreeBytes;
    const sessions = [...all()].filter(({ logBytes }) => logBytes > 0);
    if (roomBytes < 0 && (await this.#removeOldest(sessions, -roomBytes)) > 0)
      roomBytes = (await free()) - leastFreeBytes;
    this.#report(roomBytes);
    const bytes = new Map<string, number>();
    let totalBytes = 0;
    for (const session of sessions) {
      const application = applicationOf(session);
      bytes.set(application, (bytes.get(application) ?? 0) + session.logBytes);
      totalBytes += session.logBytes;
    }
    const maxBytes = Math.max(0, roomBytes + totalBytes) * maxApplicationShare;
    const over = new Set<string>();
    for (const [application, logBytes] of bytes) {
      if (logBytes <= maxBytes) continue;
      const ofApplication = sessions.filter((session) => applicationOf(session) === application);
      const removedBytes = await this.#removeOldest(ofApplication, logBytes - maxBytes);
      if (logBytes - removedBytes > maxBytes) over.add(application);
    }
    this.#reportShares(over, maxBytes);
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
