import { join } from "node:path";
import type { BenchOptions } from "../lib/benchmark.ts";
import { type Child, startChild } from "../lib/child.ts";
import type { LoadOperations } from "../lib/load.ts";
import type { Report, Row } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import type { BareHttpOperations } from "./children/bare-http.ts";
import type { OurNodeOperations } from "./children/our-node.ts";
import { SERVICE_ID } from "./ground.ts";

const CONNECTIONS = 16;
const SUPPLIERS = 50;

interface Asked {
  readonly name: string;
  readonly title: string;
  readonly port: number;
  readonly request: string;
}

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

function get(path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
}

function post(json: unknown): string {
  const body = JSON.stringify(json);
  return `POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

async function answerOf({ port, request }: Asked): Promise<string> {
  const [head = "", body = ""] = request.split("\r\n\r\n");
  const [method = "GET", path = "/"] = head.split(" ");
  const init = method === "GET" ? {} : { method, body, headers: { "Content-Type": "application/json" } };
  return (await fetch(`http://127.0.0.1:${port}${path}`, init)).text();
}

async function measure(
  load: Child<LoadOperations>,
  side: Child<OurNodeOperations> | Child<BareHttpOperations>,
  at: { readonly port: number; readonly request: string },
  durationMs: number,
): Promise<Sample> {
  const before = await side.cpuMicros();
  const run = { port: at.port, request: Buffer.from(at.request), connections: CONNECTIONS, status: 200, durationMs };
  const { answers, elapsedMs } = await load.ask("run", run);
  return { perSecond: (answers / elapsedMs) * 1_000, cpuMicros: ((await side.cpuMicros()) - before) / answers };
}

/** Requests to a node that stands still, over a bare server that answers the same bytes. */
export async function requestsReport({ quick, progress }: BenchOptions): Promise<Report> {
  await using owned = new AsyncDisposableStack();
  const children = join(import.meta.dirname, "children");
  const node = owned.use(await startChild<OurNodeOperations>(join(children, "our-node.ts")));
  const load = owned.use(await startChild<LoadOperations>(join(import.meta.dirname, "..", "lib", "load.ts")));
  const { rpc, rest, application } = await node.ask("start", { suppliers: SUPPLIERS });
  const session = `application_address=${application}&service_id=${SERVICE_ID}`;
  const asked: readonly Asked[] = [
    {
      name: "rpc-status",
      title: "RPC status",
      port: rpc,
      request: post({ jsonrpc: "2.0", id: 1, method: "status", params: {} }),
    },
    { name: "rpc-block", title: "RPC block 2", port: rpc, request: get("/block?height=2") },
    { name: "rest-params", title: "REST parameters", port: rest, request: get("/pocket/shared/params") },
    {
      name: "rest-session",
      title: "REST session of 15 suppliers",
      port: rest,
      request: get(`/pocket/session/get_session?${session}`),
    },
  ];
  const [rounds, durationMs] = quick ? [1, 300] : [3, 500];
  const rows: Row[] = [];
  for (const one of asked) {
    await using bare = await startChild<BareHttpOperations>(join(children, "bare-http.ts"));
    const { port } = await bare.ask("start", { body: await answerOf(one) });
    const sides: [Sample[], Sample[]] = [[], []];
    for (let round = -1; round < rounds; round++) {
      progress(`requests: ${one.title}, ${round < 0 ? "warming up" : `round ${round + 1} of ${rounds}`}`);
      const ours = await measure(load, node, one, durationMs);
      const floor = await measure(load, bare, { port, request: one.request }, durationMs);
      if (round < 0) continue;
      sides[0].push(ours);
      sides[1].push(floor);
    }
    const [ours, floor] = sides;
    const row = (name: string, title: string, of: (sample: Sample) => number, unit: "/s" | "µs"): Row => ({
      name: `chain.${name}`,
      title,
      ours: { value: median(ours.map(of)), unit },
      reference: { value: median(floor.map(of)), unit },
      ratioOf: "ours / reference",
    });
    rows.push(row(one.name, `${one.title}, a second`, ({ perSecond }) => perSecond, "/s"));
    rows.push(row(`${one.name}-cpu`, "… CPU of the process for one", ({ cpuMicros }) => cpuMicros, "µs"));
  }
  return {
    rows,
    notes: [
      `Requests are sent on ${CONNECTIONS} kept connections by another process. Their reference is node:http that answers the same bytes by heart.`,
    ],
  };
}
