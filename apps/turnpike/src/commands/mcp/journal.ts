import { createHash } from "node:crypto";
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AppError, isRecord } from "@turnpike/base";
import type { SpendJournal } from "@turnpike/client";
import type { Environment } from "@turnpike/config";
import { buyerStateFolder } from "../../cli/state-folder.ts";

/** Processes that may serve one buyer at once, each with a journal of its own. */
const MAX_JOURNALS = 8;
/** A session that was cut off goes on within this time of its last purchase. */
const CUT_OFF_MS = 24 * 3_600_000;
/** One that ended goes on within this time: an agent can end its process, and gets no fresh budget by that. */
const ENDED_MS = 3_600_000;

/** A journal that is open, and its file. */
export interface OpenJournal {
  readonly file: string;
  readonly journal: SpendJournal;
}

/** Folder of a buyer's journals: with the state of `turnpike up` for its gateway, else with the user's state. */
function filesOf(
  buyer: { readonly gateway: string; readonly address: string; readonly local: boolean },
  env: Environment,
): string[] {
  const name = createHash("sha256")
    .update(`${buyer.gateway} ${buyer.address.toLowerCase()}`)
    .digest("hex")
    .slice(0, 16);
  const folder = buyerStateFolder("mcp", buyer, env);
  return Array.from({ length: MAX_JOURNALS }, (_, at) => join(folder, `${name}-${at + 1}.jsonl`));
}

const recordOf = (file: string): string => `${file}.session`;

/** A session that ends with its process: its record outlives that, so that the budget does too. */
export interface ProcessSession extends Disposable {
  /** Sum that the session had used before its process ended; 0 for a new one. */
  readonly usedMicroUsd: bigint;
  /** When it began, where it is a continued one. */
  readonly since: string | undefined;
  /** True where the process of the continued one was cut off. */
  readonly isCutOff: boolean;
  /** Writes down what it has used. @throws AppError SPEND_JOURNAL. */
  readonly record: (usedMicroUsd: bigint) => void;
}

interface SessionRecord {
  readonly startedAt: string;
  /** When it was written. */
  readonly at: string;
  /** False where the process was cut off. */
  readonly isEnded: boolean;
  readonly usedMicroUsd: bigint;
}

/** The record of a session that goes on; undefined where there is none. */
function readRecord(file: string, nowMs: number): SessionRecord | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(recordOf(file), "utf8"));
    if (!isRecord(value)) return undefined;
    const { startedAt, at, isEnded, usedMicroUsd } = value;
    if (typeof startedAt !== "string" || typeof at !== "string" || typeof usedMicroUsd !== "string") return undefined;
    const ageMs = nowMs - Date.parse(at);
    if (!(ageMs < (isEnded === true ? ENDED_MS : CUT_OFF_MS)) || !/^\d{1,30}$/.test(usedMicroUsd)) return undefined;
    return { startedAt, at, isEnded: isEnded === true, usedMicroUsd: BigInt(usedMicroUsd) };
  } catch {
    return undefined;
  }
}

function writeRecord(file: string, { usedMicroUsd, ...record }: SessionRecord): void {
  const path = recordOf(file);
  try {
    rmSync(`${path}.new`, { force: true });
    // No link that is there is followed.
    const text = `${JSON.stringify({ ...record, usedMicroUsd: usedMicroUsd.toString() })}\n`;
    writeFileSync(`${path}.new`, text, { mode: 0o600, flag: "wx", flush: true });
    renameSync(`${path}.new`, path);
  } catch (cause) {
    const message = `What this session has used cannot be written to ${path}; nothing was signed.`;
    throw new AppError("SPEND_JOURNAL", { message, cause });
  }
}

/**
 * Opens the journal that is named, else one of the buyer's that no other process has. One whose session may go on comes first, and of
 * several the one that has used most: no start of a process renews a budget. What the others hold is found, too.
 * @throws AppError SPEND_JOURNAL.
 */
export async function openJournal(
  named: string | undefined,
  buyer: { readonly gateway: string; readonly address: string; readonly local: boolean },
  env: Environment,
  nowMs: number = Date.now(),
): Promise<OpenJournal> {
  const { isJournalInUse, openSpendJournal } = await import("@turnpike/client");
  if (named !== undefined) return { file: named, journal: await openSpendJournal({ file: named }) };
  const all = filesOf(buyer, env);
  const used = new Map(all.map((file) => [file, readRecord(file, nowMs)?.usedMicroUsd ?? -1n]));
  const files = all.toSorted((a, b) => Number((used.get(b) ?? 0n) - (used.get(a) ?? 0n)));
  let last: unknown;
  for (const file of files) {
    try {
      const siblings = all.filter((other) => other !== file);
      return { file, journal: await openSpendJournal({ file, siblings }) };
    } catch (error) {
      if (!isJournalInUse(error)) throw error;
      last = error;
    }
  }
  throw last;
}

/** Begins the session of a process, or goes on with one that was cut off, or ended a short time ago. */
export function beginSession({ file }: OpenJournal, nowMs: number = Date.now()): ProcessSession {
  const earlier = readRecord(file, nowMs);
  const startedAt = earlier?.startedAt ?? new Date(nowMs).toISOString();
  const beganMs = performance.now();
  let usedMicroUsd = earlier?.usedMicroUsd ?? 0n;
  const write = (isEnded: boolean): void => {
    const at = new Date(nowMs + performance.now() - beganMs).toISOString();
    writeRecord(file, { startedAt, at, isEnded, usedMicroUsd });
  };
  write(false);
  return {
    usedMicroUsd,
    since: earlier?.startedAt,
    isCutOff: earlier?.isEnded === false,
    record: (used) => {
      usedMicroUsd = used;
      write(false);
    },
    [Symbol.dispose]: () => {
      try {
        write(true);
      } catch {
        // It counts as one that was cut off.
      }
    },
  };
}
