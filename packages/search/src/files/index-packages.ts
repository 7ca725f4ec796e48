import { lstat, readdir, readFile, realpath, stat } from "node:fs/promises";
import { join, sep } from "node:path";
import { isRecord } from "@turnpike/base";
import type { IndexReport } from "../types.ts";
import { type IndexFile, type IndexFilesModules, indexFiles } from "./index-files.ts";
import { checkedBase, isHiddenPath, realFolder } from "./index-folder.ts";
import { type PackagePlace, placeOf, publishedUrl } from "./repository.ts";
import { encodePath, typeOfFile, walkFiles } from "./walk.ts";

export interface IndexPackagesOptions {
  /** A `node_modules` folder. */
  readonly nodeModules: string;
  readonly collection: string;
  /** Address for the files of packages that name neither a repository nor a homepage. */
  readonly baseUrl: string;
  /** Where it is remembered which files were read; undefined reads all each time. */
  readonly stateFile?: string | undefined;
  /** Most packages; 10,000 by default. */
  readonly maxPackages?: number;
  /** Most files of one package; 200 by default. */
  readonly maxPackageFiles?: number;
  /** Most bytes of one package, 4 MiB by default: files that would go over it are left out. */
  readonly maxPackageBytes?: number;
  /** Larger files are skipped, in bytes; 1 MiB by default. */
  readonly maxFileBytes?: number;
  /** Files that are read at once; 16 by default. */
  readonly concurrency?: number;
}

interface Package {
  /** Name of its folder, such as `@scope/name`. */
  readonly folder: string;
  readonly name: string;
  readonly version: string;
  readonly place: PackagePlace;
  /** Paths within the package, its README first. */
  readonly files: readonly string[];
}

const README = /^readme(?:[.-][\w.-]{1,32})?$/i;
const LEFT_OUT = /^(?:changelog|changes|history|releases?|license|licence)(?:\.|$)/i;
const DOCS_TYPES = new Set(["text/markdown", "text/mdx", "text/html", "application/xhtml+xml"]);
const MAX_MANIFEST_BYTES = 1_048_576;
const AT_ONCE = 16;

/**
 * Indexes the documentation that npm packages ship: README files, and Markdown and HTML of `docs` and `doc`, without
 * change logs. A document's URL is where the package says it is published. Packages within packages are left out.
 * @throws AppError SOURCE_REFUSED when there is no such folder, or `baseUrl` is no http or https address.
 */
export async function indexPackages(opts: IndexPackagesOptions, modules: IndexFilesModules): Promise<IndexReport> {
  const root = await realFolder(opts.nodeModules);
  const base = checkedBase(opts.baseUrl);
  const folders = await packageFolders(root);
  const wanted = folders.slice(0, opts.maxPackages ?? 10_000);
  const files: IndexFile[] = [];
  const taken = new Set<string>();
  for (let at = 0; at < wanted.length && modules.signal?.aborted !== true; at += AT_ONCE) {
    const found = await Promise.all(wanted.slice(at, at + AT_ONCE).map((folder) => readPackage(root, folder, opts)));
    for (const one of found) if (one !== undefined) files.push(...filesOf(root, one, base, taken));
  }
  return indexFiles(
    files,
    {
      collection: opts.collection,
      stateFile: opts.stateFile,
      maxFileBytes: opts.maxFileBytes ?? 1_048_576,
      concurrency: opts.concurrency ?? 16,
      complete: wanted.length === folders.length && modules.signal?.aborted !== true,
    },
    modules,
  );
}

/** Folders of packages below a `node_modules`, those of scopes too, in a fixed order. */
async function packageFolders(root: string): Promise<readonly string[]> {
  const folders: string[] = [];
  for (const name of (await readdir(root)).sort()) {
    if (name.startsWith(".")) continue;
    if (!name.startsWith("@")) folders.push(name);
    else
      for (const scoped of await names(join(root, name)))
        if (!scoped.startsWith(".")) folders.push(`${name}/${scoped}`);
  }
  return folders;
}

async function names(folder: string): Promise<readonly string[]> {
  return (await readdir(folder).catch((): string[] => [])).sort();
}

