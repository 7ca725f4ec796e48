import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SourceDocument } from "../../src/types.ts";

/** A folder that is gone at the end of the test. */
export function temporaryFolder(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), "turnpike-index-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** A document with what the test does not care about filled in. */
export function documentOf(parts: Partial<SourceDocument> & { readonly url: string }): SourceDocument {
  return { title: "", text: "", language: "en", date: undefined, collection: "test", ...parts };
}
