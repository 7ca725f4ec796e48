import type { EngineHit, EngineQuery, SearchEngine } from "../../src/types.ts";

/** An engine of a test, with what it was asked. */
export interface ToldEngine extends SearchEngine {
  readonly asked: EngineQuery[];
}

/** An engine that answers as it is told. */
export function toldEngine(
  id: string,
  answer: (query: EngineQuery, signal: AbortSignal) => Promise<readonly EngineHit[]>,
): ToldEngine {
  const asked: EngineQuery[] = [];
  return {
    id,
    asked,
    search(query, signal) {
      asked.push(query);
      return answer(query, signal);
    },
    [Symbol.asyncDispose]: async () => {},
  };
}

/** An engine that always finds these pages. */
export function findingEngine(id: string, ...urls: readonly string[]): ToldEngine {
  const hits = urls.map((url) => ({ title: `page ${url}`, url, snippet: "a passage", date: "2024-01-02" }));
  return toldEngine(id, async () => hits);
}

/** An engine that answers never, and does not heed its signal. */
export function deafEngine(id: string): ToldEngine {
  return toldEngine(id, () => new Promise(() => {}));
}
