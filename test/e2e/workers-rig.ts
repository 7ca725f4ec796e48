import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type Agent, type IncomingMessage, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const COMMAND = fileURLToPath(new URL("../../apps/turnpike/bin/turnpike.js", import.meta.url));

/** A line of the log. */
export interface LogLine {
  readonly msg: string;
  readonly pid: number;
  readonly worker?: number;
  readonly level: string;
}

/** An answer of the tree; status 0: there was none. */
export interface TreeAnswer {
  readonly status: number;
  readonly text: string;
}

/** `turnpike gateway` as an operator starts it: a real tree of processes. */
export interface Tree extends AsyncDisposable {
  readonly url: string;
  readonly metricsUrl: string;
  readonly adminUrl: string;
  readonly pid: number;
  /** Ids of the workers that live. */
  workers(): readonly number[];
  readonly lines: readonly LogLine[];
  /** What was written to the error output and is no line of the log. */
  readonly noise: readonly string[];
  /** Resolves with the exit code. */
  readonly exited: Promise<number | null>;
  signal(name: NodeJS.Signals): void;
  /** One free call of a client. */
  ask(client: string, via?: Agent): Promise<TreeAnswer>;
  /** Another one. */
  call(method: string, ...params: readonly unknown[]): Promise<TreeAnswer>;
  metrics(): Promise<string>;
  /** Replaces the configuration file. */
  write(config: Readonly<Record<string, unknown>>): void;
}

let nextAddress = 1;

/** Sends one request; a connection that breaks is status 0. */
export async function send(
  url: string,
  opts: {
    readonly agent?: Agent;
    readonly method?: string;
    readonly body?: string;
    readonly headers?: Record<string, string>;
  },
): Promise<TreeAnswer> {
  const { agent = false, method = "POST", body = "", headers = {} } = opts;
  try {
    const sent = request(url, { agent: agent as Agent, method, headers });
    sent.end(body);
    const [answer] = (await once(sent, "response")) as [IncomingMessage];
    return { status: answer.statusCode ?? 0, text: await text(answer) };
  } catch (error) {
    return { status: 0, text: String(error) };
  }
}

/** Starts a tree and waits until it is ready. */
export async function startTree(config: Readonly<Record<string, unknown>>): Promise<Tree> {
  const started = await tryTree(config);
  assert.ok("url" in started, JSON.stringify(started));
  return started;
}

/** The same of one that may end instead: then what it said. */
export async function tryTree(
  config: Readonly<Record<string, unknown>>,
): Promise<Tree | { readonly code: number | null; readonly said: string; readonly noise: readonly string[] }> {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-workers-"));
  const file = join(folder, "turnpike.yaml");
  const write = (next: Readonly<Record<string, unknown>>): void => writeFileSync(file, JSON.stringify(next));
  write(config);
  const child: ChildProcess = spawn(process.execPath, [COMMAND, "gateway", "--json", "--config", file], {
    stdio: ["ignore", "pipe", "pipe"],
    // Nothing else of this machine's settings; compiled sources save each process of the tree seconds.
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE },
  });
  const exited = once(child, "exit").then(([code]: unknown[]) => code as number | null);
  const lines: LogLine[] = [];
  const noise: string[] = [];
  const { stdout, stderr, pid } = child;
  assert.ok(stdout !== null && stderr !== null && pid !== undefined);
  createInterface({ input: stderr }).on("line", (line) => {
    try {
      lines.push(JSON.parse(line) as LogLine);
    } catch {
      noise.push(line);
    }
  });
  const first = createInterface({ input: stdout });
  const said = once(first, "line").then(([line]: unknown[]) => String(line));
  const line = await Promise.race([said, exited.then(() => "{}")]);
  const ready = JSON.parse(line) as { ready?: boolean; gateway: string; metrics: string; admin: string };
  if (ready.ready !== true) {
    const code = await exited;
    rmSync(folder, { recursive: true, force: true });
    return { code, said: line, noise };
  }
  return {
    url: ready.gateway,
    metricsUrl: ready.metrics,
    adminUrl: ready.admin,
    pid,
    lines,
    noise,
    exited,
    write,
    workers() {
      const started = lines.filter(({ msg, worker }) => msg === "listening" && worker !== undefined);
      return started
        .map((one) => one.pid)
        .filter((one) => {
          try {
            process.kill(one, 0);
            return true;
          } catch {
            return false;
          }
        });
    },
    signal: (name) => void child.kill(name),
    ask: (client, agent) =>
      send(`${ready.gateway}/relay/eth`, {
        ...(agent === undefined ? {} : { agent }),
        // No two alike, or they would be asked as one.
        body: `{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x${(nextAddress++).toString(16).padStart(40, "0")}","latest"]}`,
        headers: { "content-type": "application/json", "x-forwarded-for": client },
      }),
    call: (method, ...params) =>
      send(`${ready.gateway}/relay/eth`, {
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
        headers: { "content-type": "application/json" },
      }),
    metrics: async () => (await send(ready.metrics, { method: "GET" })).text,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The value of a sample, 0 where there is none. */
export function sampleOf(metrics: string, start: string): number {
  return metrics
    .split("\n")
    .filter((line) => line.startsWith(start))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}
