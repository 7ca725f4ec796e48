import { silentLog } from "@turnpike/base";
import { ThreadPool } from "../../../packages/search/src/local/thread-pool.ts";
import { serveParent } from "../../lib/child.ts";
import { openBare } from "../bare.ts";
import { build, type IndexOperations, runQueries } from "../work.ts";

const owned = new AsyncDisposableStack();
let pool: ThreadPool | undefined;

serveParent<IndexOperations>(
  {
    async build(options) {
      using writer = openBare(options.file);
      return build(options, writer);
    },
    async open({ file, threads }) {
      pool = owned.use(
        new ThreadPool(
          {
            file,
            threads,
            timeoutMs: 60_000,
            maxQueued: 256,
            maxSnippetChars: 320,
            script: new URL("./bare-thread.ts", import.meta.url),
          },
          { log: silentLog },
        ),
      );
    },
    async run(options) {
      return runQueries(options, async (query) => {
        const ask = (budgetMs: number) => ({ ask: "search", query, maxResults: 10, budgetMs }) as const;
        const hits = await pool?.ask(ask);
        return Array.isArray(hits) ? hits.length : 0;
      });
    },
  },
  owned,
);
