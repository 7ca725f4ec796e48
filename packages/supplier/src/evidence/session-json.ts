import { bytesToHex, hexToBytes, isRecord } from "@turnpike/base";
import type { SessionHeader, SessionWindows } from "@turnpike/protocol";
import type {
  LossReason,
  RelayCounts,
  SessionHead,
  SessionOutcome,
  SessionPhase,
  SessionState,
  SettlementSearch,
} from "./types.ts";

const FORMAT = 1;
const PHASES: readonly SessionPhase[] = ["open", "sealed", "claimed", "proven", "settled", "lost"];

/** JSON in which whole numbers without a bound are texts. */
export const bigintJson = (value: object): string =>
  JSON.stringify(value, (_, inner: unknown) => (typeof inner === "bigint" ? `${inner}` : inner));

/** The head of a log as JSON. */
export function headText({ operatorAddress, header, terms }: SessionHead): string {
  return bigintJson({
    format: FORMAT,
    operatorAddress,
    header,
    terms: { ...terms, targetHash: bytesToHex(terms.targetHash) },
  });
}

class Malformed extends TypeError {}

function record(value: unknown): Readonly<Record<string, unknown>> {
  if (!isRecord(value)) throw new Malformed("an object is missing");
  return value;
}

function text(value: unknown): string {
  if (typeof value !== "string") throw new Malformed("a text is missing");
  return value;
}

function whole(value: unknown): bigint {
  const found = text(value);
  if (!/^\d{1,39}$/.test(found)) throw new Malformed("a whole number is missing");
  return BigInt(found);
}

function count(value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw new Malformed("a count is missing");
  return value;
}

function hex(value: unknown, length: number): Uint8Array {
  const found = hexToBytes(text(value));
  if (found?.length !== length) throw new Malformed("bytes are missing");
  return found;
}

function headerOf(value: unknown): SessionHeader {
  const from = record(value);
  return {
    applicationAddress: text(from.applicationAddress),
    serviceId: text(from.serviceId),
    sessionId: text(from.sessionId),
    sessionStartBlockHeight: whole(from.sessionStartBlockHeight),
    sessionEndBlockHeight: whole(from.sessionEndBlockHeight),
  };
}

function windowsOf(value: unknown): SessionWindows {
  const from = record(value);
  return {
    graceEndHeight: whole(from.graceEndHeight),
    claimOpenHeight: whole(from.claimOpenHeight),
    claimCloseHeight: whole(from.claimCloseHeight),
    proofOpenHeight: whole(from.proofOpenHeight),
    proofCloseHeight: whole(from.proofCloseHeight),
    settlementHeight: whole(from.settlementHeight),
  };
}

/** Undefined when a text is not what {@link headText} and {@link stateText} write. */
function parsed<T>(source: string, read: (value: Readonly<Record<string, unknown>>) => T): T | undefined {
  try {
    const value = record(JSON.parse(source));
    return value.format === FORMAT ? read(value) : undefined;
  } catch (error) {
    if (error instanceof Malformed || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Reads the head of a log; undefined when it is none. */
export function parseHead(source: string): SessionHead | undefined {
  return parsed(source, (value) => {
    const terms = record(value.terms);
    const pricing = record(terms.pricing);
    return {
      operatorAddress: text(value.operatorAddress),
      header: headerOf(value.header),
      terms: {
        computeUnitsPerRelay: whole(terms.computeUnitsPerRelay),
        targetHash: hex(terms.targetHash, 32),
        windows: windowsOf(terms.windows),
        pricing: {
          computeUnitsToTokensMultiplier: whole(pricing.computeUnitsToTokensMultiplier),
          computeUnitCostGranularity: whole(pricing.computeUnitCostGranularity),
        },
      },
    };
  });
}

/** A session's state and counts as JSON. The head stands in it too, for people and for the time after the log is gone. */
export function stateText(head: SessionHead, state: SessionState, counts: RelayCounts): string {
  const { claim } = state;
  const shown = claim === undefined ? state : { ...state, claim: { ...claim, rootHash: bytesToHex(claim.rootHash) } };
  return `${bigintJson({ format: FORMAT, head: headText(head), state: shown, counts })}\n`;
}

function outcomeOf(value: unknown): SessionOutcome {
  const from = record(value);
  const heightBlocks = whole(from.heightBlocks);
  if (from.kind === "lost") {
    const why = text(from.why) as LossReason;
    return { kind: "lost", heightBlocks, why, text: text(from.text), penaltyUpokt: whole(from.penaltyUpokt) };
  }
  if (from.kind !== "settled") throw new Malformed("an outcome is missing");
  const rewards = Object.entries(record(from.rewards)).map(([address, amount]) => [address, whole(amount)] as const);
  return {
    kind: "settled",
    heightBlocks,
    settledUpokt: whole(from.settledUpokt),
    claimedUpokt: whole(from.claimedUpokt),
    rewards: Object.fromEntries(rewards),
  };
}

function searchOf(value: unknown): SettlementSearch {
  const from = record(value);
  return {
    readToBlocks: whole(from.readToBlocks),
    ...(from.absentAtBlocks === undefined ? {} : { absentAtBlocks: whole(from.absentAtBlocks) }),
    ...(from.isIncomplete === true ? { isIncomplete: true } : {}),
  };
}

function stateOf(value: unknown): SessionState {
  const from = record(value);
  const phase = PHASES.find((known) => known === from.phase);
  if (phase === undefined) throw new Malformed("a phase is missing");
  const claim = from.claim === undefined ? undefined : record(from.claim);
  return {
    phase,
    feesUpokt: whole(from.feesUpokt),
    ...(claim === undefined
      ? {}
      : {
          claim: {
            rootHash: hex(claim.rootHash, 48),
            relays: whole(claim.relays),
            computeUnits: whole(claim.computeUnits),
            expectedUpokt: whole(claim.expectedUpokt),
          },
        }),
    ...(from.claimedHeightBlocks === undefined ? {} : { claimedHeightBlocks: whole(from.claimedHeightBlocks) }),
    ...(from.provenHeightBlocks === undefined ? {} : { provenHeightBlocks: whole(from.provenHeightBlocks) }),
    ...(from.settlementSearch === undefined ? {} : { settlementSearch: searchOf(from.settlementSearch) }),
    ...(from.isClaimSent === true ? { isClaimSent: true } : {}),
    ...(typeof from.isProofRequired === "boolean" ? { isProofRequired: from.isProofRequired } : {}),
    ...(from.finishedAtMs === undefined ? {} : { finishedAtMs: count(from.finishedAtMs) }),
    ...(from.outcome === undefined ? {} : { outcome: outcomeOf(from.outcome) }),
  };
}

/** A session as its file says it is. */
export interface StoredSession {
  readonly head: SessionHead;
  readonly state: SessionState;
  readonly counts: RelayCounts;
}

/** Reads a session's file; undefined when it is none. */
export function parseState(source: string): StoredSession | undefined {
  return parsed(source, (value) => {
    const head = parseHead(text(value.head));
    if (head === undefined) throw new Malformed("a head is missing");
    const counts = record(value.counts);
    return {
      head,
      state: stateOf(value.state),
      counts: {
        served: count(counts.served),
        mined: count(counts.mined),
        belowDifficulty: count(counts.belowDifficulty),
        repeated: count(counts.repeated),
      },
    };
  });
}
