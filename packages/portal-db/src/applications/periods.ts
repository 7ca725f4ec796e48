/** What a quota counts over, in UTC. */
export type Interval = "day" | "month" | "year";

/** One day, month or year. */
export interface Period {
  readonly startMs: number;
  /** The first millisecond after it. */
  readonly endMs: number;
}

/** The period that a time, in milliseconds since the Unix epoch, is in. */
export function periodOf(interval: Interval, nowMs: number): Period {
  const now = new Date(nowMs);
  const year = now.getUTCFullYear();
  if (interval === "year") return { startMs: Date.UTC(year, 0), endMs: Date.UTC(year + 1, 0) };
  const month = now.getUTCMonth();
  if (interval === "month") return { startMs: Date.UTC(year, month), endMs: Date.UTC(year, month + 1) };
  const day = now.getUTCDate();
  return { startMs: Date.UTC(year, month, day), endMs: Date.UTC(year, month, day + 1) };
}

/** `2026-11-21` */
export function dayOf(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 10);
}
