import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { type PaidSoakSummary, runPaidSoak } from "./paid.ts";
import { runSoak, SOAK_DEFAULTS, type SoakSummary } from "./soak.ts";

const HELP = `A real gateway under mixed load, while all its suppliers but one die, slow down and lie at random.

  npm run soak [-- --minutes 30] [--seconds n] [--seed n] [--rate 1] [--signed] [--json]
  npm run soak -- --paid [--calls 100000] [--payers 500] [--json]

  --minutes  how long; 30 by default, with more than a million calls in batches
  --seconds  the same in seconds
  --seed     of the suppliers' faults and of the load; a random one is taken and printed
  --rate     times the usual load
  --signed   the suppliers are those of sessions on a chain: relays are signed, claimed, proven and settled
  --paid     sells calls, settled on a local chain, and measures the gateway's live memory as they are paid
  --calls    paid calls; 100,000 by default
  --payers   payers in turn; 500 by default
  --json     the summary as JSON on the standard output

The exit code is 1 when anything was wrong: an answer that is not its question's, a lost or crossed id, another order, a
height that is not the chain's, a write that was sent twice, errors above 0.1 % of all calls, memory that grew by more
than 20 %, a mined relay that was not settled; with --paid, a call that was not sold, and more than 64 bytes of live
memory that each call of the second half adds.
`;

function summaryText(summary: SoakSummary): string {
  const { tally, memory, latencyMs, suppliers, relays } = summary;
  const mib = (bytes: number): string => `${Math.round(bytes / 1_048_576)} MiB`;
  const moods = Object.entries(suppliers.answers).map(([mood, count]) => `${mood} ${count}`);
  return [
    `seed        ${summary.seed}`,
    `time        ${Math.round(summary.durationMs / 1_000)} s`,
    `requests    ${tally.requests}, of them ${tally.batches} batches with ${tally.batchItems} items`,
    `answers     ${tally.answers}, and ${tally.notifications} notifications without one`,
    `errors      ${tally.errors} (${(summary.errorShare * 100).toFixed(4)} %); writes ${tally.writes}, ${tally.writeErrors} with an error`,
    `latency     p50 ${latencyMs.p50} ms, p99 ${latencyMs.p99} ms, most ${latencyMs.most} ms`,
    `height      ${tally.mostBehindBlocks} blocks behind at most`,
    ...Object.entries(memory.processes).map(
      ([name, { firstBytes, lastBytes }]) =>
        `memory      ${name} ${mib(firstBytes)} at first, ${mib(lastBytes)} at last${memory.isJudged ? "" : " (too short to judge)"}`,
    ),
    `suppliers   ${moods.join(", ")}`,
    ...(relays === undefined
      ? []
      : [
          `relays      ${relays.served} served, ${relays.mined} mined, ${relays.claimed} claimed, ${relays.settled} settled`,
        ]),
    ...tally.samples.map((text) => `sample      ${text}`),
    summary.faults.length === 0 ? "holds" : summary.faults.map((fault) => `FAULT       ${fault}`).join("\n"),
    "",
  ].join("\n");
}

function paidText({ paid, durationMs, memory, bytesPerCall, faults }: PaidSoakSummary): string {
  const mib = (bytes: number): string => `${(bytes / 1_048_576).toFixed(1)} MiB`;
  return [
    `time        ${Math.round(durationMs / 1_000)} s`,
    `paid        ${paid}`,
    ...memory.map(
      ({ calls, liveBytes, rssBytes }) =>
        `memory      ${mib(liveBytes)} live, ${mib(rssBytes)} resident after ${calls} calls`,
    ),
    `each call   ${Math.round(bytesPerCall)} live bytes in the second half`,
    faults.length === 0 ? "holds" : faults.map((fault) => `FAULT       ${fault}`).join("\n"),
    "",
  ].join("\n");
}

async function main(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      minutes: { type: "string", default: "30" },
      seconds: { type: "string" },
      seed: { type: "string" },
      rate: { type: "string", default: "1" },
      signed: { type: "boolean", default: false },
      paid: { type: "boolean", default: false },
      calls: { type: "string", default: "100000" },
      payers: { type: "string", default: "500" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const seconds = values.seconds === undefined ? Number(values.minutes) * 60 : Number(values.seconds);
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed);
  const rate = Number(values.rate);
  const [calls, payers] = [Number(values.calls), Number(values.payers)];
  const isGood =
    seconds >= 1 &&
    Number.isSafeInteger(seed) &&
    rate > 0 &&
    rate <= 100 &&
    [calls, payers].every((count) => Number.isSafeInteger(count) && count >= 1);
  if (values.help || !isGood) {
    (values.help ? process.stdout : process.stderr).write(HELP);
    process.exitCode = values.help ? 0 : 2;
    return;
  }
  const ends = new AbortController();
  process.once("SIGINT", () => ends.abort());
  if (values.paid) {
    const progress = (text: string): void => void process.stderr.write(`${text}\n`);
    const summary = await runPaidSoak({ calls, payers, concurrency: 200, progress, signal: ends.signal });
    process.stdout.write(values.json ? `${JSON.stringify(summary, undefined, 2)}\n` : paidText(summary));
    if (summary.faults.length > 0) process.exitCode = 1;
    return;
  }
  process.stderr.write(`seed ${seed}\n`);
  const summary = await runSoak({
    ...SOAK_DEFAULTS,
    durationMs: seconds * 1_000,
    seed,
    isSigned: values.signed,
    singlesPerSecond: SOAK_DEFAULTS.singlesPerSecond * rate,
    batchesPerSecond: SOAK_DEFAULTS.batchesPerSecond * rate,
    signal: ends.signal,
    progress: (text) => {
      if (process.stderr.isTTY) process.stderr.write(`${text}\n`);
    },
  });
  process.stdout.write(values.json ? `${JSON.stringify(summary, undefined, 2)}\n` : summaryText(summary));
  if (summary.faults.length > 0) process.exitCode = 1;
}

await main(process.argv.slice(2));
