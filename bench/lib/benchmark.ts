import type { Report } from "./report.ts";

/** What every benchmark is run with. */
export interface BenchOptions {
  /** Fewer rounds: shows that it runs, not how fast it is. */
  readonly quick: boolean;
  /** Parts to run; all when empty. */
  readonly only: readonly string[];
  /** Reports what is being measured, a line on the standard error. */
  readonly progress: (text: string) => void;
  /** Seconds of one measurement; the benchmark's own choice when undefined. */
  readonly seconds?: number | undefined;
  /** Programs to measure beside ours: paths by name. */
  readonly peers?: Readonly<Record<string, string>>;
}

/** One benchmark. */
export interface Benchmark {
  readonly what: string;
  /** Parts that can be run alone. */
  readonly parts: readonly string[];
  /** Packages whose versions belong to the result. */
  readonly packages: readonly string[];
  /** True when anvil takes part. */
  readonly usesAnvil?: boolean;
  readonly run: (options: BenchOptions) => Promise<Report>;
}
