import { open } from "node:fs/promises";

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

/**
 * Makes a file as long as its meta pages say that it is, with zeros. LMDB maps the file and would be killed by the
 * system (SIGBUS) on a page behind its end; a page of zeros is an error that can be reported. A whole file may be a
 * little shorter too, when its last pages are free.
 * @returns false when it is no file of LMDB, which its library does not survive opening.
 */
export async function padFile(file: string): Promise<boolean> {
  await using handle = await open(file, "r+");
  const { size } = await handle.stat();
  const { bytesRead, buffer } = await handle.read(Buffer.alloc(HEAD_BYTES + META_BYTES), 0, HEAD_BYTES + META_BYTES, 0);
  const head = buffer.subarray(0, bytesRead);
  const first = magicAt(head);
  if (first === undefined) return false;
  const pageBytes = head.readUInt32LE(first + PAGE_SIZE_AT);
  if (pageBytes < 256 || pageBytes > 65_536) return false;
  let needed = 2n * BigInt(pageBytes);
  for (const at of [first, first + pageBytes]) {
    if (at + META_BYTES > head.length || head.readUInt32LE(at) !== MAGIC) continue;
    const bytes = (head.readBigUInt64LE(at + LAST_PAGE_AT) + 1n) * BigInt(pageBytes);
    if (bytes > needed) needed = bytes;
  }
  // A number that cannot be: the meta page is damaged, and LMDB will say so.
  if (needed > BigInt(size) && needed < BigInt(size) * 2n + 1_073_741_824n) await handle.truncate(Number(needed));
  return true;
}
