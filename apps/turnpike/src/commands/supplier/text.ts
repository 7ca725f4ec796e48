import { isRecord } from "@turnpike/base";

type Json = Readonly<Record<string, unknown>>;

/** Sessions that are shown for each operator; `--json` has all of the report. */
const MOST_SESSIONS = 20;
const HEADS = ["SERVICE", "SERVED", "MINED", "CLAIMED", "PROVEN", "SETTLED", "EXPECTED", "CHARGED", "RECEIVED", "LOST"];
const SESSION_HEADS = ["SESSION", "SERVICE", "BLOCKS", "PHASE", "SERVED", "MINED", "EXPECTED"];
/** Columns of numbers are aligned to the right. */
const NUMBERS = /^[\d,]+$/;

const recordOf = (value: unknown): Json => (isRecord(value) ? value : {});
const listOf = (value: unknown): readonly Json[] => (Array.isArray(value) ? value.map(recordOf) : []);

/** A whole number of a report, whose large ones are texts; zero for anything else. */
function whole(value: unknown): bigint {
  if (typeof value === "bigint") return value;
  const digits = typeof value === "number" || typeof value === "string" ? String(value) : "";
  return /^\d+$/.test(digits) ? BigInt(digits) : 0n;
}

const shown = (value: unknown): string => whole(value).toLocaleString("en-US");
const text = (value: unknown): string => (typeof value === "string" ? value : "");

function table(rows: readonly (readonly string[])[]): string[] {
  const [heads = []] = rows;
  const widths = heads.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const isNumber = heads.map((_, at) => rows.slice(1).every((row) => NUMBERS.test(row[at] ?? "")));
  return rows.map((row) =>
    row
      .map((cell, at) => (isNumber[at] === true ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
}

/** `12 relays (proof-missing), 1 relay (claim-window-missed)`, or nothing. */
function lostText(lost: unknown): string {
  return Object.entries(recordOf(lost))
    .map(([why, sums]) => {
      const relays = whole(recordOf(sums).relays);
      return `${shown(relays)} ${relays === 1n ? "relay" : "relays"} (${why})`;
    })
    .join(", ");
}

function sumsRow(name: string, sums: Json): string[] {
  const relays = recordOf(sums.relays);
  const upokt = recordOf(sums.upokt);
  return [
    name,
    shown(relays.served),
    shown(relays.mined),
    shown(relays.claimed),
    shown(relays.proven),
    shown(relays.settled),
    shown(upokt.expected),
    shown(upokt.settled),
    shown(upokt.received),
    lostText(sums.lost) || "-",
  ];
}

function sessionRow(session: Json): string[] {
  const { sessionId, serviceId, startHeightBlocks, endHeightBlocks, phase, relays, expectedUpokt } = session;
  return [
    text(sessionId).slice(0, 12),
    text(serviceId),
    `${whole(startHeightBlocks)}-${whole(endHeightBlocks)}`,
    text(phase),
    shown(recordOf(relays).served),
    shown(recordOf(relays).mined),
    expectedUpokt === undefined ? "-" : shown(expectedUpokt),
  ];
}

function operatorLines({ operatorAddress, all, services, sessions }: Json): string[] {
  const { upokt, relays } = recordOf(all);
  const { fees, penalties } = recordOf(upokt);
  const { belowDifficulty, repeated } = recordOf(relays);
  const rows = Object.entries(recordOf(services)).map(([id, sums]) => sumsRow(id, recordOf(sums)));
  if (rows.length !== 1) rows.push(sumsRow("all", recordOf(all)));
  const costs = [
    `fees ${shown(fees)} upokt`,
    ...(whole(penalties) === 0n ? [] : [`penalties ${shown(penalties)} upokt`]),
    ...(whole(belowDifficulty) === 0n ? [] : [`${shown(belowDifficulty)} relays below the difficulty`]),
    ...(whole(repeated) === 0n ? [] : [`${shown(repeated)} relays repeated`]),
  ];
  const open = listOf(sessions).filter(({ outcome }) => outcome === undefined);
  const hidden = open.length - MOST_SESSIONS;
  return [
    text(operatorAddress),
    ...table([HEADS, ...rows]),
    costs.join(", "),
    ...(open.length === 0 ? ["no session is open"] : []),
    ...(open.length === 0 ? [] : table([SESSION_HEADS, ...open.slice(0, MOST_SESSIONS).map(sessionRow)])),
    ...(hidden > 0 ? [`and ${hidden} more sessions: see --json`] : []),
  ];
}

/** A supplier's status for people: relays and upokt of each operator, by service, and its sessions that are not settled. */
export function statusLines(report: Json): readonly string[] {
  const operators = listOf(report.operators);
  if (operators.length === 0) return ["No relay was served yet."];
  return operators.flatMap((operator, at) => [...(at === 0 ? [] : [""]), ...operatorLines(operator)]);
}
