/** How a part of a chaos run goes about its work. */
export interface ChaosOptions {
  /** `short`: what `npm run test:all` runs, under a minute or two a part; `full`: what `npm run chaos` runs. */
  readonly size: "short" | "full";
  /** Tells a person where it is. */
  readonly progress: (text: string) => void;
}

/** One number that a part found out. */
export interface ChaosFigure {
  readonly what: string;
  readonly value: number;
  /** Such as `ms`, `MB` or `blocks`; empty for a plain count. */
  readonly unit: string;
}

/** What a part found out. What does not hold is thrown, not reported. */
export interface ChaosReport {
  readonly figures: readonly ChaosFigure[];
  /** What was left out here, and why: a part that needs root says so. */
  readonly skipped?: readonly string[];
}

/** One part of a chaos run. @throws AssertionError where something that must hold does not */
export type ChaosPart = (options: ChaosOptions) => Promise<ChaosReport>;

/** A figure as people read it: at most three digits behind the point. */
export function figureText({ what, value, unit }: ChaosFigure): string {
  const number = value.toLocaleString("en-US", { maximumFractionDigits: Math.abs(value) < 10 ? 3 : 1 });
  return `${what}: ${number}${unit === "" ? "" : ` ${unit}`}`;
}
