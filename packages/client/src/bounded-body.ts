/**
 * The body of a response as it is after decompression, of at most `maxBytes`; undefined when it is larger: the rest is not
 * read. A few kilobytes of gzip may be a gigabyte.
 */
export async function readBody(response: Response, maxBytes: number): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    length += part.length;
    if (length > maxBytes) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts);
}
