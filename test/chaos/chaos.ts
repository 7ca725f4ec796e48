/** How a part of a chaos run goes about its work. */
export interface ChaosOptions {
  /** `short`: what `npm run test:all` runs, under a minute or two a part; `full`: what `npm run chaos` runs. */
  readonly size: "short" | "full";
  /** How long, for a part that goes on for a time; by its size when undefined. */
  readonly seconds?: number;
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

/** What a part found out. What does not hold is thrown, or a fault beside the figures that show it. */
export interface ChaosReport {
  readonly figures: readonly ChaosFigure[];
  /** What was left out here, and why: a part that needs root says so. */
  readonly skipped?: readonly string[];
  /** What must hold and did not. */
  readonly faults?: readonly string[];
}

/** One part of a chaos run. @throws AssertionError where something that must hold does not */
export type ChaosPart = (options: ChaosOptions) => Promise<ChaosReport>;

/** A figure as people read it: at most three digits behind the point. */
export function figureText({ what, value, unit }: ChaosFigure): string {
  return `${what}: ${numberText(value)}${unit === "" ? "" : ` ${unit}`}`;
}

/** Figures as a table, a line each. */
export function figureTable(figures: readonly ChaosFigure[]): string[] {
  const widest = (texts: readonly string[]): number => Math.max(0, ...texts.map(({ length }) => length));
  const width = widest(figures.map(({ what }) => what));
  const numbers = widest(figures.map(({ value }) => numberText(value)));
  return figures.map(({ what, value, unit }) =>
    `${what.padEnd(width)}  ${numberText(value).padStart(numbers)} ${unit}`.trimEnd(),
  );
}

function numberText(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: Math.abs(value) < 10 ? 3 : 1 });
}
