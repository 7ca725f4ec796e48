import type { Labels, MetricSpec } from "@turnpike/base";

/** What one set of label values has come to. */
export interface Cell {
  readonly labels: Readonly<Record<string, string>>;
  /** Of a counter or gauge; the sum of a histogram's observations. */
  value: number;
  /** Observations of a histogram by bucket, not added up; the last is that beyond all bounds. */
  readonly buckets: Float64Array | undefined;
}

interface Branch {
  readonly next: Map<string, Branch>;
  cell: Cell | undefined;
}

const branch = (): Branch => ({ next: new Map(), cell: undefined });

/** Bounds of a histogram whose spec names none, in seconds. */
const DEFAULT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * The cells of one metric. Samples come several times a request, so a cell is found by walking from label value to
 * label value, without making a key of them.
 */
export class Cells {
  readonly spec: MetricSpec;
  readonly bounds: readonly number[];
  readonly #names: readonly string[];
  readonly #root = branch();
  readonly #all: Cell[] = [];

  constructor(spec: MetricSpec) {
    this.spec = spec;
    this.#names = spec.labels ?? [];
    this.bounds = spec.kind === "histogram" ? (spec.buckets ?? DEFAULT_BUCKETS) : [];
  }

  /** All cells, in the order in which they came. */
  all(): readonly Cell[] {
    return this.#all;
  }

  /** The cell of a sample. A label that the spec does not name is left out, and one that the sample lacks is empty. */
  at(labels: Labels | undefined): Cell {
    let place = this.#root;
    for (const name of this.#names) {
      const value = labels?.[name] ?? "";
      let next = place.next.get(value);
      if (next === undefined) {
        next = branch();
        place.next.set(value, next);
      }
      place = next;
    }
    place.cell ??= this.#make(labels);
    return place.cell;
  }

  #make(labels: Labels | undefined): Cell {
    const fit: Record<string, string> = {};
    for (const name of this.#names) fit[name] = labels?.[name] ?? "";
    const isHistogram = this.spec.kind === "histogram";
    const buckets = isHistogram ? new Float64Array(this.bounds.length + 1) : undefined;
    const cell: Cell = { labels: fit, value: 0, buckets };
    this.#all.push(cell);
    return cell;
  }

  /** Adds one observation to a histogram. */
  observe(value: number, labels: Labels | undefined): void {
    const cell = this.at(labels);
    if (cell.buckets === undefined) return;
    const { bounds } = this;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? 0)) at++;
    cell.buckets[at] = (cell.buckets[at] ?? 0) + 1;
    cell.value += value;
  }
}
