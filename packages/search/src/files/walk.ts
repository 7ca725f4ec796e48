import type { Dirent } from "node:fs";
import { readdir, realpath, stat } from "node:fs/promises";
import { extname, join, sep } from "node:path";

/** File name endings that are read, and the types that stand for them. */
const FILE_TYPES: ReadonlyMap<string, string> = new Map([
  [".md", "text/markdown"],
  [".markdown", "text/markdown"],
  [".mdx", "text/mdx"],
  [".txt", "text/plain"],
  [".rst", "text/x-rst"],
  [".html", "text/html"],
  [".htm", "text/html"],
  [".xhtml", "application/xhtml+xml"],
  [".pdf", "application/pdf"],
]);

/** Bounds of {@link walkFiles}. */
export interface WalkOptions {
  /** Real path of the folder. */
  readonly root: string;
  /** True for a file, by its path from the root with `/` between names. */
  readonly wants: (path: string) => boolean;
  /** True for a folder that is not entered, by its path. */
  readonly skips: (path: string) => boolean;
  /** Most files; then the walk ends. */
  readonly maxFiles: number;
  /** Most files and folders that are looked at. */
  readonly maxEntries: number;
  /** Most folders within each other. */
  readonly maxDepth: number;
}

/** A file below the root. */
export interface WalkedFile {
  /** From the root, with `/` between names. */
  readonly path: string;
  /** Where to read it: a real path. */
  readonly file: string;
}

/**
 * Lists files below a folder in a fixed order. Links to folders are not followed, links to files only to files within
 * the root. `complete` is false when a bound or the signal ended it, or a folder could not be read.
 */
export async function walkFiles(
  opts: WalkOptions,
  signal?: AbortSignal,
): Promise<{ readonly files: readonly WalkedFile[]; readonly complete: boolean }> {
  const files: WalkedFile[] = [];
  const folders: { path: string; depth: number }[] = [{ path: "", depth: 0 }];
  let entries = 0;
  let complete = true;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    if (signal?.aborted === true) return { files, complete: false };
    const found = await readdir(join(opts.root, folder.path), { withFileTypes: true }).catch(() => undefined);
    if (found === undefined) {
      complete = false;
      continue;
    }
    found.sort(byName);
    const below: typeof folders = [];
    for (const entry of found) {
      if (++entries > opts.maxEntries) return { files, complete: false };
      const path = folder.path === "" ? entry.name : `${folder.path}/${entry.name}`;
      if (entry.isDirectory()) {
        if (opts.skips(path)) continue;
        if (folder.depth >= opts.maxDepth) complete = false;
        else below.push({ path, depth: folder.depth + 1 });
      } else if (opts.wants(path)) {
        const file = entry.isFile() ? join(opts.root, path) : await linkedFile(opts.root, path, entry);
        if (file === undefined) continue;
        if (files.length >= opts.maxFiles) return { files, complete: false };
        files.push({ path, file });
      }
    }
    folders.push(...below.reverse());
  }
  return { files, complete };
}

async function linkedFile(root: string, path: string, entry: Dirent): Promise<string | undefined> {
  if (!entry.isSymbolicLink()) return undefined;
  try {
    const target = await realpath(join(root, path));
    const inside = target.startsWith(root.endsWith(sep) ? root : root + sep);
    return inside && (await stat(target)).isFile() ? target : undefined;
  } catch {
    return undefined;
  }
}

/** Media type by a file's name; undefined when it is not one that is read. */
export function typeOfFile(path: string): string | undefined {
  return FILE_TYPES.get(extname(path).toLowerCase());
}

/** A path as the end of a URL: each name percent-encoded. */
export function encodePath(path: string): string {
  return path
    .split("/")
    .map((name) => encodeURIComponent(name.toWellFormed()))
    .join("/");
}

// Not by locale: the order must be the same everywhere.
const byName = (a: Dirent, b: Dirent): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
