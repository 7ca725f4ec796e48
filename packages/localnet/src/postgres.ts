import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, closeSync, existsSync, openSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { AppError, isAlive } from "@turnpike/base";
import pg from "pg";
import { freePort } from "./ports.ts";
import { findPostgres, type PostgresPrograms, postgresUser, type RunAs, runAs } from "./postgres-programs.ts";
import { type ChildExit, childExit, endChild, endProcess, endWithParent, isProgram } from "./processes.ts";

export interface PostgresOptions {
  /** Made when it is not there; by default a temporary folder that is removed at the end. */
  readonly dataDir?: string;
  /** Loopback port; 0 (the default) takes a free one. */
  readonly port?: number;
  /** Where its output is appended; `<dataDir>.log` by default. */
  readonly logFile?: string;
  /** False gives up crash safety for speed; true by default when there is a data folder. */
  readonly durable?: boolean;
  /** Connections that it takes at once; 200 by default. */
  readonly maxConnections?: number;
  /** Most milliseconds until it answers; 30,000 by default. */
  readonly startTimeoutMs?: number;
}

/** A running PostgreSQL server on loopback. */
export interface LocalPostgres extends AsyncDisposable {
  /** `postgres://…` of the database `postgres`, with its password. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Resolves when the server has ended, wanted or not. */
  readonly exited: Promise<ChildExit>;
  /** Makes a database when it is not there; gives its URL. The name must be a plain identifier. */
  createDatabase(name: string): Promise<string>;
  /** Ends it by force, as a crash would. */
  kill(): Promise<void>;
}

const SUPERUSER = "postgres";
const PASSWORD_FILE = "turnpike-password";
/** Beyond what the kernel gives out by default (pid_max 4,194,304 at most). */
const NO_PID = 4_194_303;
const IDENTIFIER = /^[a-z_][a-z0-9_]{0,62}$/;

/**
 * Starts PostgreSQL on loopback, making its data folder first when there is none. A server that an ended parent left
 * running on the same folder is ended first. The password is random and stays in the data folder, mode 600.
 */
export async function startPostgres(options: PostgresOptions = {}): Promise<LocalPostgres> {
  const programs = findPostgres();
  const user = await postgresUser();
  const temporary = options.dataDir === undefined ? await mkdtemp(join(tmpdir(), "turnpike-postgres-")) : undefined;
  // the server's user must be able to enter it
  if (temporary !== undefined) await chmod(temporary, 0o711);
  const dataDir = resolve(options.dataDir ?? join(temporary ?? tmpdir(), "data"));
  const logFile = options.logFile ?? `${dataDir}.log`;
  const removeOwn = async (): Promise<void> => {
    if (temporary !== undefined) await rm(temporary, { recursive: true, force: true });
  };
  try {
    const durable = options.durable ?? temporary === undefined;
    const as = await runAs(user, [dataDir, programs.postgres]);
    await endLeftoverPostgres(dataDir);
    const password = await initialise(programs, as, dataDir, durable);
    const server = await launch({ programs, as, dataDir, logFile, durable, password, options });
    return { ...server, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]().then(removeOwn) };
  } catch (error) {
    await removeOwn();
    throw error;
  }
}

/** Ends the server that runs on this data folder, if one does. A pid that is another program's by now is left alone. */
export async function endLeftoverPostgres(dataDir: string): Promise<"none" | "ended"> {
  const pidFile = join(resolve(dataDir), "postmaster.pid");
  let text: string;
  try {
    text = await readFile(pidFile, "utf8");
  } catch {
    return "none";
  }
  const pid = Number(text.split("\n")[0]);
  if (!Number.isSafeInteger(pid) || pid < 2 || !isAlive(pid)) return "none";
  if (await isProgram(pid, "postgres", resolve(dataDir))) {
    await endProcess(pid, "SIGINT", 15_000);
    return "ended";
  }
  // The server would refuse to start while this pid is alive, whichever process it is. The file stays, with a pid that no process
  // has: its other lines show the server whether processes of a killed one still use the folder.
  if (!isAlive(NO_PID)) await writeFile(pidFile, text.replace(/^\d+/, String(NO_PID)));
  return "none";
}

async function initialise(programs: PostgresPrograms, as: RunAs, dataDir: string, durable: boolean): Promise<string> {
  const passwordFile = join(dataDir, PASSWORD_FILE);
  // written last: a folder without it was left by an initialisation that did not finish
  if (existsSync(passwordFile)) return (await readFile(passwordFile, "utf8")).trim();
  if (existsSync(join(dataDir, "PG_VERSION"))) await rm(dataDir, { recursive: true, force: true });
  await mkdir(dataDir, { recursive: true });
  await chmod(dataDir, 0o700);
  if (as.uid !== undefined && as.gid !== undefined) await chown(dataDir, as.uid, as.gid);
  const password = randomBytes(24).toString("base64url");
  const handOver = await mkdtemp(join(tmpdir(), "turnpike-pw-"));
  const handOverFile = join(handOver, "password");
  try {
    await writeFile(handOverFile, `${password}\n`, { mode: 0o600 });
    if (as.uid !== undefined && as.gid !== undefined) {
      await chown(handOver, as.uid, as.gid);
      await chown(handOverFile, as.uid, as.gid);
    }
    const args = [`--pgdata=${dataDir}`, `--username=${SUPERUSER}`, `--pwfile=${handOverFile}`];
    args.push("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C");
    args.push("--locale-provider=builtin", "--builtin-locale=C.UTF-8");
    if (!durable) args.push("--no-sync");
    await runToEnd(programs.initdb, args, as);
  } finally {
    await rm(handOver, { recursive: true, force: true });
  }
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  return password;
}

