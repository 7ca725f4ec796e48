import { isRecord } from "@turnpike/base";
import type { StoreLimit, StoreVerdict } from "./types.ts";

/** One request as it goes from a worker to the primary: its items, then key, requests and window of each limit. */
export type RequestWire = readonly (string | number)[];

/** The verdict on it: place of the limit that refuses or -1, the wait, then used and oldest of each limit. */
export type VerdictWire = readonly number[];

/** Requests of one turn of a worker's event loop, to be counted. `notes` were decided elsewhere, and are only added. */
export interface ConsumeMessage {
  readonly to: "limits";
  readonly id: number;
  readonly requests: readonly RequestWire[];
  readonly notes: readonly RequestWire[];
}

/** The answers to them, in their order. */
export interface VerdictsMessage {
  readonly to: "limits";
  readonly id: number;
  readonly verdicts: readonly VerdictWire[];
}

const MAX_REQUESTS = 100_000;
const MAX_LIMITS = 8;
const MAX_KEY = 512;

/** One request in its form for the wire. */
export function requestToWire(limits: readonly StoreLimit[], items: number): RequestWire {
  const wire: (string | number)[] = [items];
  for (const { key, requests, windowMs } of limits) wire.push(key, requests, windowMs);
  return wire;
}

/** Reads one request; undefined when it is none. */
export function readRequest(
  wire: unknown,
): { readonly limits: readonly StoreLimit[]; readonly items: number } | undefined {
  if (!Array.isArray(wire) || wire.length > 1 + 3 * MAX_LIMITS || wire.length % 3 !== 1) return undefined;
  const parts: readonly unknown[] = wire;
  const items = parts[0];
  if (typeof items !== "number" || !Number.isSafeInteger(items) || items < 0) return undefined;
  const limits: StoreLimit[] = [];
  for (let at = 1; at < parts.length; at += 3) {
    const [key, requests, windowMs] = parts.slice(at, at + 3);
    if (typeof key !== "string" || key.length > MAX_KEY) return undefined;
    if (typeof requests !== "number" || typeof windowMs !== "number") return undefined;
    if (!(requests > 0 && windowMs > 0)) return undefined;
    limits.push({ key, requests, windowMs });
  }
  return { limits, items };
}

const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value) && value.length <= MAX_REQUESTS;

/** Reads a worker's message; undefined when it is another one. */
export function readConsumeMessage(
  message: unknown,
): { readonly id: number; readonly requests: readonly unknown[]; readonly notes: readonly unknown[] } | undefined {
  if (!isRecord(message) || message.to !== "limits" || typeof message.id !== "number") return undefined;
  const { id, requests, notes } = message;
  return isList(requests) && isList(notes) ? { id, requests, notes } : undefined;
}

/** A verdict in its form for the wire. */
export function verdictToWire({ refusedBy, waitMs, standings }: StoreVerdict): VerdictWire {
  const wire = [refusedBy, waitMs];
  for (const { used, oldestLeavesMs } of standings) wire.push(used, oldestLeavesMs);
  return wire;
}

/** Reads one verdict over so many limits; undefined when it is none. */
export function readVerdict(wire: unknown, limits: number): StoreVerdict | undefined {
  if (!Array.isArray(wire) || wire.length !== 2 + 2 * limits || !wire.every(Number.isFinite)) return undefined;
  const [refusedBy = 0, waitMs = 0, ...rest] = wire as readonly number[];
  const standings = Array.from({ length: limits }, (_, at) => ({
    used: rest[2 * at] ?? 0,
    oldestLeavesMs: rest[2 * at + 1] ?? 0,
  }));
  return { refusedBy, waitMs, standings };
}

/** Reads the primary's message; undefined when it is another one. */
export function readVerdicts(
  message: unknown,
): { readonly id: number; readonly verdicts: readonly unknown[] } | undefined {
  if (!isRecord(message) || message.to !== "limits" || typeof message.id !== "number") return undefined;
  return isList(message.verdicts) ? { id: message.id, verdicts: message.verdicts } : undefined;
}
