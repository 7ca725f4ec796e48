import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { AppError } from "@turnpike/base";
import { freePort } from "@turnpike/localnet";
import { eventually } from "./eventually.ts";
import { killProgram } from "./programs.ts";

/** What a test gives as `skip`: a reason, or false when the program is there. */
export function withoutRedis(): string | false {
  return spawnSync("redis-server", ["--version"]).status === 0 ? false : "redis-server is not installed";
}

/** A Redis of a test. */
export interface TestRedis extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Stops it in its tracks: it keeps its connections and answers no client. */
  hang(): void;
  resume(): void;
  /** Ends it at once. */
  kill(): Promise<void>;
}

async function answers(port: number): Promise<boolean> {
  const socket = connect({ host: "127.0.0.1", port });
  try {
    await once(socket, "connect");
    socket.write("PING\r\n");
    const [reply] = (await once(socket, "data")) as [Buffer];
    return reply.toString().startsWith("+PONG");
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Starts a Redis that keeps nothing, on a free port or the given one. */
export async function startRedis(onPort?: number): Promise<TestRedis> {
  const port = onPort ?? (await freePort());
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"];
  const child = spawn("redis-server", args, { stdio: "ignore", cwd: "/" });
  try {
    await eventually("an answer of redis-server, or its end", () => child.exitCode !== null || answers(port));
    if (child.exitCode !== null) {
      throw new AppError("DEPENDENCY_MISSING", { message: "redis-server did not start." });
    }
  } catch (error) {
    await killProgram(child);
    throw error;
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    hang: () => void child.kill("SIGSTOP"),
    resume: () => void child.kill("SIGCONT"),
    kill: () => killProgram(child),
    [Symbol.asyncDispose]: () => killProgram(child),
  };
}
