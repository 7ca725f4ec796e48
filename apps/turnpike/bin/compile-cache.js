// Plain JavaScript, like the command itself: TypeScript would be compiled before there is a place for it.
import { lstatSync, mkdirSync, statSync } from "node:fs";
import module from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const WRITABLE_BY_ALL = 0o002;
const WRITABLE_BY_OTHERS = 0o022;

/**
 * The folder below a `node_modules` in which Node may keep compiled sources, made where it is missing. Undefined where
 * another user owns it or could write in it, or could replace it (all may write in its parent): Node runs what it finds.
 */
export function cacheFolderIn(modulesFolder) {
  const parent = join(modulesFolder, ".cache");
  const folder = join(parent, "turnpike");
  const uid = process.getuid === undefined ? undefined : process.getuid();
  const isOurs = (path, forbiddenMode) => {
    const found = lstatSync(path);
    return found.isDirectory() && (uid === undefined || (found.uid === uid && (found.mode & forbiddenMode) === 0));
  };
  try {
    // Root leaves nothing in the folders of others, which they could neither use nor take away.
    if (uid !== undefined && statSync(modulesFolder).uid !== uid) return undefined;
    mkdirSync(parent, { recursive: true });
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return isOurs(parent, WRITABLE_BY_ALL) && isOurs(folder, WRITABLE_BY_OTHERS) ? folder : undefined;
  } catch {
    // read-only, or not ours to write
    return undefined;
  }
}

/**
 * Lets Node keep what it makes of the sources in `node_modules/.cache/turnpike` of the repository, so that the next start
 * need not make it again; child processes use it too. NODE_COMPILE_CACHE and NODE_DISABLE_COMPILE_CACHE keep their
 * meaning. A service calls `flushCompileCache` when it is ready: a process that a signal ends writes nothing by itself.
 */
export function useCompileCache() {
  if (module.getCompileCacheDir() !== undefined || process.env.NODE_DISABLE_COMPILE_CACHE !== undefined) return;
  const folder = cacheFolderIn(join(dirname(fileURLToPath(import.meta.url)), "../../../node_modules"));
  if (folder === undefined) return;
  const { status } = module.enableCompileCache(folder);
  if (status === module.constants.compileCacheStatus.ENABLED) process.env.NODE_COMPILE_CACHE = folder;
}
