import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { LISTENERS, type Listener } from "../../e2e/listeners.ts";
import type { ChaosFigure, ChaosOptions, ChaosPart } from "../chaos.ts";

type Attack = "half-open" | "slow-heads" | "rapid-reset";

const REQUESTS = { short: 20, full: 500 };
/** Time for the attack to have all its connections. */
const RAMP_REQUESTS = 20;
/** A request that takes longer is a failed one. The short form judges no times: it runs beside other tests. */
const PATIENCE_MS = { short: 60_000, full: 5_000 };
const END_MS = 5_000;
/** Beside the factor of 2: what a machine with two cores adds by itself. */
const SLACK_MS = 25;

function child(file: string, ...args: string[]): ChildProcess {
  return fork(new URL(file, import.meta.url), args, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
}

async function end(process: ChildProcess): Promise<void> {
  const ended = once(process, "exit");
  process.disconnect();
  const late = setTimeout(() => process.kill("SIGKILL"), END_MS);
  await ended;
  clearTimeout(late);
}

interface Target {
  readonly port: number;
  readonly isHttp2: boolean;
  readonly patienceMs: number;
}

/** Asks for anything on a new connection, as an honest client does whose pool has none. Resolves with the time, in ms. */
async function ask({ port, isHttp2, patienceMs }: Target): Promise<number | undefined> {
  const startedMs = performance.now();
  const answered = isHttp2 ? await askHttp2(port, patienceMs) : await askHttp1(port, patienceMs);
  return answered ? performance.now() - startedMs : undefined;
}

async function askHttp1(port: number, patienceMs: number): Promise<boolean> {
  const socket = connect({ port, host: "127.0.0.1", timeout: patienceMs });
  socket.on("error", () => {}).on("timeout", () => socket.destroy());
  socket.write("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const answered = new Promise<boolean>((resolve) => {
    socket.once("data", () => resolve(true)).once("close", () => resolve(false));
  });
  const isData = await answered;
  socket.destroy();
  return isData;
}

async function askHttp2(port: number, patienceMs: number): Promise<boolean> {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  session.on("error", () => {});
  const stream = session.request({
    ":method": "POST",
    ":path": "/x",
    "content-type": "application/grpc",
    te: "trailers",
  });
  stream.on("error", () => {});
  stream.setTimeout(patienceMs, () => session.destroy());
  stream.end();
  const answered = new Promise<boolean>((resolve) => {
    stream.once("response", () => resolve(true)).once("close", () => resolve(false));
  });
  const isResponse = await answered;
  session.destroy();
  return isResponse;
}

interface Times {
  readonly p99Ms: number;
  readonly failed: number;
}

async function measure(target: Target, requests: number): Promise<Times> {
  const times: number[] = [];
  let failed = 0;
  for (let at = 0; at < requests; at++) {
    const tookMs = await ask(target);
    if (tookMs === undefined) failed++;
    else times.push(tookMs);
  }
  times.sort((a, b) => a - b);
  return { p99Ms: times[Math.floor(times.length * 0.99)] ?? target.patienceMs, failed };
}

/** One server: alone, and under an attack of one address. */
async function under(
  attack: Attack,
  name: string,
  { isHttp2 }: Listener,
  size: ChaosOptions["size"],
): Promise<{ readonly figures: readonly ChaosFigure[]; readonly faults: readonly string[] }> {
  const server = child("server-child.ts", name);
  const [{ url }] = (await once(server, "message")) as [{ url: string }];
  const port = Number(new URL(url).port);
  const requests = REQUESTS[size];
  const target = { port, isHttp2: isHttp2 === true, patienceMs: PATIENCE_MS[size] };
  try {
    await measure(target, RAMP_REQUESTS);
    const alone = await measure(target, requests);
    const attacker = child("attack-child.ts", attack, String(port));
    await once(attacker, "spawn");
    await measure(target, RAMP_REQUESTS);
    const attacked = await measure(target, requests);
    const counted = once(attacker, "message");
    attacker.send("count");
    const [{ closed }] = (await counted) as [{ closed: number }];
    await end(attacker);
    const faults: string[] = [];
    if (attacked.failed > 0)
      faults.push(`${name}: ${attacked.failed} of ${requests} honest requests were not answered`);
    if (size === "full" && attacked.p99Ms > 2 * alone.p99Ms + SLACK_MS) {
      faults.push(`${name}: p99 ${Math.round(attacked.p99Ms)} ms, alone ${Math.round(alone.p99Ms)} ms`);
    }
    return {
      figures: [
        { what: `${name}: p99 alone`, value: alone.p99Ms, unit: "ms" },
        { what: `${name}: p99 under attack`, value: attacked.p99Ms, unit: "ms" },
        { what: `${name}: closed connections of the attacker`, value: closed, unit: "" },
      ],
      faults,
    };
  } finally {
    await end(server);
  }
}

const flood =
  (attack: Attack): ChaosPart =>
  async ({ size, progress }: ChaosOptions) => {
    const figures: ChaosFigure[] = [];
    const faults: string[] = [];
    for (const [name, listener] of Object.entries(LISTENERS)) {
      if (attack === "rapid-reset" && listener.isHttp2 !== true) continue;
      const report = await under(attack, name, listener, size);
      for (const { what, value, unit } of report.figures) progress(`${what}: ${Math.round(value)} ${unit}`.trim());
      figures.push(...report.figures);
      faults.push(...report.faults);
    }
    return { figures, faults };
  };

/** The parts of `npm run chaos -- flood`. */
export const FLOOD_PARTS: Readonly<Record<string, ChaosPart>> = {
  "half-open": flood("half-open"),
  "slow-heads": flood("slow-heads"),
  "rapid-reset": flood("rapid-reset"),
};
