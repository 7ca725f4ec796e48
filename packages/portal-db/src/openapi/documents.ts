import { createHash } from "node:crypto";
import type { RoleView } from "../types.ts";
import { openapi3 } from "./openapi3.ts";
import { swagger2 } from "./swagger2.ts";

/** What the description of the API is written as. */
export type DocumentMedia = "openapi-3.1" | "openapi-3.0" | "swagger-2.0";

/** A description as it is sent. */
export interface ApiDocument {
  readonly text: string;
  /** Strong entity tag, with its quotes. */
  readonly etag: string;
}

/** Descriptions by role, made on demand and kept for as long as the role's view stays the same. */
export function createDocuments(): (view: RoleView, kind: DocumentMedia) => ApiDocument {
  const kept = new WeakMap<RoleView, Map<DocumentMedia, ApiDocument>>();
  return (view, kind) => {
    let ofView = kept.get(view);
    if (ofView === undefined) {
      ofView = new Map();
      kept.set(view, ofView);
    }
    let found = ofView.get(kind);
    if (found === undefined) {
      const value =
        kind === "swagger-2.0" ? swagger2(view) : openapi3(view, kind === "openapi-3.0" ? "3.0" : "3.1", "/");
      const text = `${JSON.stringify(value)}\n`;
      found = { text, etag: `"${createHash("sha256").update(text).digest("base64url").slice(0, 27)}"` };
      ofView.set(kind, found);
    }
    return found;
  };
}
