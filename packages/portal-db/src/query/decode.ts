import { MAX_PARAMETERS, MAX_QUERY_LENGTH } from "./bounds.ts";
import { refusal, tooMuch } from "./refusal.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Splits a raw query string and decodes it once. A parameter without `=` says nothing and is dropped.
 * @throws Refusal PGRST100 for a bad percent escape, bytes that are not UTF-8, NUL, and beyond the bounds.
 */
export function decodeQuery(raw: string): readonly (readonly [string, string])[] {
  if (raw.length > MAX_QUERY_LENGTH) throw tooMuch("characters of a query string", MAX_QUERY_LENGTH);
  const pairs: (readonly [string, string])[] = [];
  for (const part of raw.split("&")) {
    const equals = part.indexOf("=");
    if (equals === -1) continue;
    if (pairs.length >= MAX_PARAMETERS) throw tooMuch("parameters", MAX_PARAMETERS);
    pairs.push([decode(part.slice(0, equals)), decode(part.slice(equals + 1))]);
  }
  return pairs;
}

function decode(text: string): string {
  const bytes = new Uint8Array(text.length);
  let length = 0;
  for (let at = 0; at < text.length; at++) {
    let byte = text.charCodeAt(at);
    if (byte === 0x25) {
      const hex = text.slice(at + 1, at + 3);
      if (!/^[0-9a-f]{2}$/i.test(hex)) throw badText("a percent sign without two hexadecimal digits");
      byte = Number.parseInt(hex, 16);
      at += 2;
    } else if (byte === 0x2b) byte = 0x20;
    // what is above ASCII came as raw bytes, one character each
    if (byte > 0xff) throw badText("a character that is no byte");
    if (byte === 0) throw badText("a NUL character");
    bytes[length] = byte;
    length += 1;
  }
  try {
    return utf8.decode(bytes.subarray(0, length));
  } catch {
    throw badText("bytes that are not UTF-8");
  }
}

function badText(what: string): ReturnType<typeof refusal> {
  return refusal(400, "PGRST100", "The query string cannot be decoded", { details: `It contains ${what}.` });
}
