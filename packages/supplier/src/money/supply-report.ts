import { open, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { PAST_FILE, type PastSums, readPastSums } from "../evidence/past-sums.ts";
import { RECORD, readCounts } from "../evidence/records.ts";
import type { RelayStore } from "../evidence/relay-store.ts";
import { scanLog } from "../evidence/scan-log.ts";
import { LOG_FILE, STATE_FILE } from "../evidence/session-evidence.ts";
import { parseState, type StoredSession } from "../evidence/session-json.ts";
import { addSums, NO_SUMS, type SupplySums, sumsOf } from "../evidence/sums.ts";
import type { RelayCounts, SessionOutcome, SessionPhase } from "../evidence/types.ts";

/** Settled and lost sessions of an operator in a report. */
const MOST_ENDED = 100;

/** One session in a {@link SupplyReport}. */
export interface SessionReport {
  readonly sessionId: string;
  readonly applicationAddress: string;
  readonly serviceId: string;
  readonly startHeightBlocks: bigint;
  readonly endHeightBlocks: bigint;
  readonly phase: SessionPhase;
  readonly relays: RelayCounts;
  /** By the session's parameters; undefined before it is sealed. */
  readonly expectedUpokt: bigint | undefined;
  readonly isProofRequired: boolean | undefined;
  readonly feesUpokt: bigint;
  readonly outcome: SessionOutcome | undefined;
}

/** What one operator served, and what it was paid. */
export interface OperatorReport {
  readonly operatorAddress: string;
  /** Everything, sessions that are not kept any more included. */
  readonly all: SupplySums;
  readonly services: Readonly<Record<string, SupplySums>>;
  /** Those that are not settled, and the newest of the others; the newest first. */
  readonly sessions: readonly SessionReport[];
}

/** What a supplier served, and what it was paid: every number is from its evidence and from the chain's settlements. */
export interface SupplyReport {
  readonly operators: readonly OperatorReport[];
}

function sessionReport({ head, state, counts }: StoredSession): SessionReport {
  const { header } = head;
  return {
    sessionId: header.sessionId,
    applicationAddress: header.applicationAddress,
    serviceId: header.serviceId,
    startHeightBlocks: header.sessionStartBlockHeight,
    endHeightBlocks: header.sessionEndBlockHeight,
    phase: state.phase,
    relays: counts,
    expectedUpokt: state.claim?.expectedUpokt,
    isProofRequired: state.isProofRequired,
    feesUpokt: state.feesUpokt,
    outcome: state.outcome,
  };
}

function operatorReport(operatorAddress: string, sessions: readonly StoredSession[], past: PastSums): OperatorReport {
  const services: Record<string, SupplySums> = { ...past.services };
  for (const session of sessions) {
    const { serviceId } = session.head.header;
    services[serviceId] = addSums(services[serviceId] ?? NO_SUMS, sumsOf(session));
  }
  let ended = 0;
  return {
    operatorAddress,
    all: Object.values(services).reduce(addSums, NO_SUMS),
    services,
    sessions: sessions
      .map(sessionReport)
      .sort((a, b) => Number(b.endHeightBlocks - a.endHeightBlocks) || (a.sessionId < b.sessionId ? -1 : 1))
      .filter(({ outcome }) => outcome === undefined || ++ended <= MOST_ENDED),
  };
}

/** The report of a store that is open in this process. */
export function supplyReport(store: RelayStore, operators: readonly string[]): SupplyReport {
  return {
    operators: operators.map((operator) =>
      operatorReport(operator, store.sessions(operator), store.pastSums(operator)),
    ),
  };
}

/** Counts of a log that another process may be writing. */
async function countsOf(logFile: string): Promise<RelayCounts | undefined> {
  const file = await open(logFile, "r").catch(() => undefined);
  if (file === undefined) return undefined;
  const counts = { served: 0, mined: 0, belowDifficulty: 0, repeated: 0 };
  try {
    await scanLog(file, ({ kind, payload }) => {
      if (kind === RECORD.relay) {
        counts.mined++;
        counts.served++;
      }
      const more = kind === RECORD.counts ? readCounts(payload) : undefined;
      counts.belowDifficulty += more?.belowDifficulty ?? 0;
      counts.repeated += more?.repeated ?? 0;
      counts.served += (more?.belowDifficulty ?? 0) + (more?.repeated ?? 0);
    });
  } finally {
    await file.close();
  }
  return counts;
}

async function readSession(folder: string): Promise<StoredSession | undefined> {
  const stored = parseState(await readFile(join(folder, STATE_FILE), "utf8").catch(() => ""));
  if (stored?.state.phase !== "open") return stored;
  const counts = await countsOf(join(folder, LOG_FILE));
  return counts === undefined ? stored : { ...stored, counts };
}

/** The report of a state folder, whether or not a supplier runs on it: nothing is locked and nothing changed. */
export async function readSupplyReport(folder: string): Promise<SupplyReport> {
  const operators = await readdir(folder).catch(() => []);
  const reports: OperatorReport[] = [];
  for (const operator of operators.filter((name) => /^[a-z]+1[a-z0-9]+$/.test(name)).sort()) {
    const past = await readPastSums(join(folder, operator, PAST_FILE));
    const names = (await readdir(join(folder, operator)).catch(() => [])).filter((name) => /^\d+-/.test(name));
    const sessions: StoredSession[] = [];
    for (const name of names.filter((one) => !past.added.includes(one))) {
      const found = await readSession(join(folder, operator, name));
      if (found !== undefined) sessions.push(found);
    }
    reports.push(operatorReport(operator, sessions, past));
  }
  return { operators: reports };
}
