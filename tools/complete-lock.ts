import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./sources.ts";

/** One package of a lock file (version 3), as far as this tool reads it. */
export interface LockEntry {
  version?: string;
  integrity?: string;
  link?: boolean;
  optional?: boolean;
  dev?: boolean;
  os?: string | readonly string[];
  cpu?: string | readonly string[];
  libc?: readonly string[];
  optionalDependencies?: Readonly<Record<string, string>>;
  [key: string]: unknown;
}

/** A lock file. */
export interface Lock {
  packages: Record<string, LockEntry>;
  [key: string]: unknown;
}

const HASH = /^sha512-[A-Za-z0-9+/]{86}==$/;

const SYSTEMS: Readonly<Record<string, string>> = {
  aix: "aix",
  android: "android",
  darwin: "darwin",
  macos: "darwin",
  freebsd: "freebsd",
  linux: "linux",
  netbsd: "netbsd",
  openbsd: "openbsd",
  openharmony: "openharmony",
  sunos: "sunos",
  win32: "win32",
  windows: "win32",
};

const PROCESSORS: Readonly<Record<string, string>> = {
  aarch64: "arm64",
  amd64: "x64",
  arm: "arm",
  armv7: "arm",
  arm64: "arm64",
  ia32: "ia32",
  loong64: "loong64",
  mips64el: "mips64el",
  ppc64: "ppc64",
  riscv64: "riscv64",
  s390x: "s390x",
  x64: "x64",
};

/** Where a package that `from` asks for stands in the lock: in its own folder, or in one above. */
export function resolveEntry(
  packages: Readonly<Record<string, LockEntry>>,
  from: string,
  name: string,
): string | undefined {
  let folder = from;
  for (;;) {
    const path = `${folder === "" ? "" : `${folder}/`}node_modules/${name}`;
    if (packages[path] !== undefined) return path;
    if (folder === "") return undefined;
    const above = folder.lastIndexOf("/node_modules/");
    folder = above < 0 ? "" : folder.slice(0, above);
  }
}

/** Platform of a package by its name, as `os`, `cpu` and `libc` of a lock entry; undefined when the name does not say. */
export function platformOf(
  name: string,
  siblings: readonly string[],
): Pick<LockEntry, "os" | "cpu" | "libc"> | undefined {
  const words = name.slice(name.indexOf("/") + 1).split("-");
  const os = words.map((word) => SYSTEMS[word]).find((word) => word !== undefined);
  const cpu = words.map((word) => PROCESSORS[word]).find((word) => word !== undefined);
  if (os === undefined || cpu === undefined) return undefined;
  if (os !== "linux") return { os: [os], cpu: [cpu] };
  // Not `musleabihf` and `gnueabihf`: packages of these names declare no library.
  if (words.includes("musl")) return { os: [os], cpu: [cpu], libc: ["musl"] };
  const twoLibraries = words.includes("gnu") || siblings.includes(`${name}-musl`);
  return { os: [os], cpu: [cpu], ...(twoLibraries ? { libc: ["glibc"] } : {}) };
}

/** Optional packages that something in the lock asks for and that have no entry. */
export function missingEntries(lock: Lock): { name: string; entry: LockEntry }[] {
  const missing = new Map<string, LockEntry>();
  for (const [path, entry] of Object.entries(lock.packages)) {
    const wanted = entry.optionalDependencies ?? {};
    const names = Object.keys(wanted);
    for (const name of names) {
      if (resolveEntry(lock.packages, path, name) !== undefined) continue;
      const version = (wanted[name] ?? "").replace(/^[\^~>=v\s]+/, "");
      if (!/^\d+\.\d+\.\d+[\w.+-]*$/.test(version)) {
        throw new TypeError(`${name}: no version can be read from ${JSON.stringify(wanted[name])}`);
      }
      const platform = platformOf(name, names);
      if (platform === undefined) throw new TypeError(`${name}: its name does not say its platform; run npm install`);
      const { os, cpu, libc } = platform;
      missing.set(name, {
        version,
        ...(cpu === undefined ? {} : { cpu }),
        ...(entry.dev === true ? { dev: true } : {}),
        ...(libc === undefined ? {} : { libc }),
        optional: true,
        ...(os === undefined ? {} : { os }),
      });
    }
  }
  return [...missing].map(([name, entry]) => ({ name, entry }));
}

/**
 * Adds an entry for every optional package of another platform that npm has left out because the registry in use does
 * not serve it. Without them `npm ci` refuses the lock. Returns the names that were added.
 */
export function completeLock(lock: Lock): string[] {
  const missing = missingEntries(lock);
  for (const { name, entry } of missing) lock.packages[`node_modules/${name}`] = entry;
  const byPath = ([a]: [string, unknown], [b]: [string, unknown]): number => (a < b ? -1 : 1);
  lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(byPath));
  return missing.map(({ name }) => name).sort();
}

/** Paths of packages that npm would install without comparing a hash. */
export function withoutIntegrity(lock: Lock): string[] {
  return Object.entries(lock.packages)
    .filter(
      ([path, { link, integrity = "" }]) => path.includes("node_modules/") && link !== true && !HASH.test(integrity),
    )
    .map(([path]) => path);
}

/** Adds the hashes that are missing and that `integrityOf` knows; gives the packages that are left without. */
export function completeHashes(lock: Lock, integrityOf: (spec: string) => string): string[] {
  for (const path of withoutIntegrity(lock)) {
    const { version = "", integrity: _, ...rest } = lock.packages[path] ?? {};
    const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
    const integrity = integrityOf(`${name}@${version}`);
    // Behind the version, where npm writes it.
    if (HASH.test(integrity)) lock.packages[path] = { version, integrity, ...rest };
  }
  return withoutIntegrity(lock);
}

function askRegistry(spec: string): string {
  return spawnSync("npm", ["view", spec, "dist.integrity"], { encoding: "utf8" }).stdout.trim();
}

if (import.meta.main) {
  const file = join(ROOT, "package-lock.json");
  const before = readFileSync(file, "utf8");
  const lock = JSON.parse(before) as Lock;
  const added = completeLock(lock);
  const bare = completeHashes(lock, askRegistry);
  const text = `${JSON.stringify(lock, null, 2)}\n`;
  if (text !== before) writeFileSync(file, text);
  process.stdout.write(`package-lock.json: ${added.length} added${added.map((name) => `\n  ${name}`).join("")}\n`);
  if (bare.length > 0) {
    process.stderr.write(
      `The registry knows no hash of these; choose versions that it serves for every platform:${bare.map((path) => `\n  ${path}`).join("")}\n`,
    );
    process.exitCode = 1;
  }
}
