import { readFileSync } from "node:fs";

/** Reads a file of `test/spec/crypto/`. */
export function readVectors<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../../../test/spec/crypto/${name}`, import.meta.url), "utf8")) as T;
}

/** Bytes of hex, in an array of their own. */
export function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex, "hex"));
}
