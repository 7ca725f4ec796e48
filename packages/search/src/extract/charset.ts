/** How the bytes of a page become text. */

const META_BYTES = 4_096;
const META = /<meta[^<>]{0,1024}?charset\s{0,8}=\s{0,8}["']?\s{0,8}([\w.:-]{1,40})/i;
const XML = /^\s{0,64}<\?xml[^<>]{0,512}?encoding\s{0,8}=\s{0,8}["']([\w.:-]{1,40})["']/i;
const PARAMETER = /;\s{0,64}charset\s{0,8}=\s{0,8}["']?\s{0,8}([\w.:-]{1,40})/i;

/**
 * Decodes a body: by its byte order mark; as UTF-16 where every other byte is NUL; as UTF-8 where it is valid UTF-8
 * that is more than ASCII, whatever the labels say, because no other encoding looks like it by chance; then by the
 * labels (`Content-Type`, XML declaration, meta tags) as far as they are known; else as windows-1252.
 */
export function decodeBody(body: Uint8Array, contentType: string | undefined): string {
  const marked = byMark(body) ?? wideWithoutMark(body);
  if (marked !== undefined) return new TextDecoder(marked).decode(body);
  const utf8 = strictUtf8(body);
  if (utf8 !== undefined && hasHighByte(body)) return utf8;
  const labelled = fromLabels(body, contentType);
  if (labelled !== undefined) return labelled;
  return utf8 ?? fallback(body);
}

/** Encoding that the first bytes name; undefined without a byte order mark. */
export function byMark(body: Uint8Array): "utf-8" | "utf-16le" | "utf-16be" | undefined {
  if (body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf) return "utf-8";
  if (body[0] === 0xff && body[1] === 0xfe) return "utf-16le";
  if (body[0] === 0xfe && body[1] === 0xff) return "utf-16be";
  return undefined;
}

/** UTF-16 without a mark: of its first bytes nearly every second one is NUL, and hardly any other. */
export function wideWithoutMark(body: Uint8Array): "utf-16le" | "utf-16be" | undefined {
  const length = Math.min(body.length, 2_048) & ~1;
  if (length < 8) return undefined;
  let even = 0;
  let odd = 0;
  for (let i = 0; i < length; i += 2) {
    if (body[i] === 0) even++;
    if (body[i + 1] === 0) odd++;
  }
  const pairs = length / 2;
  if (odd > pairs * 0.7 && even < pairs * 0.1) return "utf-16le";
  if (even > pairs * 0.7 && odd < pairs * 0.1) return "utf-16be";
  return undefined;
}

function fromLabels(body: Uint8Array, contentType: string | undefined): string | undefined {
  const head = Buffer.from(body.buffer, body.byteOffset, Math.min(body.length, META_BYTES)).toString("latin1");
  for (const label of [PARAMETER.exec(contentType ?? "")?.[1], XML.exec(head)?.[1], META.exec(head)?.[1]]) {
    const decoder = label === undefined ? undefined : decoderOf(label);
    if (decoder === undefined) continue;
    // A label that could be read is not UTF-16; and UTF-8 it is not where it is no valid UTF-8.
    if (decoder.encoding.startsWith("utf-16")) continue;
    if (decoder.encoding === "utf-8") return strictUtf8(body) ?? fallback(body);
    return decoder.decode(body);
  }
  return undefined;
}

function decoderOf(label: string): TextDecoder | undefined {
  try {
    return new TextDecoder(label);
  } catch {
    return undefined;
  }
}

function strictUtf8(body: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch {
    return undefined;
  }
}

/** A few broken sequences in much good UTF-8 are damage; many of them are another encoding. */
function fallback(body: Uint8Array): string {
  const loose = new TextDecoder("utf-8").decode(body);
  let broken = 0;
  let good = 0;
  for (let i = 0; i < loose.length; i++) {
    const code = loose.charCodeAt(i);
    if (code === 0xfffd) broken++;
    else if (code > 0x7f) good++;
  }
  return broken * 4 < good ? loose : new TextDecoder("windows-1252").decode(body);
}

function hasHighByte(body: Uint8Array): boolean {
  return body.some((byte) => byte > 0x7f);
}
