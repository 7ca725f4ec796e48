import { createHash } from "node:crypto";
import { AppError, bytesEqual, bytesToHex } from "@turnpike/base";
import { cosmosPublicKey, privateKeyFromSecret, Rings, SumTrie } from "@turnpike/crypto";
import { buildGo, withoutGo } from "../../test/interop/go-programs.ts";
import type { BenchOptions } from "../lib/benchmark.ts";
import type { Report, Row, Table } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import { NobleTrie } from "./noble-trie.ts";

const RING_SIZES = [2, 8] as const;
const VALUE_BYTES = 1_024;

const digestOf = (i: number): Buffer => createHash("sha256").update(`bench ${i}`).digest();
const secrets = Array.from({ length: 8 }, (_, i) => privateKeyFromSecret(Buffer.from(`bench ${i}`)));
const keys = secrets.map(cosmosPublicKey);
const secret = secrets[0] ?? new Uint8Array(32);

/** CPU of this process that `work` takes for one of `count`, in microseconds. */
function microsOf(count: number, work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count;
}

/** The middle of both sides' rounds, taken in turns. */
function compare(rounds: number, ours: () => number, reference: () => number): readonly [number, number] {
  const figures: [number[], number[]] = [[], []];
  for (let i = 0; i < rounds; i++) {
    figures[0].push(ours());
    figures[1].push(reference());
  }
  return [median(figures[0]), median(figures[1])];
}

function row(name: string, title: string, [ours, reference]: readonly [number, number], unit = "µs"): Row {
  return {
    name: `chain.${name}`,
    title,
    ours: { value: ours, unit },
    reference: { value: reference, unit },
    ratioOf: "reference / ours",
  };
}

interface GoRing {
  readonly sign: readonly string[];
  readonly verifyMicros: number;
  readonly signMicros: number;
}

async function ringReport({ quick }: BenchOptions): Promise<Report> {
  const [many, few, rounds] = quick ? [60, 6, 3] : [600, 40, 7];
  const ours = new Rings({ backend: "native" });
  const noble = new Rings({ backend: "pure" });
  const rows: Row[] = [];
  const lines: string[][] = [];
  using go = withoutGo === false ? buildGo("ring") : undefined;
  for (const size of RING_SIZES) {
    const members = keys.slice(0, size);
    const signed = Array.from({ length: many }, (_, i) => ours.sign(digestOf(i), members, secret));
    const signs = (rings: Rings, count: number) => (): number =>
      microsOf(count, () => {
        for (let i = 0; i < count; i++) rings.sign(digestOf(i), members, secret);
      });
    const verifies = (rings: Rings, count: number) => (): number =>
      microsOf(count, () => {
        for (let i = 0; i < count; i++) {
          const verdict = rings.verifyWithin(digestOf(i), signed[i] ?? digestOf(i), members);
          if (!verdict.ok) throw new AppError("INTERNAL", { message: "A signature does not hold." });
        }
      });
    signs(noble, 2)();
    const sign = compare(rounds, signs(ours, many), signs(noble, few));
    const verify = compare(rounds, verifies(ours, many), verifies(noble, few));
    rows.push(row(`ring${size}-sign`, `sign for a ring of ${size}, CPU`, sign));
    rows.push(row(`ring${size}-verify`, `verify a ring of ${size}, CPU`, verify));
    if (go === undefined) continue;
    const told = await go.ask<GoRing>({
      rounds: 3,
      verify: signed.map((bytes, i) => ({ digest: bytesToHex(digestOf(i)), signature: bytesToHex(bytes) })),
      sign: signed.map((_, i) => ({
        digest: bytesToHex(digestOf(i)),
        key: bytesToHex(secret),
        members: members.map(bytesToHex),
      })),
    });
    const [signMicros, verifyMicros] = [told.signMicros / many, told.verifyMicros / many];
    const ratio = (reference: number, figure: number): string => (reference / figure).toFixed(2);
    lines.push([`sign ${size}`, sign[0].toFixed(0), signMicros.toFixed(0), ratio(signMicros, sign[0])]);
    lines.push([`verify ${size}`, verify[0].toFixed(0), verifyMicros.toFixed(0), ratio(verifyMicros, verify[0])]);
  }
  const title = "ring-go (Go, decred's curve; its own clock, one goroutine), µs";
  const tables: Table[] = lines.length === 0 ? [] : [{ title, head: ["ring", "ours", "ring-go", "ratio"], lines }];
  const notes = [
    "The reference of the ring rows is the same code over @noble/curves.",
    "Go's figures are of its clock, ours of CPU: they compare on an idle machine only.",
  ];
  if (withoutGo !== false) notes.push(`ring-go was not measured: ${withoutGo}.`);
  return { rows, tables, notes };
}

