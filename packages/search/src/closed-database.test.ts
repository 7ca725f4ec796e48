import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { silentLog } from "@turnpike/base";
import { openState } from "./crawl/frontier-schema.ts";
import { openSourceState } from "./files/source-state.ts";
import { openForWriting } from "./local/schema.ts";

test("whatever search writes is closed to other users, also with an open umask", () => {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-closed-"));
  const umask = process.umask(0);
  try {
    const index = openForWriting(join(folder, "search.sqlite"), 0);
    const crawl = openState(join(folder, "search-crawl.sqlite"));
    using files = openSourceState(join(folder, "search-files.sqlite"), silentLog);
    files.save("c", new Map([["a", { stamp: "1", url: "u", sections: [], skipped: undefined }]]), []);
    const modes = readdirSync(folder).map(
      (name) => `${name} ${(statSync(join(folder, name)).mode & 0o777).toString(8)}`,
    );
    assert.ok(modes.length >= 5, `with what is written beside them: ${modes.join(", ")}`);
    assert.deepEqual(
      modes.filter((text) => !text.endsWith(" 600")),
      [],
    );
    index.close();
    crawl.close();
  } finally {
    process.umask(umask);
    rmSync(folder, { recursive: true });
  }
});
