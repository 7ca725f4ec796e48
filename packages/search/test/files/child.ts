import { silentLog } from "@turnpike/base";
import { indexFolder } from "../../src/files/index-folder.ts";
import { openIndexWriter } from "../../src/local/writer.ts";
import type { IndexWriter } from "../../src/types.ts";
import { PlainExtractor } from "../crawl/site.ts";

/** Indexes a folder, and kills itself before or after its second batch is written. */
const [folder = "", indexFile = "", moment = ""] = process.argv.slice(2);
using writer = openIndexWriter({ file: indexFile }, { log: silentLog });
await using extractor = new PlainExtractor();
let batches = 0;
const die = (): void => {
  process.kill(process.pid, "SIGKILL");
  // The signal comes at once, but nothing may be done until then.
  for (;;);
};
const deadly: IndexWriter = {
  put(documents) {
    batches++;
    if (moment === "before" && batches === 2) die();
    writer.put(documents);
    if (moment === "after" && batches === 2) die();
  },
  remove: (urls) => writer.remove(urls),
  urlsOf: (collection) => writer.urlsOf(collection),
  stats: () => writer.stats(),
  optimize: () => writer.optimize(),
  [Symbol.dispose]() {},
};
await indexFolder(
  { folder, collection: "docs", baseUrl: "https://docs.example/", stateFile: `${indexFile}-sources` },
  { writer: deadly, extractor, log: silentLog },
);
