import { asBuffer } from "@turnpike/base";
import type { SchemaCheck } from "@turnpike/protocol";
import type { UpstreamAnswer } from "../answers/upstream-answer.ts";
import type { MemberSpan } from "../members.ts";
import type { CallKey } from "./call-key.ts";
import type { Life, RuleName } from "./policy.ts";
import type { SieveItem } from "./sieve.ts";
import { loadBody, type StoredBody } from "./stored-body.ts";

/** Why an answer left the cache. */
export type RemovalReason = "room" | "expired" | "head" | "reorg" | "operator" | "replaced" | "cleared";

/** One kept answer. */
export interface Entry extends SieveItem<Entry> {
  readonly owner: EntryOwner;
  readonly key: CallKey;
  readonly rule: RuleName;
  readonly stored: StoredBody;
  readonly idStart: number;
  readonly hasId: boolean;
  /** Where the result stands in a body whose id is empty. */
  readonly resultAt: MemberSpan | undefined;
  readonly status: number;
  readonly contentType: string;
  readonly schemaCheck: SchemaCheck;
  readonly operator: string;
  readonly storedMs: number;
  readonly headMark: number;
  readonly finalBlocks: number | undefined;
  /** It is true while the final block stays the final one. */
  readonly isOfFinalTag: boolean;
  life: Life;
  heightBlocks: number;
  expiresMs: number;
  /** Set until the height was read from the result. */
  heightOf: ((result: unknown) => number | undefined) | undefined;
}

/** Who an entry belongs to. */
export interface EntryOwner {
  /** True when it may not be answered with any more. */
  isDead(entry: Entry, nowMs: number): boolean;
  remove(entry: Entry, reason: RemovalReason): void;
}

/** Memory of an entry besides its key and body, as measured: the entry, its slots in maps and sets, string headers. */
const ENTRY_BYTES = 430;
/** Memory of a buffer of its own besides its bytes. */
const BUFFER_BYTES = 300;

/** Memory of an entry that is not final, besides. */
const OPEN_BYTES = 150;

/** What an entry takes of the budget. */
export function entryBytes(key: CallKey, stored: StoredBody, life: Life): number {
  const buffers = Number(typeof stored.before !== "string") + Number(typeof stored.after !== "string");
  const own = ENTRY_BYTES + (life === "final" ? 0 : OPEN_BYTES) + buffers * BUFFER_BYTES;
  return own + key.text.length + stored.length;
}

/** The answer of an entry with another id. */
export function answerOf(entry: Entry, id: string): UpstreamAnswer {
  const { status, contentType, schemaCheck, operator, idStart, resultAt } = entry;
  const body = loadBody(entry.stored, id);
  if (!entry.hasId) return { ok: true, status, contentType, schemaCheck, operator, body, isError: false };
  const idEnd = idStart + body.length - entry.stored.length;
  const idAt = { start: idStart, end: idEnd };
  if (resultAt === undefined)
    return { ok: true, status, contentType, schemaCheck, operator, body, isError: false, idAt };
  const shift = resultAt.start >= idStart ? idEnd - idStart : 0;
  return {
    ok: true,
    status,
    contentType,
    schemaCheck,
    operator,
    body,
    isError: false,
    idAt,
    resultAt: { start: resultAt.start + shift, end: resultAt.end + shift },
  };
}

/** Parsed result of a JSON-RPC answer, or the parsed body; undefined when it is no JSON. */
export function parseResult({ body, resultAt }: UpstreamAnswer): unknown {
  const bytes = asBuffer(body);
  try {
    return JSON.parse(bytes.toString("utf8", resultAt?.start ?? 0, resultAt?.end ?? bytes.length)) as unknown;
  } catch {
    return undefined;
  }
}
