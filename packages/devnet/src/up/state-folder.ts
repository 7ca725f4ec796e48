import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, rename, rm, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { AppError, isRecord, readPidFile, writeAtomically, writePidFile } from "@turnpike/base";
import type { ProfileName } from "@turnpike/chain";
import { anvilUrlOf, endLeftoverPostgres, endNamedProcess, saveChainState } from "@turnpike/localnet";
import type { StateLayout } from "./state-layout.ts";

/** Format of the state folder; another number means that this version cannot read it. */
const FORMAT = 2;

/** What a state folder says of itself. */
export interface StateStamp {
  readonly format: number;
  /** Names this state: a database that is shared has one schema for each. */
  readonly id: string;
  /** Of the relay protocol's chain. */
  readonly profile: ProfileName;
  /** What the stakes on the chain name. */
  readonly supplierUrls: readonly string[];
  /** True once everything answered: from then on chain and ledger belong together. */
  readonly started: boolean;
}

/** Removes the folder, and those above it that were made with it, while they are empty. */
async function removeEmpty(folder: string, first: string): Promise<void> {
  for (let at = folder; at.startsWith(first); at = dirname(at)) {
    try {
      await rmdir(at);
    } catch {
      return;
    }
  }
}

/**
 * Takes the folder for this process until the lock is released. A folder that is made for it and is still empty then goes too.
 * @throws AppError ALREADY_RUNNING when another `up` that is alive has it.
 */
export async function lockFolder(layout: StateLayout): Promise<AsyncDisposable> {
  let made: string | undefined;
  for (let attempt = 1; ; attempt++) {
    made = (await mkdir(layout.folder, { recursive: true })) ?? made;
    try {
      await writePidFile(layout.lockFile, process.pid, "wx");
      break;
    } catch (error) {
      // another one that found its ports taken may have removed the folder just now
      if (isRecord(error) && error.code === "ENOENT" && attempt < 3) continue;
      if (!isRecord(error) || error.code !== "EEXIST" || attempt === 3) throw error;
    }
    const holder = await readPidFile(layout.lockFile);
    if (holder !== undefined) {
      throw new AppError("ALREADY_RUNNING", {
        message:
          `turnpike up is already running with ${layout.folder} (process ${holder.pid}). ` +
          `Stop it with Ctrl-C where it runs (or \`kill ${holder.pid}\`), or use another folder: --state <folder>.`,
      });
    }
    // moved before it is removed, so that of two that find the same dead lock only one takes it away
    const dead = `${layout.lockFile}.${process.pid}`;
    await rename(layout.lockFile, dead).catch(() => {});
    await rm(dead, { force: true });
  }
  return {
    async [Symbol.asyncDispose]() {
      await rm(layout.lockFile, { force: true });
      if (made !== undefined) await removeEmpty(layout.folder, made);
    },
  };
}

/**
 * Ends what a killed `up` left running in this folder: only processes that it wrote down and that are still the same.
 * The chain's state is saved first. Returns the names of those that were ended.
 */
export async function endLeftovers(layout: StateLayout): Promise<readonly string[]> {
  const ended: string[] = [];
  const files = await readdir(layout.pidFolder).catch(() => []);
  const names = files.filter((name) => name.endsWith(".json")).map((name) => name.slice(0, -".json".length));
  // children first: they use the chain and the ledger
  for (const name of names.filter((name) => name !== "anvil")) {
    if ((await endNamedProcess(layout.pidFile(name), "SIGTERM", 10_000)) === "ended") ended.push(name);
  }
  const anvil = await readPidFile(layout.pidFile("anvil"));
  if (anvil !== undefined) {
    const url = await anvilUrlOf(anvil.pid);
    if (url !== undefined) await saveChainState(url, layout.evmStateFile).catch(() => {});
    if ((await endNamedProcess(layout.pidFile("anvil"), "SIGINT", 10_000)) === "ended") ended.push("anvil");
  }
  if ((await endLeftoverPostgres(layout.postgresFolder)) === "ended") ended.push("postgres");
  return ended;
}

async function contentsOf(layout: StateLayout): Promise<readonly string[]> {
  const lock = basename(layout.lockFile);
  return (await readdir(layout.folder)).filter((name) => name !== lock);
}

/**
 * Removes everything in the folder but the lock.
 * @throws AppError DATA_FOLDER when the folder holds files that `up` never made.
 */
