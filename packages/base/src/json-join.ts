const OPEN = 0x5b;
const COMMA = 0x2c;
const CLOSE = 0x5d;

/**
 * A JSON array of values, given as bytes. Values that stand one after another in the same bytes, with a comma between
 * them, are copied as one: a batch that is passed on as it came costs one copy, however many calls it has.
 */
export function joinJsonArray(values: readonly Uint8Array[]): Buffer {
  // The brackets, and the commas between.
  let size = Math.max(2, values.length + 1);
  for (const value of values) size += value.length;
  const joined = Buffer.allocUnsafe(size);
  joined[0] = OPEN;
  let to = 1;
  for (let at = 0; at < values.length; ) {
    const first = values[at];
    if (first === undefined) break;
    if (at > 0) joined[to++] = COMMA;
    const whole = new Uint8Array(first.buffer);
    let end = first.byteOffset + first.length;
    let next = values[++at];
    while (next?.buffer === first.buffer && next.byteOffset === end + 1 && whole[end] === COMMA) {
      end += 1 + next.length;
      next = values[++at];
    }
    joined.set(whole.subarray(first.byteOffset, end), to);
    to += end - first.byteOffset;
  }
  joined[to] = CLOSE;
  return joined;
}
