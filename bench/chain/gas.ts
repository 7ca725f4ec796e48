import { pocketMachine } from "@turnpike/chain";
import { Overlay } from "../../packages/chain/src/state/overlay.ts";
import type { BenchOptions } from "../lib/benchmark.ts";
import type { Report, Row, Table } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import { GAS_CASES, type GasCase, PLAIN_SEND, PROOF_CASES, REFUSED_TXS, sendsOf } from "./gas-cases.ts";
import { bySupplier, claimMessage, PROOF_APPLICATIONS, PROOF_GATEWAYS, PROVERS } from "./gas-proofs.ts";
import { type GasState, type OpenGasState, openGasState, type SettlingState } from "./gas-state.ts";
import { cpuOf, type GroundOptions, PROVEN_SERVICE_ID } from "./ground.ts";

const ACTORS = { services: 200, gateways: PROOF_GATEWAYS, provers: PROVERS, provenApplications: PROOF_APPLICATIONS };
export const STATE: GroundOptions = { accounts: 200, suppliers: 10_000, applications: 50_000, ...ACTORS };
/** A small state with all that the cases need. */
export const QUICK_STATE: GroundOptions = { accounts: 60, suppliers: 60, applications: 60, ...ACTORS };
/** Gas that a byte of a transaction takes, and so reserves in a block whatever becomes of it. */
const GAS_PER_BYTE = 10n;
/** Measured runs of each case; blocks of plain sends before the first. */
const [ROUNDS, WARM_UPS] = [3, 20];
/** CPU of a case's runs before the first that is measured, in milliseconds. */
const WARM_UP_MS = 400;
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
async function runBlock(
  { reader, block }: Pick<GasState, "reader" | "block">,
  txs: readonly Uint8Array[],
): Promise<Run> {
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

/** Rows of cases, and the lines of their table. */
interface CaseRows {
  readonly rows: readonly Row[];
  readonly lines: readonly (readonly string[])[];
}

const plainSends = (state: OpenGasState): readonly Uint8Array[] =>
  GAS_CASES.find(({ name }) => name === PLAIN_SEND)?.txs(state, 0) ?? [];

export async function caseRows<State extends GasState>(
  {
    state,
    cases,
    plain,
  }: {
    readonly state: State;
    readonly cases: readonly GasCase<State>[];
    readonly plain: readonly Uint8Array[];
  },
  { quick, progress }: BenchOptions,
): Promise<CaseRows> {
  const rounds = quick ? 1 : ROUNDS;
  for (let i = 0; i < (quick ? 1 : WARM_UPS); i++) await runBlock(state, plain);
  const rows: Row[] = [];
  const lines: string[][] = [];
  for (const { name, txs: make } of cases) {
    progress(`gas: ${name}`);
    let txs = make(state, 0);
    let run = await runBlock(state, txs);
    const figures: [number, number][] = [];
    const isSlow = run.ms > SLOW_MS;
    // The sends are compiled code by now.
    for (let warmMs = run.ms; !quick && warmMs < WARM_UP_MS; warmMs += Math.max(1, run.ms))
      run = await runBlock(state, txs);
    for (let round = 1; round <= (isSlow ? 1 : rounds); round++) {
      if (!isSlow) {
        txs = make(state, round);
        run = await runBlock(state, txs);
      }
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
  return { rows, lines };
}

const tableOf = (lines: CaseRows["lines"]): Table => ({
  title: "Blocks of the gas rows",
  head: ["case", "txs", "bytes", "gas", "ms", "codes", "first error"],
  lines,
});

const noteOf = ({ applications, suppliers }: GasState): string =>
  `Gas is measured on a state of ${applications.length} applications and ${suppliers.length} suppliers of one service, as a block's CPU beyond an empty block's. A transaction that is refused counts ${GAS_PER_BYTE} gas a byte, which it takes of a block.`;

/** Milliseconds that a million gas of each message takes, over those of a plain send, on a large state. */
export async function gasReport(options: BenchOptions): Promise<Report> {
  const { quick, progress } = options;
  progress("gas: making a state");
  await using state = await openGasState(quick ? QUICK_STATE : STATE);
  const { rows, lines } = await caseRows({ state, cases: GAS_CASES, plain: plainSends(state) }, options);
  progress("gas: refused transactions");
  const refused = await refusedRows(state, quick ? 1 : ROUNDS);
  return {
    rows: [...rows, ...refused],
    tables: [tableOf(lines)],
    notes: [
      noteOf(state),
      "The reference of the gas rows is a plain send in the same round; that of the refused rows is checking as many bytes of plain sends.",
    ],
  };
}

/** CPU of each claim, and gas of each, of one block. */
async function claimFigures(state: OpenGasState): Promise<{ readonly ms: number; readonly gas: number }> {
  const works = state.works.filter(({ work }) => work.header.serviceId === PROVEN_SERVICE_ID);
  const txs = bySupplier(works, claimMessage).map(({ account, messages }) => state.sign(account, messages));
  const { ms, gas } = await runBlock(state, txs);
  return { ms: ms / works.length, gas: Number(gas) / works.length };
}

/** CPU of each claim at its settlement. */
async function settledMs({ numClaims, quiet, settling }: SettlingState): Promise<number> {
  const micros = ({ reader, block }: typeof quiet): Promise<number> => {
    const { machine } = pocketMachine({ gasPrices: [] });
    return cpuOf(() => machine.runBlock(reader, block, []));
  };
  const [settlingMicros, quietMicros] = [await micros(settling), await micros(quiet)];
  return Math.max(0, settlingMicros - quietMicros) / 1_000 / numClaims;
}

/** The same of proofs that hold, with what the block's end does with them, and of the settlement of their claims. */
export async function gasProofsReport(options: BenchOptions): Promise<Report> {
  const { quick, progress } = options;
  const rounds = quick ? 1 : ROUNDS;
  progress("gas-proofs: making a state");
  await using state = await openGasState(quick ? QUICK_STATE : STATE);
  const plain = plainSends(state);
  for (let i = 0; i < (quick ? 1 : WARM_UPS); i++) await runBlock(state, plain);
  const claims: Awaited<ReturnType<typeof claimFigures>>[] = [];
  for (let round = 0; round <= rounds; round++) claims.push(await claimFigures(state));
  const proving = await state.proving();
  const { rows, lines } = await caseRows({ state: proving, cases: PROOF_CASES, plain }, options);
  const settling = await proving.settling();
  progress("gas-proofs: settlement");
  await settledMs(settling);
  const figures: { readonly settled: number; readonly send: Run }[] = [];
  for (let round = 0; round < rounds; round++) {
    figures.push({ settled: await settledMs(settling), send: await runBlock(settling.quiet, plain) });
  }
  // The first one warmed up.
  const claimMs = median(claims.slice(1).map(({ ms }) => ms));
  const claimGas = median(claims.slice(1).map(({ gas }) => gas));
  const whole = figures.map(({ settled }) => ((claimMs + settled) * 1e6) / claimGas);
  const settlement: Row[] = [
    {
      name: "chain.settle-claim",
      title: `settlement of one of ${settling.numClaims} claims, over the CPU of a send`,
      ours: { value: median(figures.map(({ settled }) => settled)), unit: "ms" },
      reference: { value: median(figures.map(({ send }) => send.ms / plain.length)), unit: "ms" },
      ratioOf: "ours / reference",
    },
    {
      name: "chain.gas-claim-settled",
      title: "a million gas of claims, with their settlement",
      ours: { value: median(whole), unit: "ms" },
      reference: { value: median(figures.map(({ send }) => perMillion(send))), unit: "ms" },
      ratioOf: "ours / reference",
      aim: { op: "<=", value: MAX_RATIO },
    },
  ];
  return {
    rows: [...rows, ...settlement],
    tables: [tableOf(lines)],
    notes: [
      noteOf(state),
      `Proofs are of suppliers of a service with ${PROVERS} of them, and of the large one. Their figures hold what the end of the block does: it verifies each ring.`,
    ],
  };
}
