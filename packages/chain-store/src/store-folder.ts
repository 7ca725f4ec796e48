import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { AppError, isAppError } from "@turnpike/base";
import { lockFolder } from "./folder-lock.ts";
import { isLmdbFile, padFile, reserveFile } from "./pad-file.ts";
import { checkPages } from "./page-check.ts";
import { refusedStore, storeError } from "./store-errors.ts";
import { Tables } from "./tables.ts";

/** What the store's file says of itself; another number when older programs cannot read it. */
const STAMP = Buffer.from("turnpike chain store 2\n");
/** Of stores whose results of transactions are protobuf, all of which is still read. What is written next is not for older programs. */
const OLDER_STAMP = Buffer.from("turnpike chain store 1\n");
const STAMP_KEY = Buffer.from("stamp");
/** Name of the store's file in its folder. */
export const STORE_FILE = "chain.mdb";
const FILE = STORE_FILE;
const DRAFT = "chain-new.mdb";
const LOCK = "lock";
const OURS = new Set([FILE, `${FILE}-lock`, DRAFT, `${DRAFT}-lock`, LOCK]);

/** The open file of a store, and the lock of its folder. */
export interface OpenFolder extends AsyncDisposable {
  readonly tables: Tables;
}

/** What of a store's file is read and compared before it is opened: all of it, what makes the newest state, or nothing. */
export type StoreCheck = "whole" | "state" | "none";

interface FolderOptions {
  readonly folder: string;
  readonly mapSizeBytes: number;
  /** Undefined: the whole file up to {@link WHOLE_BYTES}, the state of a larger one. */
  readonly check?: StoreCheck | undefined;
}

/** Longest file that is read whole whenever it is opened: it takes some 3 s. */
const WHOLE_BYTES = 1_073_741_824;
/** Tables that grow with the number of blocks. What is read of them is compared with its sum then. */
const GROWING = new Set(["records", "replaced", "changed"]);
/** LMDB's table of readers, which it maps: 8,272 bytes with the readers that it has by default. */
const READERS_BYTES = 12_288;

/** Makes an empty store beside, and moves it to its place: a crash leaves none or a whole one. */
async function create({ folder, mapSizeBytes }: FolderOptions): Promise<void> {
  const draft = join(folder, DRAFT);
  await rm(draft, { force: true });
  await rm(`${draft}-lock`, { force: true });
  await reserveFile(`${draft}-lock`, READERS_BYTES);
  const tables = new Tables({ file: draft, mapSizeBytes, create: true });
  try {
    tables.write(() => tables.meta.put(STAMP_KEY, STAMP));
  } finally {
    await tables.close();
  }
  await rm(`${draft}-lock`, { force: true });
  await rename(draft, join(folder, FILE));
  await using handle = await open(folder, "r");
  await handle.sync();
}

function openTables({ folder, mapSizeBytes }: FolderOptions): Tables {
  try {
    return new Tables({ file: join(folder, FILE), mapSizeBytes, create: false });
  } catch (cause) {
    const error = storeError(folder, cause);
    if (error.code !== "CHAIN_STORE") throw error;
    const why = cause instanceof Error ? cause.message : "unknown";
    throw refusedStore(folder, `${FILE} cannot be opened (${why}): it is another program's, or damaged`, cause);
  }
}

async function checkFile({ folder, check }: FolderOptions, sizeBytes: number): Promise<void> {
  const how = check ?? (sizeBytes <= WHOLE_BYTES ? "whole" : "state");
  if (how === "none") return;
  try {
    await checkPages({ file: join(folder, FILE), isChecked: (table) => how === "whole" || !GROWING.has(table) });
  } catch (cause) {
    if (!isAppError(cause, "CHAIN_STORE_DAMAGED")) throw cause;
    throw new AppError("CHAIN_STORE_DAMAGED", {
      message: `The chain's store in ${folder} is damaged: ${cause.message.replace(/^.*?: /, "")} Nothing of it was changed.`,
      cause,
    });
  }
}

function checkStamp(folder: string, tables: Tables): void {
  let stamp: Buffer | undefined;
  try {
    stamp = tables.meta.get(STAMP_KEY);
  } catch (error) {
    if (!isAppError(error, "CHAIN_STORE_DAMAGED")) throw error;
  }
  if (stamp === undefined) throw refusedStore(folder, `${FILE} is another program's`);
  if (stamp.equals(OLDER_STAMP)) {
    tables.write(() => tables.meta.put(STAMP_KEY, STAMP));
  } else if (!stamp.equals(STAMP)) {
    throw refusedStore(folder, `${FILE} has a format that this version does not know ("${stamp.toString().trim()}")`);
  }
}

/** Opens a folder's store; makes it where there is none. */
export async function openFolder(opts: FolderOptions): Promise<OpenFolder> {
  const { folder } = opts;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const names = await readdir(folder);
  const foreign = names.find((name) => !OURS.has(name) && !name.startsWith(`${LOCK}-`));
  if (!names.includes(FILE) && foreign !== undefined) {
    throw refusedStore(folder, `it has no ${FILE} but other files, as "${foreign}"`);
  }
  await using owned = new AsyncDisposableStack();
  owned.use(await lockFolder(folder, join(folder, LOCK)));
  const made = await stat(join(folder, FILE)).catch(() => undefined);
  if (made === undefined) await create(opts);
  else if (!(await isLmdbFile(join(folder, FILE)))) {
    throw refusedStore(
      folder,
      made.size === 0
        ? `${FILE} is empty: restore it from a copy, or remove the folder to begin again`
        : `${FILE} is another program's, or its beginning is damaged`,
    );
  } else {
    await checkFile(opts, made.size);
    await padFile(join(folder, FILE));
  }
  // A page of it that finds no room when LMDB first touches it would end the process.
  await reserveFile(join(folder, `${FILE}-lock`), READERS_BYTES);
  const tables = openTables(opts);
  owned.defer(() => tables.close());
  checkStamp(folder, tables);
  const kept = owned.move();
  return { tables, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}
