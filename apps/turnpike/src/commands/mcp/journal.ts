import { createHash } from "node:crypto";
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isRecord } from "@turnpike/base";
import type { SpendJournal } from "@turnpike/client";
import type { Environment } from "@turnpike/config";
import { buyerStateFolder } from "../../cli/state-folder.ts";

/** Processes that may serve one buyer at once, each with a journal of its own. */
const MAX_JOURNALS = 8;
/** A session that was cut off longer ago than this is not continued. */
const SESSION_AGE_MS = 24 * 3_600_000;

/** A journal that is open, and its file. */
export interface OpenJournal {
  readonly file: string;
  readonly journal: SpendJournal;
}

/** Where the journals of a buyer are: with the state of `turnpike up` for its gateway, else with the user's state. */
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

/**
 * Opens the journal that is named, else the first of the buyer's that no other process has: one whose session was cut
 * off comes first, so that what it left open is found again.
 * @throws AppError SPEND_JOURNAL.
 */
export async function openJournal(
  named: string | undefined,
  buyer: { readonly gateway: string; readonly address: string; readonly local: boolean },
  env: Environment,
): Promise<OpenJournal> {
  const { isJournalInUse, openSpendJournal } = await import("@turnpike/client");
  if (named !== undefined) return { file: named, journal: await openSpendJournal({ file: named }) };
  const all = filesOf(buyer, env);
  const files = [
    ...all.filter((file) => existsSync(recordOf(file))),
    ...all.filter((file) => !existsSync(recordOf(file))),
  ];
  let last: unknown;
  for (const file of files) {
    try {
      return { file, journal: await openSpendJournal({ file }) };
    } catch (error) {
      if (!isJournalInUse(error)) throw error;
      last = error;
    }
  }
  throw last;
}

/** A session that ends with its process: its record outlives a crash, so that the budget does too. */
export interface ProcessSession extends Disposable {
  /** What the session had used before it was cut off; 0 for a new one. */
  readonly usedMicroUsd: bigint;
  /** When it began, where it is a continued one. */
  readonly since: string | undefined;
}

interface SessionRecord {
  readonly startedAt: string;
  /** What had been charged when it began. */
  readonly chargedMicroUsd: bigint;
}

function readRecord(file: string, nowMs: number): SessionRecord | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(recordOf(file), "utf8"));
    if (!isRecord(value) || typeof value.startedAt !== "string" || typeof value.chargedMicroUsd !== "string")
      return undefined;
    const age = nowMs - Date.parse(value.startedAt);
    if (!(age < SESSION_AGE_MS) || !/^\d{1,30}$/.test(value.chargedMicroUsd)) return undefined;
    return { startedAt: value.startedAt, chargedMicroUsd: BigInt(value.chargedMicroUsd) };
  } catch {
    return undefined;
  }
}

/** Begins the session of a process, or goes on with one that was cut off. */
export function beginSession({ file, journal }: OpenJournal): ProcessSession {
  const now = Date.now();
  const cutOff = readRecord(file, now);
  const { chargedMicroUsd, openMicroUsd } = journal.sums();
  const spent = cutOff === undefined ? 0n : chargedMicroUsd + openMicroUsd - cutOff.chargedMicroUsd;
  const record = cutOff ?? { startedAt: new Date(now).toISOString(), chargedMicroUsd };
  const path = recordOf(file);
  const text = JSON.stringify({ startedAt: record.startedAt, chargedMicroUsd: record.chargedMicroUsd.toString() });
  // A folder from elsewhere may have a link here to another file of the user.
  rmSync(`${path}.new`, { force: true });
  writeFileSync(`${path}.new`, `${text}\n`, { mode: 0o600, flag: "wx" });
  renameSync(`${path}.new`, path);
  return {
    // Payments that were open before it began are counted too: rather too much than too little.
    usedMicroUsd: spent > 0n ? spent : 0n,
    since: cutOff?.startedAt,
    [Symbol.dispose]: () => rmSync(path, { force: true }),
  };
}
