import type { FastifyRequest } from "fastify";
import type { ErrorBody } from "../errors.ts";
import { failure } from "../failures.ts";
import type { TableRequest } from "../types.ts";
import { readBody } from "./body.ts";
import { chooseRows } from "./media.ts";
import { readPreferences } from "./preferences.ts";
import { readRange } from "./range.ts";

/** A request on a table, or why it is none. */
export type TableRequestResult =
  | { readonly ok: true; readonly request: TableRequest; readonly contentType: string }
  | { readonly ok: false; readonly error: ErrorBody };

const refuse = (error: ErrorBody): TableRequestResult => ({ ok: false, error });

/** A header that may stand once; Node joins repeated ones. */
export function headerOf(request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(", ") : value;
}

/** Names of the one schema: its own, and that of the system that this stands in for. No other can be reached. */
const SCHEMAS = ["portal", "public"];

/** Reads everything of HTTP. What the query says is left to the planner. */
export function tableRequestOf(
  request: FastifyRequest,
  verb: TableRequest["verb"],
  table: string,
  query: string,
): TableRequestResult {
  const isRead = verb === "GET" || verb === "HEAD";
  const profile = headerOf(request, isRead ? "accept-profile" : "content-profile");
  if (profile !== undefined && !SCHEMAS.includes(profile)) {
    return refuse(
      failure(
        406,
        "PGRST106",
        `Invalid schema: ${profile.slice(0, 63)}`,
        null,
        `Only the following schemas are exposed: ${SCHEMAS.join(", ")}`,
      ),
    );
  }
  const accept = headerOf(request, "accept");
  const media = chooseRows(accept);
  if (media === undefined) {
    const message = `None of these media types are available: ${accept?.slice(0, 256) ?? ""}`;
    return refuse(failure(406, "PGRST107", message));
  }
  const { preferences, unknown } = readPreferences(headerOf(request, "prefer"), verb);
  if (unknown.length > 0) {
    const details = `Invalid preferences: ${unknown.join(", ").slice(0, 256)}`;
    return refuse(failure(400, "PGRST122", "Invalid preferences given with handling=strict", details));
  }
  const { range, isEmpty } = readRange(verb, headerOf(request, "range"), headerOf(request, "range-unit"));
  if (isEmpty) {
    const details = "The lower boundary must be lower than or equal to the upper boundary in the Range header.";
    return refuse(failure(416, "PGRST103", "Requested range not satisfiable", details));
  }
  let rows: TableRequest["rows"];
  if (verb === "POST" || verb === "PATCH" || verb === "PUT") {
    const bytes = request.body instanceof Uint8Array ? request.body : new Uint8Array();
    const body = readBody(bytes, headerOf(request, "content-type"));
    if (!body.ok) return refuse(body.error);
    rows = body.rows;
  }
  return {
    ok: true,
    contentType: media.contentType,
    request: { verb, table, query, rows, preferences, range, media: media.media, stripsNulls: media.stripsNulls },
  };
}
