import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const MAIN = resolve(import.meta.dirname, "../../apps/turnpike/src/main.ts");

/** How `turnpike mcp` is started: for clients that start it themselves. */
export interface McpCommand {
  readonly command: string;
  readonly args: string[];
  readonly env: Record<string, string>;
  readonly cwd: string;
}

/** A folder of a test, and commands that live in it. */
export interface McpFolder extends AsyncDisposable {
  readonly folder: string;
  command(buyerKey: string, ...flags: readonly string[]): McpCommand;
}

/**
 * Makes a {@link McpFolder}. Nothing of the machine's own state or settings reaches the commands, but for compiled
 * sources: these save each process a second.
 */
export async function mcpFolder(): Promise<McpFolder> {
  const { NODE_COMPILE_CACHE } = process.env;
  const folder = await mkdtemp(join(tmpdir(), "turnpike-mcp-"));
  return {
    folder,
    command: (buyerKey, ...flags) => ({
      command: process.execPath,
      args: [MAIN, "mcp", ...flags],
      env: {
        PATH: process.env.PATH ?? "",
        XDG_STATE_HOME: folder,
        HOME: folder,
        TURNPIKE_BUYER_KEY: buyerKey,
        ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }),
      },
      cwd: folder,
    }),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

/** A `turnpike mcp` that a test started, and everything that it wrote. */
export interface McpProcess extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly stdout: string[];
  readonly stderr: string[];
  /** The first line on the error output. */
  readonly started: Promise<string>;
  /** Resolves with the exit code when it has ended. */
  readonly ended: Promise<number | null>;
  send(message: unknown): void;
  /** The answer to the request of this id. */
  answer(id: number): Promise<Record<string, unknown>>;
}

/** Starts a {@link McpProcess}. */
export function startMcp({ command, args, env, cwd }: McpCommand): McpProcess {
  const child = spawn(command, args, { env, cwd, stdio: ["pipe", "pipe", "pipe"] });
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const waiting = new Map<number, (answer: Record<string, unknown>) => void>();
  const first = Promise.withResolvers<string>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    stdout.push(line);
    const message = JSON.parse(line) as { readonly id?: number };
    if (message.id !== undefined) waiting.get(message.id)?.(message as Record<string, unknown>);
  });
  createInterface({ input: child.stderr }).on("line", (line) => {
    stderr.push(line);
    first.resolve(line);
  });
  const ended = once(child, "close").then(([code]) => {
    first.reject(new Error(`turnpike mcp ended: ${stderr.join("\n")}`));
    return code as number | null;
  });
  first.promise.catch(() => {});
  child.stdin.on("error", () => {});
  return {
    child,
    stdout,
    stderr,
    started: first.promise,
    ended,
    send: (message) => void child.stdin.write(`${JSON.stringify(message)}\n`),
    answer: (id) => new Promise((resolve) => waiting.set(id, resolve)),
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await ended;
    },
  };
}

/** What the tests read of a tool's result. */
export interface ToolResult {
  readonly isError?: boolean;
  readonly content: readonly { readonly type: string; readonly text?: string }[];
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
  readonly structuredContent?: any;
}

/** The text of a tool's result. */
export const textOf = ({ content }: ToolResult): string => content.map(({ text }) => text ?? "").join("\n");

/** Begins a session as a client that speaks the protocol by hand. */
export function openMcp(mcp: McpProcess): void {
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "raw", version: "0" } };
  mcp.send({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  mcp.send({ jsonrpc: "2.0", method: "notifications/initialized" });
}

/** Calls a tool in such a session. */
export async function callTool(mcp: McpProcess, id: number, name: string, args: unknown): Promise<ToolResult> {
  const answer = mcp.answer(id);
  mcp.send({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } });
  return (await answer).result as ToolResult;
}
