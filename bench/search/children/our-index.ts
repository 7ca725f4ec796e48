import { silentLog } from "@turnpike/base";
import { type LocalEngine, openIndexWriter, openLocalEngine } from "@turnpike/search";
import { serveParent } from "../../lib/child.ts";
import { build, type IndexOperations, runQueries } from "../work.ts";

const owned = new AsyncDisposableStack();
let engine: LocalEngine | undefined;

serveParent<IndexOperations>(
  {
    async build(options) {
      using writer = openIndexWriter({ file: options.file }, { log: silentLog });
      return build(options, {
        put: (documents) => writer.put(documents),
        optimize: () => writer.optimize(),
      });
    },
    async open({ file, threads }) {
      engine = owned.use(openLocalEngine({ file, threads, timeoutMs: 60_000 }, { log: silentLog }));
    },
    async run(options) {
      const { signal } = new AbortController();
      return runQueries(
        options,
        async (query) => (await engine?.search({ query, maxResults: 10 }, signal))?.length ?? 0,
      );
    },
  },
  owned,
);
