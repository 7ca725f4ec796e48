import type { DocumentMedia } from "../openapi/documents.ts";

/** What an answer with rows is written as. */
export interface RowsMedia {
  readonly media: "json" | "object" | "csv";
  readonly stripsNulls: boolean;
  /** `Content-Type` of the answer. */
  readonly contentType: string;
}

interface Range {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
}

/** Most media ranges that are read. */
const MAX_RANGES = 32;

/** Media ranges of `Accept` (RFC 9110 §12.5.1), the best first. */
function rangesOf(accept: string | undefined): readonly Range[] {
  if (accept === undefined || accept.trim() === "") return [{ type: "*/*", parameters: new Map() }];
  const found: { readonly range: Range; readonly quality: number }[] = [];
  for (const part of accept.split(",").slice(0, MAX_RANGES)) {
    const [type = "", ...rest] = part.split(";").map((piece) => piece.trim());
    const parameters = new Map<string, string>();
    for (const piece of rest) {
      const [name = "", value = ""] = piece.split("=").map((text) => text.trim());
      parameters.set(name.toLowerCase(), value.replaceAll('"', "").toLowerCase());
    }
    const said = parameters.get("q");
    const quality = said === undefined ? 1 : Number(said);
    if (quality > 0) found.push({ range: { type: type.toLowerCase(), parameters }, quality: Math.min(quality, 1) });
  }
  return found.toSorted((a, b) => b.quality - a.quality).map(({ range }) => range);
}

const JSON_TYPE = "application/json; charset=utf-8";

function rowsMedia({ type, parameters }: Range): RowsMedia | undefined {
  const stripsNulls = parameters.get("nulls") === "stripped";
  const strips = stripsNulls ? ";nulls=stripped" : "";
  switch (type) {
    case "*/*":
    case "application/*":
    case "application/json":
      return { media: "json", stripsNulls: false, contentType: JSON_TYPE };
    case "application/vnd.pgrst.array":
    case "application/vnd.pgrst.array+json":
      return stripsNulls
        ? { media: "json", stripsNulls, contentType: `application/vnd.pgrst.array+json${strips}; charset=utf-8` }
        : { media: "json", stripsNulls, contentType: JSON_TYPE };
    case "application/vnd.pgrst.object":
    case "application/vnd.pgrst.object+json":
      return {
        media: "object",
        stripsNulls,
        contentType: `application/vnd.pgrst.object+json${strips}; charset=utf-8`,
      };
    case "text/*":
    case "text/csv":
      return { media: "csv", stripsNulls: false, contentType: "text/csv; charset=utf-8" };
    default:
      return undefined;
  }
}

/** What rows are answered as, by `Accept`; undefined: as nothing that the client takes. */
export function chooseRows(accept: string | undefined): RowsMedia | undefined {
  for (const range of rangesOf(accept)) {
    const media = rowsMedia(range);
    if (media !== undefined) return media;
  }
  return undefined;
}

/** What the description is answered as, by `Accept`; undefined: as nothing that the client takes. */
export function chooseDocument(accept: string | undefined): DocumentMedia | undefined {
  for (const { type, parameters } of rangesOf(accept)) {
    if (type === "application/openapi+json") return "swagger-2.0";
    if (type === "*/*" || type === "application/*" || type === "application/json") return "openapi-3.1";
    if (type === "application/vnd.oai.openapi+json" || type === "application/vnd.oai.openapi") {
      const version = parameters.get("version") ?? "3.1";
      if (version.startsWith("2")) return "swagger-2.0";
      return version.startsWith("3.0") ? "openapi-3.0" : "openapi-3.1";
    }
  }
  return undefined;
}

/** `Content-Type` of a description. */
export const DOCUMENT_TYPES: Readonly<Record<DocumentMedia, string>> = {
  "openapi-3.1": "application/vnd.oai.openapi+json;version=3.1; charset=utf-8",
  "openapi-3.0": "application/vnd.oai.openapi+json;version=3.0; charset=utf-8",
  "swagger-2.0": "application/openapi+json; charset=utf-8",
};
