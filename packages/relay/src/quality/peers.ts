import { isRecord } from "@turnpike/base";
import type { BreakerState } from "../types.ts";
import { Decaying, type Evidence, type ScoreEvidence, type ScoreOptions } from "./score.ts";

/** What one gateway has seen of a supplier itself, for the others. Holds no times of its clock. */
export interface QualitySnapshot {
  readonly fast: Evidence;
  readonly chronic: Evidence;
  readonly breaker: BreakerState;
  /** 0: not known. */
  readonly latencyMs: number;
}

/** Weights that are taken from one gateway at most. */
const MAX_FAST = 50;
const MAX_CHRONIC = 900;
const MAX_LATENCY_MS = 600_000;
const MAX_PEERS = 16;
/** A gateway that sends nothing for so long is removed. */
const EXPIRY_MS = 1_800_000;
/** Least time between two hints of a gateway that a supplier is bad. */
const HINT_EVERY_MS = 60_000;

const isWeight = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value) && value >= 0;

function readEvidence(value: unknown): Evidence | undefined {
  if (!isRecord(value)) return undefined;
  const { bad, all } = value;
  return isWeight(bad) && isWeight(all) && bad <= all * 1.000_001 ? { bad: Math.min(bad, all), all } : undefined;
}

/** Reads a snapshot that came from outside; undefined when it is none. */
export function readQualitySnapshot(value: unknown): QualitySnapshot | undefined {
  if (!isRecord(value)) return undefined;
  const { breaker, latencyMs } = value;
  const fast = readEvidence(value.fast);
  const chronic = readEvidence(value.chronic);
  if (fast === undefined || chronic === undefined || !isWeight(latencyMs)) return undefined;
  if (breaker !== "closed" && breaker !== "open" && breaker !== "probation") return undefined;
  return { fast, chronic, breaker, latencyMs: Math.min(latencyMs, MAX_LATENCY_MS) };
}

function bounded({ bad, all }: Evidence, max: number): Evidence {
  const factor = all > max ? max / all : 1;
  return { bad: bad * factor, all: all * factor };
}

interface Peer {
  readonly fast: Decaying;
  readonly chronic: Decaying;
  readonly latencyMs: number;
  readonly heardMs: number;
  readonly hintedMs: number;
}

/** What other gateways report of a supplier: the last snapshot of each, which decays. */
export class Peers {
  readonly #options: ScoreOptions;
  readonly #peers = new Map<string, Peer>();

  constructor(options: ScoreOptions) {
    this.#options = options;
  }

  /** Replaces a gateway's last snapshot. True: its breaker is open, which it did not report a short time ago. */
  update(snapshot: QualitySnapshot, fromId: string, nowMs: number): boolean {
    const last = this.#peers.get(fromId);
    const isHint = snapshot.breaker === "open" && nowMs - (last?.hintedMs ?? Number.NEGATIVE_INFINITY) >= HINT_EVERY_MS;
    const fast = new Decaying(this.#options.fastHalfLifeMs);
    const chronic = new Decaying(this.#options.chronicHalfLifeMs);
    const fastSeen = bounded(snapshot.fast, MAX_FAST);
    const chronicSeen = bounded(snapshot.chronic, MAX_CHRONIC);
    fast.add(nowMs, fastSeen.bad, fastSeen.all);
    chronic.add(nowMs, chronicSeen.bad, chronicSeen.all);
    const hintedMs = isHint ? nowMs : (last?.hintedMs ?? Number.NEGATIVE_INFINITY);
    this.#peers.delete(fromId);
    this.#peers.set(fromId, { fast, chronic, latencyMs: snapshot.latencyMs, heardMs: nowMs, hintedMs });
    for (const [id, peer] of this.#peers) {
      if (this.#peers.size <= MAX_PEERS && nowMs - peer.heardMs < EXPIRY_MS) break;
      this.#peers.delete(id);
    }
    return isHint;
  }

  /** The sum of all; undefined when there are none. */
  evidence(nowMs: number): ScoreEvidence | undefined {
    if (this.#peers.size === 0) return undefined;
    const fast = { bad: 0, all: 0 };
    const chronic = { bad: 0, all: 0 };
    for (const peer of this.#peers.values()) {
      const quick = peer.fast.at(nowMs);
      const slow = peer.chronic.at(nowMs);
      fast.bad += quick.bad;
      fast.all += quick.all;
      chronic.bad += slow.bad;
      chronic.all += slow.all;
    }
    return { fast, chronic };
  }

  /** Middle of the latencies that they see; 0 when none does. */
  get latencyMs(): number {
    const known = [...this.#peers.values()].map((peer) => peer.latencyMs).filter((latencyMs) => latencyMs > 0);
    return known.sort((a, b) => a - b)[Math.floor(known.length / 2)] ?? 0;
  }

  clear(): void {
    this.#peers.clear();
  }
}
