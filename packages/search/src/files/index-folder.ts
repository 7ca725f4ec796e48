import { realpath, stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { AppError } from "@turnpike/base";
import type { IndexReport } from "../types.ts";
import { type IndexFilesModules, indexFiles } from "./index-files.ts";
import { encodePath, typeOfFile, walkFiles } from "./walk.ts";

export interface IndexFolderOptions {
  /** The folder, or a single file. */
  readonly folder: string;
  /** Name of the source in the index; the folder's path says it best. */
  readonly collection: string;
  /** Address below which the files are published; a file's path follows it. */
  readonly baseUrl: string;
  /** Where it is remembered which files were read; undefined reads all each time. */
  readonly stateFile?: string | undefined;
  /** True for files to read, by path from the folder with `/`; by default all of a known type. */
  readonly include?: ((path: string) => boolean) | undefined;
  /** True for folders and files to leave out; by default hidden ones and `node_modules`. */
  readonly exclude?: ((path: string) => boolean) | undefined;
  /** Larger files are skipped, in bytes; 10 MiB by default. */
  readonly maxFileBytes?: number;
  /** Most files; 100,000 by default. */
  readonly maxFiles?: number;
  /** Files that are read at once; 8 by default. */
  readonly concurrency?: number;
}

/** True for what is hidden or installed: the last name of `path` decides. */
export function isHiddenPath(path: string): boolean {
  const name = basename(path);
  return name.startsWith(".") || name === "node_modules";
}

/**
 * Indexes the text files below a folder, or one file, or brings the index to what they hold now: see `indexFiles`.
 * @throws AppError SOURCE_REFUSED when there is no such folder or file of a known type, or `baseUrl` is no http or https address.
 */
export async function indexFolder(opts: IndexFolderOptions, modules: IndexFilesModules): Promise<IndexReport> {
  const base = checkedBase(opts.baseUrl);
  const { files, complete } = (await singleFile(opts.folder)) ?? (await filesBelow(opts, modules.signal));
  return indexFiles(
    files.map(({ path, file }) => ({
      path,
      file,
      url: base + encodePath(path),
      contentType: typeOfFile(path) ?? "",
      mark: "",
      dated: true,
    })),
    {
      collection: opts.collection,
      stateFile: opts.stateFile,
      maxFileBytes: opts.maxFileBytes ?? 10_485_760,
      concurrency: opts.concurrency ?? 8,
      complete,
    },
    modules,
  );
}

async function filesBelow(opts: IndexFolderOptions, signal: AbortSignal | undefined): ReturnType<typeof walkFiles> {
  const exclude = opts.exclude ?? isHiddenPath;
  const include = opts.include ?? (() => true);
  return await walkFiles(
    {
      root: await realFolder(opts.folder),
      wants: (path) => typeOfFile(path) !== undefined && !exclude(path) && include(path),
      skips: exclude,
      maxFiles: opts.maxFiles ?? 100_000,
      maxEntries: 2_000_000,
      maxDepth: 100,
    },
    signal,
  );
}

/** A file that is named itself, under its own name; undefined when it is none. */
async function singleFile(path: string): Promise<Awaited<ReturnType<typeof walkFiles>> | undefined> {
  const info = await stat(path).catch(() => undefined);
  if (info?.isFile() !== true) return undefined;
  const name = basename(resolve(path));
  if (typeOfFile(name) === undefined)
    throw new AppError("SOURCE_REFUSED", { message: `${path} is not a file of a type that is indexed.` });
  return { files: [{ path: name, file: await realpath(path) }], complete: true };
}

/** Real path of a folder. */
export async function realFolder(folder: string): Promise<string> {
  try {
    const real = await realpath(folder);
    if ((await stat(real)).isDirectory()) return real;
  } catch (cause) {
    throw new AppError("SOURCE_REFUSED", { message: `There is no folder ${folder}.`, cause });
  }
  throw new AppError("SOURCE_REFUSED", { message: `${folder} is not a folder.` });
}

/** An address to which paths are added: it ends in `/`, unless its query or fragment takes the path. */
export function checkedBase(baseUrl: string): string {
  const url = URL.parse(baseUrl);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw new AppError("SOURCE_REFUSED", { message: `${baseUrl} is not an http or https address.` });
  const { href } = url;
  return href.endsWith("/") || url.search !== "" || url.hash !== "" ? href : `${href}/`;
}
