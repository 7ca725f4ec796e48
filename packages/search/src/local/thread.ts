import { parentPort, workerData } from "node:worker_threads";
import { isAppError } from "@turnpike/base";
import { IndexSearcher } from "./searcher.ts";
import type { ThreadData, ThreadReply, ThreadRequest } from "./wire.ts";

const searcher = new IndexSearcher(workerData as ThreadData);

function answer(request: ThreadRequest, from: IndexSearcher): ThreadReply {
  try {
    switch (request.ask) {
      case "search":
        return {
          ok: true,
          value: from.search(request.query, request.maxResults, performance.now() + request.budgetMs),
        };
      case "document":
        return { ok: true, value: from.document(request.url) };
      default:
        return { ok: true, value: from.stats() };
    }
  } catch (error) {
    if (isAppError(error, "SEARCH_INDEX")) return { ok: false, code: "SEARCH_INDEX", message: error.message };
    return { ok: false, code: "SEARCH_ENGINE_FAILED", message: error instanceof Error ? error.message : String(error) };
  }
}

parentPort?.on("message", (request: ThreadRequest) => parentPort?.postMessage(answer(request, searcher)));
