import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/** Where and with what a benchmark ran. */
export interface Machine {
  readonly date: string;
  readonly cores: number;
  readonly cpu: string;
  readonly memoryGiB: number;
  readonly platform: string;
  readonly node: string;
  /** Versions of the packages and programs that take part. */
  readonly versions: Readonly<Record<string, string>>;
}

const ROOT = join(import.meta.dirname, "..", "..");

function packageVersion(name: string): string {
  try {
    const text = readFileSync(join(ROOT, "node_modules", name, "package.json"), "utf8");
    return String((JSON.parse(text) as { readonly version?: unknown }).version);
  } catch {
    return "absent";
  }
}

/** Reads the facts of this machine and the versions of `packages`, and of anvil where its path is given. */
export async function readMachine(packages: readonly string[], anvil: string | undefined): Promise<Machine> {
  const versions: Record<string, string> = {};
  for (const name of packages) versions[name] = packageVersion(name);
  if (anvil !== undefined) {
    const { stdout } = await promisify(execFile)(anvil, ["--version"]);
    versions.anvil = /\d+\.\d+\.\d+\S*/.exec(stdout)?.[0] ?? "unknown";
  }
  return {
    date: new Date().toISOString(),
    cores: availableParallelism(),
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
    versions,
  };
}
