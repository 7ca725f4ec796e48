import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { isAppError } from "@turnpike/base";
import { lockFolder } from "./folder-lock.ts";
import { padFile } from "./pad-file.ts";
import { refusedStore, storeError } from "./store-errors.ts";
import { Tables } from "./tables.ts";

/** What the store's file says of itself; another number when older programs cannot read it. */
const STAMP = Buffer.from("turnpike chain store 1\n");
const STAMP_KEY = Buffer.from("stamp");
const FILE = "chain.mdb";
const DRAFT = "chain-new.mdb";
const LOCK = "lock";
const OURS = new Set([FILE, `${FILE}-lock`, DRAFT, `${DRAFT}-lock`, LOCK]);

/** The open file of a store, and the lock of its folder. */
export interface OpenFolder extends AsyncDisposable {
  readonly tables: Tables;
}

interface FolderOptions {
  readonly folder: string;
  readonly mapSizeBytes: number;
}

/** Makes an empty store beside, and moves it to its place: a crash leaves none or a whole one. */
async function create({ folder, mapSizeBytes }: FolderOptions): Promise<void> {
  const draft = join(folder, DRAFT);
  await rm(draft, { force: true });
  await rm(`${draft}-lock`, { force: true });
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

function checkStamp(folder: string, tables: Tables): void {
  let stamp: Buffer | undefined;
  try {
    stamp = tables.meta.get(STAMP_KEY);
  } catch (error) {
    if (!isAppError(error, "CHAIN_STORE_DAMAGED")) throw error;
  }
  if (stamp === undefined) throw refusedStore(folder, `${FILE} is another program's`);
  if (!stamp.equals(STAMP)) {
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
  else if (!(await padFile(join(folder, FILE)))) {
    throw refusedStore(folder, `${FILE} is another program's, or its beginning is damaged`);
  }
  const tables = openTables(opts);
  owned.defer(() => tables.close());
  checkStamp(folder, tables);
  const kept = owned.move();
  return { tables, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}
