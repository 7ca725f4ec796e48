import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";

const MAGIC = 0xbeefc0de;
const HEAD_BYTES = 64 * 1024;
/** Places in LMDB's `MDB_meta`, from its magic on: page size, and number of the last page. */
const PAGE_SIZE_AT = 24;
const LAST_PAGE_AT = 120;
const META_BYTES = 136;

/** Where the magic of the first of LMDB's two meta pages stands; undefined in another file. */
function magicAt(head: Buffer): number | undefined {
  for (let at = 0; at <= 64 && at + META_BYTES <= head.length; at += 4) if (head.readUInt32LE(at) === MAGIC) return at;
  return undefined;
}

interface Head {
  readonly bytes: Buffer;
  /** Place of the first magic. */
  readonly first: number;
  readonly pageBytes: number;
}

async function readHead(handle: FileHandle): Promise<Head | undefined> {
  const length = HEAD_BYTES + META_BYTES;
  const { bytesRead, buffer } = await handle.read(Buffer.alloc(length), 0, length, 0);
  const bytes = buffer.subarray(0, bytesRead);
  const first = magicAt(bytes);
  if (first === undefined) return undefined;
  const pageBytes = bytes.readUInt32LE(first + PAGE_SIZE_AT);
  return pageBytes < 256 || pageBytes > 65_536 ? undefined : { bytes, first, pageBytes };
}

/** Whether a file begins as LMDB's do; its library does not survive opening another. */
export async function isLmdbFile(file: string): Promise<boolean> {
  await using handle = await open(file, "r");
  return (await readHead(handle)) !== undefined;
}

/**
 * Makes a file as long as its meta pages say that it is, with zeros. LMDB maps the file and would be killed by the
 * system (SIGBUS) on a page behind its end; a page of zeros is an error that can be reported. A whole file may be a
 * little shorter too, when its last pages are free. Nothing happens to a file that is not LMDB's.
 */
export async function padFile(file: string): Promise<void> {
  await using handle = await open(file, "r+");
  const { size } = await handle.stat();
  const found = await readHead(handle);
  if (found === undefined) return;
  const { bytes: head, first, pageBytes } = found;
  let needed = 2n * BigInt(pageBytes);
  for (const at of [first, first + pageBytes]) {
    if (at + META_BYTES > head.length || head.readUInt32LE(at) !== MAGIC) continue;
    const bytes = (head.readBigUInt64LE(at + LAST_PAGE_AT) + 1n) * BigInt(pageBytes);
    if (bytes > needed) needed = bytes;
  }
  // A number that cannot be: the meta page is damaged, and LMDB will say so.
  if (needed > BigInt(size) && needed < BigInt(size) * 2n + 1_073_741_824n) await handle.truncate(Number(needed));
}

/**
 * Makes a file that others will map at least so long, with zeros that have their room on the disk: a hole in it would be
 * filled when it is touched, and where there is no room then, the system ends the process (SIGBUS).
 */
export async function reserveFile(file: string, sizeBytes: number): Promise<void> {
  await using handle = await open(file, constants.O_RDWR | constants.O_CREAT, 0o600);
  const { size } = await handle.stat();
  if (size < sizeBytes) await handle.write(Buffer.alloc(sizeBytes - size), 0, sizeBytes - size, size);
}