async function runToEnd(program: string, args: readonly string[], as: RunAs): Promise<void> {
  const child = spawn(as.program ?? program, as.program === undefined ? args : [...as.args, program, ...args], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { LC_ALL: "C", PATH: "/usr/bin:/bin" },
    ...as.ids,
  });
  let text = "";
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
    if (text.length < 16_384) text += chunk;
  });
  const { code } = await childExit(child);
  if (code === 0) return;
  throw new AppError("DATA_FOLDER", { message: `PostgreSQL could not make its data folder: ${text.trim()}` });
}

interface Launch {
  readonly programs: PostgresPrograms;
  readonly as: RunAs;
  readonly dataDir: string;
  readonly logFile: string;
  readonly durable: boolean;
  readonly password: string;
  readonly options: PostgresOptions;
}

/** What a server says while children of its killed predecessor are still there, and how long they may be. */
const HELD_MEMORY = "pre-existing shared memory block";
const PREDECESSOR_MS = 10_000;

async function launch(parts: Launch): Promise<LocalPostgres> {
  const port = parts.options.port ?? 0;
  const untilMs = performance.now() + PREDECESSOR_MS;
  for (let attempt = 1; ; attempt++) {
    try {
      return await launchOn(port === 0 ? await freePort() : port, parts);
    } catch (error) {
      // the children of a killed server see its end a moment later, and hold its shared memory until then
      const isHeld = error instanceof AppError && error.message.includes(HELD_MEMORY);
      if (isHeld && performance.now() < untilMs) await delay(100);
      // a free port may be taken by another program before the server has it
      else if (port !== 0 || attempt >= 3) throw error;
    }
  }
}

async function launchOn(port: number, parts: Launch): Promise<LocalPostgres> {
  const { programs, as, dataDir, logFile, password } = parts;
  const log = openSync(logFile, "a");
  chmodSync(logFile, 0o600);
  const args = [...as.args, ...(as.program === undefined ? [] : [programs.postgres])];
  args.push("-D", dataDir, "-p", String(port), ...settings(parts.durable, parts.options.maxConnections ?? 200));
  const child = spawn(as.program ?? programs.postgres, args, {
    // a file, not a pipe: a server that outlives its parent must not die of the broken pipe
    stdio: ["ignore", log, log],
    env: { LC_ALL: "C", PATH: "/usr/bin:/bin" },
    detached: true,
    ...as.ids,
  });
  closeSync(log);
  const exited = childExit(child);
  // SIGINT is the server's fast shutdown
  const release = endWithParent(child, "SIGINT");
  const stop = async (signal: NodeJS.Signals, timeoutMs: number): Promise<void> => {
    await endChild(child, signal, timeoutMs);
    release();
  };
  const urlOf = (database: string): string => `postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/${database}`;
  try {
    await untilItAnswers({ url: urlOf("postgres"), dataDir, logFile }, exited, parts.options.startTimeoutMs ?? 30_000);
  } catch (error) {
    await stop("SIGKILL", 0);
    throw error;
  }
  return {
    url: urlOf("postgres"),
    port,
    pid: child.pid ?? 0,
    exited,
    createDatabase: async (name) => {
      await createDatabase(urlOf("postgres"), name);
      return urlOf(name);
    },
    kill: () => stop("SIGKILL", 0),
    [Symbol.asyncDispose]: () => stop("SIGINT", 15_000),
  };
}

function settings(durable: boolean, maxConnections: number): string[] {
  const values = ["listen_addresses=127.0.0.1", "unix_socket_directories=", `max_connections=${maxConnections}`];
  values.push("shared_buffers=64MB", "logging_collector=off", "log_min_messages=warning", "timezone=UTC");
  if (!durable) values.push("fsync=off", "synchronous_commit=off", "full_page_writes=off");
  return values.flatMap((value) => ["-c", value]);
}

async function untilItAnswers(
  { url, dataDir, logFile }: { readonly url: string; readonly dataDir: string; readonly logFile: string },
  exited: Promise<ChildExit>,
  timeoutMs: number,
): Promise<void> {
  const until = performance.now() + timeoutMs;
  let ended = false;
  void exited.then(() => {
    ended = true;
  });
  for (;;) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
    client.on("error", () => {});
    try {
      await client.connect();
      const { rows } = await client.query<{ folder: string }>("select current_setting('data_directory') as folder");
      // Another server on this port may have the same password, as that of a copied folder.
      if (rows[0]?.folder === dataDir) return;
      throw new AppError("PORT_IN_USE");
    } catch (error) {
      if (ended || performance.now() > until) {
        const text = await readFile(logFile, "utf8").catch(() => "");
        const tail = text.trim().split("\n").slice(-5).join("\n");
        const code = tail.includes("Address already in use") ? "PORT_IN_USE" : "LEDGER_UNAVAILABLE";
        throw new AppError(code, { message: `PostgreSQL did not start: ${tail}`, cause: error });
      }
      await delay(25);
    } finally {
      await client.end().catch(() => {});
    }
  }
}

async function createDatabase(adminUrl: string, name: string): Promise<void> {
  if (!IDENTIFIER.test(name)) throw new AppError("USAGE", { message: `${name} is not a plain database name.` });
  const client = new pg.Client({ connectionString: adminUrl });
  // Heard, so that a server that ends does not end the process; the query under way fails by it.
  client.on("error", () => {});
  await client.connect();
  try {
    const found = await client.query("select 1 from pg_database where datname = $1", [name]);
    if (found.rowCount === 0) await client.query(`create database ${client.escapeIdentifier(name)}`);
  } finally {
    await client.end();
  }
}