async function readPackage(root: string, folder: string, opts: IndexPackagesOptions): Promise<Package | undefined> {
  const path = join(root, folder);
  try {
    // A link out of the folder is a workspace's: its files are indexed where they are.
    if ((await lstat(path)).isSymbolicLink() && !(await realpath(path)).startsWith(root + sep)) return undefined;
    const real = await realpath(path);
    const manifest = await readManifest(join(real, "package.json"));
    if (manifest === undefined) return undefined;
    const { name, version } = manifest;
    const top = await names(real);
    const readmes = top.filter((file) => README.test(file) && (typeOfFile(file) !== undefined || !file.includes(".")));
    const docs: string[] = [];
    for (const sub of top.filter((entry) => entry === "docs" || entry === "doc"))
      docs.push(...(await docsBelow(real, sub, opts.maxPackageFiles ?? 200)));
    return {
      folder,
      name: typeof name === "string" && name.length <= 214 ? name : folder,
      version: typeof version === "string" && version.length <= 64 ? version : "",
      place: placeOf(manifest),
      files: await within(real, [...readmes.sort(mainFirst), ...docs], opts),
    };
  } catch {
    // Half installed, or not a package: nothing to read.
    return undefined;
  }
}

async function readManifest(file: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  if ((await stat(file)).size > MAX_MANIFEST_BYTES) return undefined;
  const manifest: unknown = JSON.parse(await readFile(file, "utf8"));
  return isRecord(manifest) ? manifest : undefined;
}

async function docsBelow(root: string, sub: string, maxFiles: number): Promise<readonly string[]> {
  const folder = join(root, sub);
  if (!(await lstat(folder)).isDirectory()) return [];
  const { files } = await walkFiles({
    root: folder,
    wants: (path) => {
      const name = path.slice(path.lastIndexOf("/") + 1);
      return DOCS_TYPES.has(typeOfFile(name) ?? "") && !LEFT_OUT.test(name) && !isHiddenPath(path);
    },
    skips: isHiddenPath,
    maxFiles,
    maxEntries: 10_000,
    maxDepth: 16,
  });
  // Links within a package are other names of files that are listed.
  return files.filter(({ path, file }) => file === join(folder, path)).map(({ path }) => `${sub}/${path}`);
}

/** The first files that fit into what one package may have. */
async function within(root: string, files: readonly string[], opts: IndexPackagesOptions): Promise<readonly string[]> {
  const kept: string[] = [];
  let bytes = 0;
  for (const file of files.slice(0, opts.maxPackageFiles ?? 200)) {
    const info = await lstat(join(root, file));
    if (!info.isFile() || bytes + info.size > (opts.maxPackageBytes ?? 4_194_304)) continue;
    bytes += info.size;
    kept.push(file);
  }
  return kept;
}

/** `README.md` before `README.txt` and translations such as `README.zh.md`. */
const mainFirst = (a: string, b: string): number => a.length - b.length || (a < b ? -1 : 1);

function filesOf(root: string, found: Package, base: string, taken: Set<string>): readonly IndexFile[] {
  const label = found.version === "" ? found.name : `${found.name} ${found.version}`;
  const [first] = found.files;
  const ours = new URL("..", base).href;
  return found.files.map((path) => {
    const readme = path === first && !path.includes("/");
    const published = publishedUrl(found.place, path, readme);
    const own = base + encodePath(`${found.folder}/${path}`);
    // An untrusted manifest must not replace a file that we serve.
    const isElsewhere = published !== undefined && !published.startsWith(ours);
    const url = unique(isElsewhere ? published : own, `${found.folder}/${path}`, own, taken);
    return {
      path: `${found.folder}/${path}`,
      file: join(root, found.folder, path),
      url,
      contentType: typeOfFile(path) ?? "text/plain",
      // Files of packages all have the same time: the version distinguishes them.
      mark: label,
      dated: false,
      titled: (title) => titleIn(found.name, label, title, readme ? undefined : path),
    };
  });
}

/** A title that says which package it is about. Pages that are headed by the package's name alone are called as their file. */
function titleIn(name: string, label: string, title: string, path: string | undefined): string {
  if (path !== undefined && title.toLowerCase() === name.toLowerCase()) {
    const file = path.slice(path.lastIndexOf("/") + 1).replace(/\.[a-z]+$/i, "");
    return `${label}: ${file.replace(/[-_]+/g, " ").trim() || title}`;
  }
  return title.toLowerCase().includes(name.toLowerCase()) ? title : `${label}: ${title}`;
}

/** Packages of one repository may give the same address: then the file's name follows it as fragment. */
function unique(url: string, path: string, own: string, taken: Set<string>): string {
  const fragment = `${url.split("#", 1)[0]}#${encodePath(path)}`;
  const free = [url, fragment, own].find((candidate) => !taken.has(candidate)) ?? `${own}#${taken.size}`;
  taken.add(free);
  return free;
}
