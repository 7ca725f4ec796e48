import { joinJsonArray } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import { isSuccess, refusedAnswer } from "../answers/rules.ts";
import { rawMember, readRpcObject, type ScannedObject, scanObject, scanObjects } from "../answers/scanned-answer.ts";
import { type AttemptResult, type FailedAttempt, failedAttempt } from "../answers/upstream-answer.ts";
import type { FailureReason, Family } from "../families/family.ts";
import { findMembers, replaceSpan } from "../members.ts";
import type { UpstreamResponse } from "../transport/transport.ts";

/** Calls of one batch as they are sent upstream. */
export interface JoinedBatch {
  readonly body: Uint8Array;
  /** The calls, with the ids that are sent. */
  readonly calls: readonly BackendCall[];
}

const NO_BYTES = new Uint8Array(0);

function renumbered(call: BackendCall, id: string): BackendCall {
  const body = call.body ?? NO_BYTES;
  const span = findMembers(body)?.get("id");
  if (span === undefined || call.id === undefined) return call;
  const { idAt: _, bodyText: __, ...rest } = call;
  return { ...rest, id, clientId: call.clientId ?? call.id, body: replaceSpan(body, span, id) };
}

/** One upstream body of many calls. The clients' own bytes, unless two ids are the same: then all are numbered. */
export function joinBatch(calls: readonly BackendCall[]): JoinedBatch {
  const isDistinct = new Set(calls.map((call) => call.id)).size === calls.length;
  const sent = isDistinct ? calls : calls.map((call, index) => renumbered(call, String(index + 1)));
  return { body: joinJsonArray(sent.map(({ body }) => body ?? NO_BYTES)), calls: sent };
}

/**
 * What an upstream batch came to. `refused`: this supplier does not take the batch. `isForBytes`: because of what stands
 * in it, which says nothing about how many calls it takes.
 */
export type BatchReading =
  | { readonly kind: "answers"; readonly answers: readonly AttemptResult[] }
  | { readonly kind: "refused"; readonly isForBytes: boolean }
  | { readonly kind: "failed"; readonly failure: FailedAttempt };

const MISSING = failedAttempt("supplier", "wrong_id");
const REFUSING = new Set([400, 404, 405, 413, 415, 422, 501]);

/**
 * Reads the answer to a batch: by id, whatever the order. Calls without an answer, or with two that differ, are failed
 * attempts; what answers nothing that was asked is left out.
 */
export function readBatch(
  family: Family,
  joined: JoinedBatch,
  response: UpstreamResponse,
  operator: string,
): BatchReading {
  const refused = refusedAnswer(response);
  if (refused?.reason === "too_large") return { kind: "refused", isForBytes: true };
  if (refused !== undefined) return { kind: "failed", failure: refused };
  const { status, body } = response;
  if (REFUSING.has(status)) return { kind: "refused", isForBytes: status === 413 };
  if (!isSuccess(status)) return failed("http_status");
  const objects = scanObjects(body);
  if (objects === undefined) {
    // One error object in the place of an array is a refusal of the batch.
    const single = scanObject(body);
    return single !== undefined && rawMember(single, "error") !== undefined
      ? { kind: "refused", isForBytes: false }
      : failed(body.length === 0 ? "empty" : "not_json");
  }
  const byId = new Map<string, ScannedObject | "twice">();
  for (const object of objects) {
    const id = idKey(rawMember(object, "id"));
    if (id === undefined) continue;
    const known = byId.get(id);
    if (known === undefined) byId.set(id, object);
    else if (known === "twice" || !isSame(known, object)) byId.set(id, "twice");
  }
  const answers = joined.calls.map((call) => {
    const id = call.id ?? "";
    const object = byId.get(idKey(id) ?? "");
    return object === undefined || object === "twice"
      ? MISSING
      : readRpcObject(family, { call, response, operator }, object, id);
  });
  return answers.includes(MISSING) && answers.every((one) => one === MISSING)
    ? failed("wrong_id")
    : { kind: "answers", answers };
}

function failed(reason: FailureReason): BatchReading {
  return { kind: "failed", failure: failedAttempt("supplier", reason) };
}

function isSame(one: ScannedObject, other: ScannedObject): boolean {
  return one.bytes.compare(other.bytes, other.start, other.end, one.start, one.end) === 0;
}

const PLAIN_ID = /^(?:"[^\\]*"|0|-?[1-9][0-9]{0,14})$/;

/** One spelling for ids of one value. */
function idKey(raw: string | undefined): string | undefined {
  if (raw === undefined || PLAIN_ID.test(raw)) return raw;
  try {
    return JSON.stringify(JSON.parse(raw));
  } catch {
    return undefined;
  }
}
