import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@turnpike/base";
import { acceptsConnections, eventually, killProgram } from "@turnpike/testkit";

/** Daemons are not in everybody's `PATH`. */
const PROGRAM = ["nginx", "/usr/sbin/nginx"].find((path) => spawnSync(path, ["-v"]).status === 0);

/** What a test gives as `skip`: a reason, or false when the program is there. */
export const withoutNginx: string | false = PROGRAM === undefined ? "nginx is not installed" : false;

/**
 * Starts an nginx with this text in its `http` block, and waits until it listens on these ports.
 * @throws AppError DEPENDENCY_MISSING with what nginx said
 */
export async function startNginx(http: string, ports: readonly number[]): Promise<AsyncDisposable> {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-nginx-"));
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${name};`);
  mkdirSync(join(folder, "logs"));
  const text = [
    "daemon off;",
    // No second process that could be left behind.
    "master_process off;",
    "pid nginx.pid;",
    "events { worker_connections 256; }",
    `http {\naccess_log off;\n${temporary.join("\n")}\n${http}\n}`,
  ];
  writeFileSync(join(folder, "nginx.conf"), text.join("\n"));
  const args = ["-p", folder, "-c", "nginx.conf", "-e", "stderr"];
  const child = spawn(PROGRAM ?? "nginx", args, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said = `${said}${chunk.toString()}`.slice(-2_000);
  });
  const dispose = async (): Promise<void> => {
    await killProgram(child);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    for (const port of ports) {
      await eventually(
        `nginx on port ${port}`,
        async () => child.exitCode !== null || (await acceptsConnections(port)),
      );
    }
    if (child.exitCode !== null) throw new AppError("DEPENDENCY_MISSING", { message: `nginx did not start: ${said}` });
  } catch (error) {
    await dispose();
    throw error;
  }
  return { [Symbol.asyncDispose]: dispose };
}