export async function clearFolder(layout: StateLayout): Promise<void> {
  const names = await contentsOf(layout);
  const ours = existsSync(layout.versionFile);
  if (names.length > 0 && !ours && basename(layout.folder) !== ".turnpike") {
    throw new AppError("DATA_FOLDER", {
      message: `${layout.folder} is not a folder of turnpike up, and --fresh would remove all that is in it. Remove it by hand, or name another: --state <folder>.`,
    });
  }
  for (const name of names) await rm(join(layout.folder, name), { recursive: true, force: true });
}

async function readStamp(layout: StateLayout): Promise<StateStamp | undefined> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(layout.versionFile, "utf8"));
  } catch {
    return undefined;
  }
  if (!isRecord(value) || typeof value.format !== "number" || typeof value.id !== "string") return undefined;
  const { profile, supplierUrls } = value;
  return {
    format: value.format,
    id: value.id,
    started: value.started === true,
    profile: profile === "slow" ? "slow" : "fast",
    supplierUrls: Array.isArray(supplierUrls) ? supplierUrls.map(String) : [],
  };
}

/** Notes that everything of this folder has answered once. */
export async function markStarted(layout: StateLayout, stamp: StateStamp): Promise<void> {
  if (!stamp.started) await writeAtomically(layout.versionFile, `${JSON.stringify({ ...stamp, started: true })}\n`);
}

/** What the chain of a new folder is made of, and what that of an old one must be. */
export interface StateWish {
  /** Undefined: that of the folder. */
  readonly profile: ProfileName | undefined;
  readonly supplierUrls: readonly string[];
}

/** What is written in a chain's genesis cannot be changed by an option. */
function refuseOther(layout: StateLayout, stamp: StateStamp, wish: StateWish, fix: string): void {
  if (wish.profile !== undefined && wish.profile !== stamp.profile) {
    throw new AppError("DATA_FOLDER", {
      message: `The chain in ${layout.folder} has the profile ${stamp.profile}, not ${wish.profile}. ${fix}`,
    });
  }
  if (wish.supplierUrls.join() !== stamp.supplierUrls.join()) {
    throw new AppError("DATA_FOLDER", {
      message: `The suppliers of the chain in ${layout.folder} are staked at ${stamp.supplierUrls.join(", ")}: start with those ports. ${fix}`,
    });
  }
}

/**
 * Checks the folder's stamp, or stamps a new folder. `ownLedger`: the ledger's database is in the folder.
 * @throws AppError DATA_FOLDER for a folder of another version, or one that lacks a part that belongs to the others.
 */
export async function openFolder(layout: StateLayout, wish: StateWish, ownLedger: boolean): Promise<StateStamp> {
  const names = await contentsOf(layout);
  const fix = "Start over with `npm start -- --fresh` (the local chain and ledger are lost), or move the folder away.";
  let stamp = await readStamp(layout);
  if (stamp === undefined && names.length > 0) {
    throw new AppError("DATA_FOLDER", { message: `${layout.folder} was not made by this version. ${fix}` });
  }
  if (stamp !== undefined && stamp.format !== FORMAT) {
    throw new AppError("DATA_FOLDER", {
      message: `${layout.folder} is of format ${stamp.format}; this version has format ${FORMAT}. ${fix}`,
    });
  }
  if (stamp !== undefined) refuseOther(layout, stamp, wish, fix);
  if (stamp?.started === true) {
    const needed = [layout.evmStateFile, layout.keysFile];
    if (ownLedger) needed.push(join(layout.postgresFolder, "PG_VERSION"));
    for (const file of needed) {
      if (existsSync(file)) continue;
      throw new AppError("DATA_FOLDER", { message: `${file} is gone, and the rest of the folder needs it. ${fix}` });
    }
  }
  if (stamp === undefined) {
    const { profile = "fast", supplierUrls } = wish;
    stamp = { format: FORMAT, id: randomBytes(6).toString("hex"), started: false, profile, supplierUrls };
    await writeAtomically(layout.versionFile, `${JSON.stringify(stamp)}\n`);
  }
  for (const folder of [layout.logFolder, layout.configFolder, layout.pidFolder, layout.evmCacheFolder]) {
    await mkdir(folder, { recursive: true });
  }
  // It holds keys. Root's PostgreSQL, which runs as another account, must pass through to its own folder.
  await chmod(layout.folder, process.getuid?.() === 0 ? 0o711 : 0o700);
  await chmod(layout.configFolder, 0o700);
  return stamp;
}
