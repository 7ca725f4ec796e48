import type { Labels, MetricSpec } from "@turnpike/base";

/** The sample of one set of label values. */
export interface Cell {
  readonly labels: Readonly<Record<string, string>>;
  /** Of a counter or gauge; the sum of a histogram's observations. */
  value: number;
  /** Observations of a histogram by bucket, not added up; the last is that beyond all bounds. */
  readonly buckets: Float64Array | undefined;
}

/** The cells of one metric as a JSON value: its spec, and for each cell its label values, its value, its buckets. */
export interface CellsDump {
  readonly spec: MetricSpec;
  readonly cells: readonly (readonly [labels: readonly string[], value: number, buckets?: readonly number[]])[];
}

/** All samples of a process. */
export interface MetricsDump {
  readonly cells: readonly CellsDump[];
  /** Metrics of the process itself, in prom-client's form. */
  readonly process: readonly unknown[];
}

interface Branch {
  readonly value: string;
  readonly parent: Branch | undefined;
  readonly next: Map<string, Branch>;
  /** True for a value that counts against the {@link MAX_VALUES} of its parent. */
  readonly isBounded: boolean;
  /** How many of `next` are bounded. */
  bounded: number;
  cell: Cell | undefined;
}

const newBranch = (value: string, parent?: Branch, isBounded = false): Branch => {
  if (isBounded && parent !== undefined) parent.bounded++;
  return { value, parent, next: new Map(), isBounded, bounded: 0, cell: undefined };
};

/**
 * Most values of one label below the same values of the labels before it, besides the named ones: services and suppliers
 * come from a chain, where anyone may make more.
 */
const MAX_VALUES = 1_024;
/** Stands for all values beyond those. */
const OTHER = "other";

/** True for a label value that always has cells of its own: it comes from us or the operator, who bounds how many. */
export type IsNamed = (label: string, value: string) => boolean;

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
  readonly #isNamed: IsNamed;
  readonly #root = newBranch("");
  readonly #all: Cell[] = [];
  /** Where the samples of a gauge beyond {@link MAX_VALUES} are dropped: its cell is in no list. */
  readonly #dropped: Branch = { ...newBranch(""), cell: { labels: {}, value: 0, buckets: undefined } };

  constructor(spec: MetricSpec, isNamed: IsNamed = () => false) {
    this.spec = spec;
    this.#isNamed = isNamed;
    this.#names = spec.labels ?? [];
    this.bounds = spec.kind === "histogram" ? (spec.buckets ?? DEFAULT_BUCKETS) : [];
  }

  /** All cells, in the order in which they came. */
  all(): readonly Cell[] {
    return this.#all;
  }

  /**
   * The cell of a sample. A label that the spec does not name is left out, and one that the sample lacks is empty. Beyond
   * {@link MAX_VALUES} all further values that are not named are `other`, but for gauges: what was set last of several
   * services would be that of none, so they have no cell until another one is removed.
   */
  at(labels: Labels | undefined): Cell {
    let place = this.#root;
    for (const name of this.#names) {
      const value = labels?.[name] ?? "";
      place = place.next.get(value) ?? this.#grow(place, name, value);
    }
    place.cell ??= this.#make(place);
    return place.cell;
  }

  #grow(place: Branch, name: string, value: string): Branch {
    if (place === this.#dropped) return place;
    if (this.#isNamed(name, value)) return addBranch(place, value, false);
    if (place.bounded < MAX_VALUES) return addBranch(place, value, true);
    return this.spec.kind === "gauge" ? this.#dropped : (place.next.get(OTHER) ?? addBranch(place, OTHER, false));
  }

  /** Removes a cell, and its place with it. */
  remove(labels: Labels): void {
    let place: Branch | undefined = this.#root;
    for (const name of this.#names) place = place?.next.get(labels[name] ?? "");
    const at = place?.cell === undefined ? -1 : this.#all.indexOf(place.cell);
    if (place === undefined || at === -1) return;
    this.#all.splice(at, 1);
    place.cell = undefined;
    for (let one = place; one.next.size === 0 && one.parent !== undefined; one = one.parent) {
      one.parent.next.delete(one.value);
      if (one.isBounded) one.parent.bounded--;
    }
  }

  #make(leaf: Branch): Cell {
    const values: string[] = [];
    for (let place = leaf; place.parent !== undefined; place = place.parent) values.unshift(place.value);
    const fit = Object.fromEntries(this.#names.map((name, at) => [name, values[at] ?? ""]));
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

  /** All cells, for another process. */
  dump(): CellsDump {
    const cells = this.#all.map(({ labels, value, buckets }): CellsDump["cells"][number] => {
      const values = this.#names.map((name) => labels[name] ?? "");
      return buckets === undefined ? [values, value] : [values, value, [...buckets]];
    });
    return { spec: this.spec, cells };
  }

  /** Adds the cells of another process: sums, but gauges as their spec says. Each process once, into empty cells. */
  merge({ cells }: CellsDump): void {
    const { kind, aggregator = "sum" } = this.spec;
    for (const [values, value, buckets = []] of cells) {
      const before = this.#all.length;
      const cell = this.at(Object.fromEntries(this.#names.map((name, at) => [name, values[at] ?? ""])));
      const isFirst = this.#all.length > before;
      if (kind !== "gauge" || aggregator === "sum" || isFirst) cell.value += value;
      else cell.value = aggregator === "max" ? Math.max(cell.value, value) : Math.min(cell.value, value);
      for (const [at, observed] of buckets.entries()) {
        if (cell.buckets !== undefined && at < cell.buckets.length)
          cell.buckets[at] = (cell.buckets[at] ?? 0) + observed;
      }
    }
  }
}

function addBranch(place: Branch, value: string, isBounded: boolean): Branch {
  const added = newBranch(value, place, isBounded);
  place.next.set(value, added);
  return added;
}
