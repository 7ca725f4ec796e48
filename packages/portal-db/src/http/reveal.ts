import type { Plan, TableRequest } from "../types.ts";
import type { TableAnswer } from "./answer.ts";

const HASH = "secret_key_hash";

/**
 * Puts the hash that an insert into `portal_applications` has sent back into the rows of its own answer. The database
 * shows it to no role: the response repeats only what the client has just sent.
 */
export function withSentHash(request: TableRequest, plan: Plan, answer: TableAnswer): TableAnswer {
  const { verb, table, rows, query, media, preferences } = request;
  const isPlainInsert = verb === "POST" && table === "portal_applications" && preferences.resolution === undefined;
  if (!plan.isWrite || !isPlainInsert || media === "csv" || answer.body === undefined || rows === undefined)
    return answer;
  const names = new URLSearchParams(query);
  if (names.has("select") || names.has("columns")) return answer;
  const value = JSON.parse(answer.body) as Record<string, unknown> | Record<string, unknown>[];
  const made = Array.isArray(value) ? value : [value];
  if (made.length !== rows.rows.length) return answer;
  for (const [at, row] of made.entries()) {
    const sent = rows.rows[at];
    if (sent !== undefined && Object.hasOwn(sent, HASH)) row[HASH] = sent[HASH];
  }
  return { ...answer, body: JSON.stringify(value) };
}