interface GoTries {
  readonly tries: readonly { readonly root: string; readonly insertMicros: number; readonly rootMicros: number }[];
}

async function trieReport({ quick }: BenchOptions): Promise<Report> {
  const [count, rounds] = quick ? [2_000, 3] : [20_000, 5];
  const leaves = Array.from({ length: count }, (_, i) => {
    const value = Buffer.alloc(VALUE_BYTES, `relay ${i} `);
    return { key: createHash("sha256").update(value).digest(), value };
  });
  const roots: Uint8Array[] = [];
  const fill = (make: () => SumTrie | NobleTrie, figures: { insert: number[]; root: number[] }): void => {
    const trie = make();
    const insert = microsOf(count, () => {
      for (const { key, value } of leaves) trie.insert(key, value, 100n);
    });
    const root = microsOf(1_000, () => {
      roots.push(trie.root());
    });
    figures.insert.push(insert);
    figures.root.push(root);
  };
  const ours = { insert: [] as number[], root: [] as number[] };
  const noble = { insert: [] as number[], root: [] as number[] };
  for (let i = 0; i < rounds; i++) {
    fill(() => new SumTrie(), ours);
    fill(() => new NobleTrie(), noble);
  }
  const [first] = roots;
  if (first === undefined || !roots.every((root) => bytesEqual(root, first))) {
    throw new AppError("INTERNAL", { message: "The tries have different roots." });
  }
  // A trie that is full, and after every further insert its root.
  const full = new SumTrie();
  for (const { key, value } of leaves) full.insert(key, value, 100n);
  full.root();
  const update = microsOf(1_000, () => {
    for (let i = 0; i < 1_000; i++) {
      full.insert(digestOf(i), leaves[i]?.value ?? digestOf(i), 100n);
      full.root();
    }
  });
  const lines: string[][] = [];
  if (withoutGo === false) {
    using go = buildGo("trie");
    const { tries } = await go.ask<GoTries>({
      tries: [
        {
          leaves: leaves.map(({ key, value }) => ({ key: bytesToHex(key), value: bytesToHex(value), weight: "100" })),
          paths: [],
        },
      ],
    });
    const [told] = tries;
    if (told === undefined || told.root !== bytesToHex(first))
      throw new AppError("INTERNAL", { message: "Go's root is another." });
    const [insert, root] = [told.insertMicros / count, told.rootMicros / 1_000];
    lines.push([
      "insert, µs",
      median(ours.insert).toFixed(2),
      insert.toFixed(2),
      (insert / median(ours.insert)).toFixed(2),
    ]);
    lines.push(["root, ms", median(ours.root).toFixed(0), root.toFixed(0), (root / median(ours.root)).toFixed(2)]);
    const [both, theirs] = [
      (median(ours.insert) * count) / 1_000 + median(ours.root),
      (told.insertMicros + told.rootMicros) / 1_000,
    ];
    lines.push(["both, ms", both.toFixed(0), theirs.toFixed(0), (theirs / both).toFixed(2)]);
  }
  return {
    rows: [
      row("trie-insert", "insert of a relay of 1 KiB, CPU", [median(ours.insert), median(noble.insert)]),
      row(
        "trie-root",
        `root of ${count.toLocaleString("en-US")} relays, CPU`,
        [median(ours.root), median(noble.root)],
        "ms",
      ),
    ],
    tables:
      lines.length === 0
        ? []
        : [
            {
              title: "smt (Go; its own clock, one goroutine; it hashes leaves with the root)",
              head: ["trie", "ours", "smt", "ratio"],
              lines,
            },
          ],
    notes: [
      "The reference of the trie rows is a plain binary trie of objects over @noble/hashes.",
      `One more relay in the full trie and its root: ${update.toFixed(0)} µs.`,
      ...(withoutGo === false ? [] : [`smt was not measured: ${withoutGo}.`]),
    ],
  };
}

/** Parts of {@link cryptoReport}. */
export const CRYPTO_PARTS = ["trie", "ring"] as const;

/** Trie inserts and roots, ring signatures: ours over noble's in the same run, and over Go's where `go` is at hand. */
export async function cryptoReport(options: BenchOptions): Promise<Report> {
  const wanted = (part: string): boolean => options.only.length === 0 || options.only.includes(part);
  const reports: Report[] = [];
  for (const [part, report] of [
    ["trie", trieReport],
    ["ring", ringReport],
  ] as const) {
    if (!wanted(part)) continue;
    options.progress(part);
    reports.push(await report(options));
  }
  return {
    rows: reports.flatMap(({ rows }) => rows),
    tables: reports.flatMap(({ tables }) => tables ?? []),
    notes: reports.flatMap(({ notes }) => notes),
  };
}
