import { pocketMachine } from "@turnpike/chain";
import { Overlay } from "../../packages/chain/src/state/overlay.ts";
import type { BenchOptions } from "../lib/benchmark.ts";
import type { Report, Row } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import { GAS_CASES, PLAIN_SEND, REFUSED_TXS, sendsOf } from "./gas-cases.ts";
import { type GasState, openGasState } from "./gas-state.ts";
import { cpuOf, type GroundOptions } from "./ground.ts";

const STATE: GroundOptions = { accounts: 200, suppliers: 10_000, applications: 50_000, services: 200, gateways: 40 };
const QUICK_STATE: GroundOptions = { accounts: 60, suppliers: 60, applications: 60, services: 200, gateways: 40 };
/** Gas that a byte of a transaction takes, and so reserves in a block whatever becomes of it. */
const GAS_PER_BYTE = 10n;
/** A case above this time of one run is measured once. */
const SLOW_MS = 1_500;
/** No message takes more than this times a send's time for its gas. */
const MAX_RATIO = 3;
/** Maximum share of refused transactions, which pay nothing. */
const MAX_REFUSED_RATIO = 0.1;
const MEGABYTE = 1_000_000;
const SENT_BYTES = 60_000;

interface Run {
  readonly ms: number;
  readonly gas: bigint;
  readonly bytes: number;
  readonly codes: readonly number[];
  readonly log: string;
}

/** CPU of a block beyond an empty one. Each run has a machine of its own, which knows none of the transactions. */
async function runBlock({ reader, block }: GasState, txs: readonly Uint8Array[]): Promise<Run> {
  const { machine } = pocketMachine({ gasPrices: [] });
  const emptyMicros = await cpuOf(() => machine.runBlock(reader, block, []));
  const outcomes: ReturnType<typeof machine.runBlock>[] = [];
  const micros = await cpuOf(() => outcomes.push(machine.runBlock(reader, block, txs)));
  const results = outcomes.flatMap((outcome) => outcome.results);
  let gas = 0n;
  let bytes = 0;
  for (const [i, { gasUsed }] of results.entries()) {
    const size = txs[i]?.length ?? 0;
    const reserved = GAS_PER_BYTE * BigInt(size);
    gas += gasUsed > reserved ? gasUsed : reserved;
    bytes += size;
  }
  const codes = [...new Set(results.map(({ code }) => code))];
  const log = results.find(({ code }) => code !== 0)?.log.slice(0, 60) ?? "";
  return { ms: Math.max(0, micros - emptyMicros) / 1_000, gas, bytes, codes, log };
}

const perMillion = ({ ms, gas }: Run): number => (ms * 1e6) / Number(gas);

/** CPU of a check for the mempool, in milliseconds a megabyte. */
async function check({ reader, block }: GasState, txs: readonly Uint8Array[]): Promise<number> {
  const { machine } = pocketMachine({ gasPrices: [] });
  const state = new Overlay(reader);
  const micros = await cpuOf(() => {
    for (const tx of txs) machine.runTx(state, block, "check", tx);
  });
  const bytes = txs.reduce((sum, { length }) => sum + length, 0);
  return (micros / 1_000 / bytes) * MEGABYTE;
}

async function refusedRows(state: GasState, rounds: number): Promise<Row[]> {
  const sends = sendsOf(state, SENT_BYTES);
  await check(state, sends);
  const rows: Row[] = [];
  for (const [name, make] of Object.entries(REFUSED_TXS)) {
    const tx = make(state);
    const figures: [number, number][] = [];
    for (let round = 0; round < rounds; round++) figures.push([await check(state, [tx]), await check(state, sends)]);
    rows.push({
      name: `chain.refused-${name}`,
      title: `a megabyte of ${name}, refused by a check`,
      ours: { value: median(figures.map(([ours]) => ours)), unit: "ms" },
      reference: { value: median(figures.map(([, reference]) => reference)), unit: "ms" },
      ratioOf: "ours / reference",
      aim: { op: "<=", value: MAX_REFUSED_RATIO },
    });
  }
  return rows;
}

/** Milliseconds that a million gas of each message takes, over those of a plain send, on a large state. */
export async function gasReport({ quick, progress }: BenchOptions): Promise<Report> {
  progress("gas: making a state");
  await using state = await openGasState(quick ? QUICK_STATE : STATE);
  const rounds = quick ? 1 : 3;
  const plain = GAS_CASES.find(({ name }) => name === PLAIN_SEND)?.txs(state) ?? [];
  for (let i = 0; i < (quick ? 1 : 20); i++) await runBlock(state, plain);
  const rows: Row[] = [];
  const lines: string[][] = [];
  for (const { name, txs: make } of GAS_CASES) {
    progress(`gas: ${name}`);
    const txs = make(state);
    let run = await runBlock(state, txs);
    const figures: [number, number][] = [];
    const isSlow = run.ms > SLOW_MS;
    for (let round = 0; round < (isSlow ? 1 : rounds); round++) {
      if (!isSlow) run = await runBlock(state, txs);
      figures.push([perMillion(run), perMillion(await runBlock(state, plain))]);
    }
    rows.push({
      name: `chain.gas-${name}`,
      title: `a million gas of ${name}`,
      ours: { value: median(figures.map(([ours]) => ours)), unit: "ms" },
      reference: { value: median(figures.map(([, reference]) => reference)), unit: "ms" },
      ratioOf: "ours / reference",
      ratio: median(figures.map(([ours, reference]) => ours / reference)),
      aim: { op: "<=", value: MAX_RATIO },
    });
    const { bytes, gas, ms, codes, log } = run;
    lines.push([name, `${txs.length}`, `${bytes}`, `${gas}`, ms.toFixed(1), codes.join("/"), log]);
  }
  progress("gas: refused transactions");
  rows.push(...(await refusedRows(state, rounds)));
  const { suppliers, applications } = state;
  return {
    rows,
    tables: [
      { title: "Blocks of the gas rows", head: ["case", "txs", "bytes", "gas", "ms", "codes", "first error"], lines },
    ],
    notes: [
      `Gas is measured on a state of ${applications.length} applications and ${suppliers.length} suppliers of one service, as a block's CPU beyond an empty block's. A transaction that is refused counts ${GAS_PER_BYTE} gas a byte, which it takes of a block.`,
      "The reference of the gas rows is a plain send in the same round; that of the refused rows is checking as many bytes of plain sends.",
    ],
  };
}
