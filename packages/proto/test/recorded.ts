import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { DescMessage, Message } from "@bufbuild/protobuf";
import type { Any } from "@bufbuild/protobuf/wkt";
import { hexToBytes } from "@turnpike/base";
import { unpackAny } from "../src/any.ts";
import { fieldValue } from "../src/binary.ts";

const RECORDED = join(import.meta.dirname, "..", "..", "..", "test", "spec", "recorded-chain");

/** A recorded file of a running node, read as JSON. */
export function recorded<T>(path: string): T {
  return JSON.parse(readFileSync(join(RECORDED, path), "utf8")) as T;
}

/** Names of the recorded files of a folder, sorted. */
export function recordedFiles(folder: string): string[] {
  return readdirSync(join(RECORDED, folder))
    .filter((name) => name.endsWith(".json"))
    .sort();
}

/** Bytes of hex that must be hex. */
export function hex(text: string): Uint8Array {
  return hexToBytes(text) ?? new Uint8Array();
}

/** One gRPC call as it was recorded. */
export interface RecordedCall {
  readonly name: string;
  readonly method: string;
  readonly request_hex: string;
  readonly response_hex?: string | null;
  readonly responses_hex?: readonly string[];
  readonly status: { readonly code: number };
}

/** Every recorded gRPC call, with the name of its file. */
export function recordedCalls(): { readonly file: string; readonly call: RecordedCall }[] {
  return recordedFiles("grpc")
    .filter((file) => file !== "services.json")
    .flatMap((file) => recorded<RecordedCall[]>(`grpc/${file}`).map((call) => ({ file, call })));
}

/** One REST exchange as it was recorded. */
export interface RecordedAnswer {
  readonly name: string;
  readonly request: { readonly method: string; readonly path: string };
  readonly status: number;
  readonly body: unknown;
}

/** Every `Any` inside a message, and inside those, at any depth. */
export function anysOf(schema: DescMessage, message: Message): Any[] {
  if (schema.typeName === "google.protobuf.Any") {
    const any = message as Any;
    const inner = unpackAny(any);
    return inner.ok ? [any, ...anysOf(inner.message.schema, inner.message.message)] : [any];
  }
  return schema.fields.flatMap((field) => {
    const child = field.message;
    const value = child === undefined ? undefined : fieldValue(message, field);
    if (child === undefined || value === undefined) return [];
    const items = field.fieldKind === "message" ? [value] : Object.values(value as object);
    return items.flatMap((item) => anysOf(child, item as Message));
  });
}
