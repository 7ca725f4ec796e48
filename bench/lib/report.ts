import type { Machine } from "./machine.ts";

/** What one side of a comparison measured. */
export interface Figure {
  readonly value: number;
  readonly unit: string;
}

/** One line of the table. */
export interface Row {
  /** Stable; what a script looks for. */
  readonly name: string;
  readonly title: string;
  readonly ours: Figure;
  readonly reference: Figure;
  /** How the ratio is meant, for a reader. */
  readonly ratioOf: "ours / reference" | "reference / ours";
  readonly aim?: { readonly op: ">=" | "<="; readonly value: number };
  /** The middle of the rounds' own ratios, where it was taken; otherwise the ratio is that of the two figures. */
  readonly ratio?: number;
}

/** A table of more than two sides. */
export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly lines: readonly (readonly string[])[];
}

/** What a benchmark found. */
export interface Report {
  readonly rows: readonly Row[];
  /** Further tables, after the rows. */
  readonly tables?: readonly Table[];
  /** Facts beside the table, one line each. */
  readonly notes: readonly string[];
}

/** The ratio of a row. */
export function ratioOf(row: Row): number {
  if (row.ratio !== undefined) return row.ratio;
  return row.ratioOf === "ours / reference"
    ? row.ours.value / row.reference.value
    : row.reference.value / row.ours.value;
}

function amount({ value, unit }: Figure): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  const text = value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return unit.startsWith("/") ? `${text}${unit}` : `${text} ${unit}`;
}

function ratioText(row: Row): string {
  const ratio = ratioOf(row);
  return ratio.toFixed(ratio >= 10 ? 1 : 2);
}

function aimText({ aim }: Row): string {
  return aim === undefined ? "" : `aim ${aim.op} ${aim.value}`;
}

/** The stable line of a row: `payment.verify ratio 12.3 (aim >= 10)`. */
export function ratioLine(row: Row): string {
  const aim = aimText(row);
  return `${row.name} ratio ${ratioText(row)}${aim === "" ? "" : ` (${aim})`}`;
}

function table(rows: readonly Row[]): string {
  const lines = [["what", "ours", "reference", "ratio", "of", ""]];
  for (const row of rows) {
    lines.push([row.title, amount(row.ours), amount(row.reference), ratioText(row), row.ratioOf, aimText(row)]);
  }
  return aligned(lines, (column) => column >= 1 && column <= 3);
}

function aligned(lines: readonly (readonly string[])[], isNumber: (column: number) => boolean): string {
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => {
          const width = widths[column] ?? 0;
          return isNumber(column) ? cell.padStart(width) : cell.padEnd(width);
        })
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** The report for people, with the stable lines at its end. */
export function reportText(machine: Machine, report: Report): string {
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`);
  return [
    `machine   ${machine.cores} cores (${machine.cpu}), ${machine.memoryGiB} GiB, ${machine.platform}, node ${machine.node}`,
    `versions  ${versions.join(", ")}`,
    `date      ${machine.date}`,
    "",
    table(report.rows),
    "",
    ...(report.tables ?? []).flatMap(({ title, head, lines }) => [
      title,
      aligned([head, ...lines], (column) => column > 0),
      "",
    ]),
    ...report.notes.map((note) => `note  ${note}`),
    "",
    ...report.rows.map(ratioLine),
    "",
  ].join("\n");
}
