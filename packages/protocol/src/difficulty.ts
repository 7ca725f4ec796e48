import { AppError, bytesToHex } from "@turnpike/base";
import { least, type Rational } from "./rational.ts";

/** The easiest target: every relay counts. 32 bytes. */
export const BASE_TARGET: Uint8Array = new Uint8Array(32).fill(0xff);

const BASE = (1n << 256n) - 1n;

// The smoothing factor is the float64 next to 0.1, a whole multiple of 2^-56, and so is one less it.
const ALPHA_SHIFT = 56n;
const ALPHA = 7_205_759_403_792_794n;
const ONE_LESS_ALPHA = (1n << ALPHA_SHIFT) - ALPHA;
const MAX_U64 = (1n << 64n) - 1n;

/** How hard relays of a service are to mine, from a height on. */
export interface RelayDifficulty {
  readonly serviceId: string;
  /** The height from which it holds; see {@link difficultyOfUnusedService} for the two exceptions. */
  readonly blockHeight: bigint;
  /** Smoothed number of mined relays a session, unsigned 64-bit. */
  readonly numRelaysEma: bigint;
  /** A relay counts when its hash is below this. 32 bytes. */
  readonly targetHash: Uint8Array;
}

/** One entry of a service's history of difficulties. */
export interface DifficultyUpdate {
  readonly effectiveHeight: bigint;
  readonly difficulty: RelayDifficulty;
}

/** What a settlement makes of one service's difficulty. */
export interface DifficultyChange {
  /** The new present one, which queries show at once although it holds only from `blockHeight` on. */
  readonly current: RelayDifficulty;
  /** What goes into the history: two entries at the first settlement of a service, else one. */
  readonly history: readonly DifficultyUpdate[];
  /** The event, one for each service, whether anything changed or not. */
  readonly event: {
    readonly type: "pocket.service.EventRelayMiningDifficultyUpdated";
    readonly value: {
      readonly serviceId: string;
      readonly prevTargetHashHexEncoded: string;
      readonly newTargetHashHexEncoded: string;
      readonly prevNumRelaysEma: bigint;
      readonly newNumRelaysEma: bigint;
    };
  };
}

/** The number that bytes stand for, big end first. */
function toInteger(bytes: Uint8Array): bigint {
  return BigInt(`0x0${bytesToHex(bytes)}`);
}

/** Rounds to 64 significant bits, ties to even, as a Go `big.Float` of that precision does after each operation. */
function round64(value: bigint): bigint {
  const extra = BigInt(value.toString(2).length) - 64n;
  if (extra <= 0n) return value;
  const kept = value >> extra;
  const rest = value - (kept << extra);
  const half = 1n << (extra - 1n);
  const up = rest > half || (rest === half && (kept & 1n) === 1n);
  return (up ? kept + 1n : kept) << extra;
}

/**
 * The smoothed number of relays after a session with `current` relays: `0.1 × current + 0.9 × previous`, truncated.
 * The chain computes it in binary floating point of 64 bits, and so it is here: bit for bit, in integers.
 */
export function nextRelaysEma(previous: bigint, current: bigint): bigint {
  const sum = round64(round64(ALPHA * current) + round64(ONE_LESS_ALPHA * previous));
  return least(sum >> ALPHA_SHIFT, MAX_U64);
}

/**
 * The target at which about `targetNumRelays` of `ema` relays are mined: `⌊base × targetNumRelays / ema⌋`, at most the
 * base. An `ema` of zero, at which the chain would stop, gives the base.
 */
