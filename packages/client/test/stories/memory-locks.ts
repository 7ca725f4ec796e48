import { type Inode, mountedDisk } from "./memory-disk.ts";
import { processScopes } from "./simulated-process.ts";

/** SQLite's code for a database that another one has locked. */
const BUSY = 5;

/** The lock of a file that the client's journal takes by way of SQLite; it ends with its process. */
export class DatabaseSync {
  readonly #inode: Inode;
  #holdsLock = false;

  constructor(path: string) {
    this.#inode = mountedDisk().inodeOf(path) ?? mountedDisk().create(path, false, 0o644);
  }

  exec(): void {
    this.#holdsLock = mountedDisk().lock(this.#inode, processScopes.getStore()?.process);
    if (!this.#holdsLock) throw Object.assign(new Error("database is locked"), { errcode: BUSY });
  }

  close(): void {
    if (this.#holdsLock) mountedDisk().unlock(this.#inode);
    this.#holdsLock = false;
  }
}
