import type { BenchOptions } from "../lib/benchmark.ts";
import type { Child } from "../lib/child.ts";
import type { LoadOperations } from "../lib/load.ts";
import type { Report } from "../lib/report.ts";
import { median } from "../lib/stats.ts";

/** A server under load. */
export interface ServerUnderTest {
  readonly port: number;
  readonly child: Pick<Child<never>, "cpuMicros">;
}

/** Options of {@link benchAnswers}. */
export interface AnswersOptions {
  readonly rounds: number;
  readonly roundMs: number;
  readonly connections: number;
}

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
  readonly bytes: number;
  readonly loadShare: number;
}

const BODY = '{"method":"eth_blockNumber","params":[]}';

function request(port: number): Uint8Array {
  const head = [
    "POST /v1/eth HTTP/1.1",
    `host: 127.0.0.1:${port}`,
    "accept: application/json",
    "content-type: application/json",
    `content-length: ${BODY.length}`,
  ];
  return Buffer.from(`${head.join("\r\n")}\r\n\r\n${BODY}`);
}

/** How many unpaid requests are answered 402 in a second, and what one costs the server. */
export async function benchAnswers(
  options: AnswersOptions,
  modules: {
    readonly ours: ServerUnderTest;
    readonly reference: ServerUnderTest;
    readonly load: Child<LoadOperations>;
    readonly progress: BenchOptions["progress"];
  },
): Promise<Report> {
  const { load } = modules;
  const sample = async (server: ServerUnderTest, durationMs: number): Promise<Sample> => {
    const cpuBefore = await server.child.cpuMicros();
    const { connections } = options;
    const run = { port: server.port, request: request(server.port), connections, durationMs, status: 402 };
    const { answers, elapsedMs, cpuMicros, answerBytes } = await load.ask("run", run);
    return {
      perSecond: (answers / elapsedMs) * 1_000,
      cpuMicros: ((await server.child.cpuMicros()) - cpuBefore) / answers,
      bytes: answerBytes,
      loadShare: cpuMicros / 1_000 / elapsedMs,
    };
  };
  const sides = [modules.ours, modules.reference] as const;
  for (const side of sides) await sample(side, options.roundMs / 2);
  const ours: Sample[] = [];
  const reference: Sample[] = [];
  for (let round = 0; round < options.rounds; round++) {
    modules.progress(`402 answers: round ${round + 1} of ${options.rounds}`);
    // alternating, so that neither always has the warmer machine
    for (const first of round % 2 === 0 ? [true, false] : [false, true]) {
      if (first) ours.push(await sample(modules.ours, options.roundMs));
      else reference.push(await sample(modules.reference, options.roundMs));
    }
  }
  const middle = (samples: readonly Sample[], of: (one: Sample) => number): number => median(samples.map(of));
  const busy = (samples: readonly Sample[]): string => `${Math.round(middle(samples, (one) => one.loadShare) * 100)} %`;
  return {
    rows: [
      {
        name: "payment.answers",
        title: "402 answers a second",
        ours: { value: middle(ours, (one) => one.perSecond), unit: "/s" },
        reference: { value: middle(reference, (one) => one.perSecond), unit: "/s" },
        ratioOf: "ours / reference",
      },
      {
        name: "payment.answers-cpu",
        title: "CPU of the server for one 402",
        ours: { value: middle(ours, (one) => one.cpuMicros), unit: "µs" },
        reference: { value: middle(reference, (one) => one.cpuMicros), unit: "µs" },
        ratioOf: "reference / ours",
      },
    ],
    notes: [
      `402: ${options.connections} keep-alive connections, ${options.rounds} rounds of ${options.roundMs} ms each, medians; ` +
        `one answer is ${middle(ours, (one) => one.bytes)} bytes of ours, ${middle(reference, (one) => one.bytes)} of the reference; ` +
        `the load generator used ${busy(ours)} of a core beside ours, ${busy(reference)} beside the reference`,
    ],
  };
}