export function targetForEma(targetNumRelays: bigint, ema: bigint): Uint8Array {
  // The chain casts both to signed numbers. No network reaches that; it costs nothing to agree.
  const wanted = BigInt.asIntN(64, targetNumRelays);
  const seen = BigInt.asIntN(64, ema);
  if (wanted === seen || seen === 0n) return BASE_TARGET;
  const product = BASE * wanted * (seen < 0n ? -1n : 1n);
  const divisor = seen < 0n ? -seen : seen;
  const floored = product / divisor - (product < 0n && product % divisor !== 0n ? 1n : 0n);
  const target = floored < 0n ? -floored : floored;
  if (target > BASE) return BASE_TARGET;
  return Uint8Array.from(Buffer.from(target.toString(16).padStart(64, "0"), "hex"));
}

/**
 * How many relays each mined one stands for: base over target, not in lowest terms, as reducing numbers of 256 bits is
 * most of the work of pricing a claim. Throws INTERNAL for a target of zero.
 */
export function difficultyMultiplier(targetHash: Uint8Array): Rational {
  const den = toInteger(targetHash);
  if (den === 0n) throw new AppError("INTERNAL", { message: "a difficulty target is zero" });
  return { num: BASE, den };
}

/** True when a relay counts: its hash is below the target, compared byte by byte. */
export function isRelayApplicable(relayHash: Uint8Array, targetHash: Uint8Array): boolean {
  return Buffer.compare(relayHash, targetHash) < 0;
}

/**
 * The difficulty of a service that never settled: the base. The query for the present one answers `currentHeight`, the
 * one for a past height 0; mining and settlement use the latter.
 */
export function difficultyOfUnusedService(
  serviceId: string,
  targetNumRelays: bigint,
  blockHeight: bigint,
): RelayDifficulty {
  return { serviceId, blockHeight, numRelaysEma: targetNumRelays, targetHash: BASE_TARGET };
}

/** The difficulty that holds at `height`: the last of the history that is not later, else the unused service's. */
export function difficultyAt(
  serviceId: string,
  history: readonly DifficultyUpdate[],
  targetNumRelays: bigint,
  height: bigint,
): RelayDifficulty {
  const update = history.findLast(({ effectiveHeight }) => effectiveHeight <= height);
  return update?.difficulty ?? difficultyOfUnusedService(serviceId, targetNumRelays, 0n);
}

/** What {@link updateDifficulty} needs to know. */
export interface DifficultyInput {
  readonly serviceId: string;
  /** Relays of all claims settled in this block, expired ones left out. */
  readonly numRelays: bigint;
  /** The service's present difficulty; undefined when it never settled. */
  readonly previous: RelayDifficulty | undefined;
  /** True when the service has any history. A chain can start with a difficulty and none. */
  readonly hasHistory: boolean;
  readonly targetNumRelays: bigint;
  readonly currentHeight: bigint;
  readonly nextSessionStartHeight: bigint;
}

/** The difficulty after a settlement. The first settlement of a service takes its relays as the average. */
export function updateDifficulty(input: DifficultyInput): DifficultyChange {
  const { serviceId, numRelays, targetNumRelays, currentHeight, nextSessionStartHeight } = input;
  const previous = input.previous ?? {
    serviceId,
    blockHeight: currentHeight,
    numRelaysEma: numRelays,
    targetHash: targetForEma(targetNumRelays, numRelays),
  };
  const numRelaysEma = nextRelaysEma(previous.numRelaysEma, numRelays);
  const current = {
    serviceId,
    blockHeight: nextSessionStartHeight,
    numRelaysEma,
    targetHash: targetForEma(targetNumRelays, numRelaysEma),
  };
  const first = input.hasHistory ? [] : [{ effectiveHeight: currentHeight, difficulty: previous }];
  return {
    current,
    history: [...first, { effectiveHeight: nextSessionStartHeight, difficulty: current }],
    event: {
      type: "pocket.service.EventRelayMiningDifficultyUpdated",
      value: {
        serviceId,
        prevTargetHashHexEncoded: bytesToHex(previous.targetHash),
        newTargetHashHexEncoded: bytesToHex(current.targetHash),
        prevNumRelaysEma: previous.numRelaysEma,
        newNumRelaysEma: numRelaysEma,
      },
    },
  };
}
