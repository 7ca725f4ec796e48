import { AppError } from "@turnpike/base";
import type { SearchEngine } from "../types.ts";
import { createBraveEngine } from "./brave.ts";
import { createExaEngine } from "./exa.ts";
import { createSearxngEngine } from "./searxng.ts";
import { createTavilyEngine } from "./tavily.ts";

/** One engine as it is configured. */
export interface EngineOptions {
  readonly kind: "local" | "searxng" | "brave" | "tavily" | "exa";
  /** Its name in answers and metrics; undefined: its kind. */
  readonly id?: string | undefined;
  /** Needed by `searxng`; for the hosted ones another address than their own. */
  readonly url?: string | undefined;
  /** Needed by the hosted ones. */
  readonly apiKey?: string | undefined;
  /** Longest time for its answer, in milliseconds. */
  readonly timeoutMs: number;
  /** How much its ranks count when results are merged. */
  readonly weight: number;
}

/** An engine with what the service needs to know of it. */
export interface WeightedEngine {
  readonly engine: SearchEngine;
  /** Longest time for its answer, in milliseconds. */
  readonly timeoutMs: number;
  readonly weight: number;
}

/** The engines of one service. Owns those that it made, so not `local`. */
export interface Engines extends AsyncDisposable {
  readonly list: readonly WeightedEngine[];
}

export interface EnginesModules {
  /** The engine of kind `local`, under its configured id; undefined: there is none. */
  readonly local?: ((id: string) => SearchEngine) | undefined;
}

const refuse = (message: string): AppError => new AppError("CONFIG_INVALID", { message });

function makeEngine(options: EngineOptions, at: number, modules: EnginesModules): SearchEngine {
  const { kind, url, apiKey, id = kind } = options;
  if (kind === "local") {
    if (modules.local === undefined) throw refuse(`search.engines[${at}]: there is no local index.`);
    return modules.local(id);
  }
  if (kind === "searxng") {
    if (url === undefined) throw refuse(`search.engines[${at}].url: missing; searxng needs the instance's address.`);
    return createSearxngEngine({ id, url });
  }
  if (apiKey === undefined) throw refuse(`search.engines[${at}].apiKey: missing; ${kind} needs one.`);
  const make = { brave: createBraveEngine, tavily: createTavilyEngine, exa: createExaEngine }[kind];
  return make({ id, apiKey, url });
}

/** Makes the configured engines. @throws AppError CONFIG_INVALID, naming the path and the fix. */
export function createEngines(options: readonly EngineOptions[], modules: EnginesModules = {}): Engines {
  const made: WeightedEngine[] = [];
  const owned: SearchEngine[] = [];
  for (const [at, one] of options.entries()) {
    const engine = makeEngine(one, at, modules);
    if (made.some((other) => other.engine.id === engine.id)) {
      throw refuse(`search.engines[${at}].id: ${engine.id} stands twice; give each engine its own.`);
    }
    made.push({ engine, timeoutMs: one.timeoutMs, weight: one.weight });
    if (one.kind !== "local") owned.push(engine);
  }
  return {
    list: made,
    async [Symbol.asyncDispose]() {
      await Promise.all(owned.map((engine) => engine[Symbol.asyncDispose]()));
    },
  };
}
