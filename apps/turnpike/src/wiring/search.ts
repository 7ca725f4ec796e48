import { AppError, type Log, type Metrics, trimEndOf } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import {
  createEngines,
  furtherSections,
  joinedDocuments,
  type LocalEngine,
  openLocalEngine,
  pagesOf,
  type SearchService,
  startSearchService,
} from "@turnpike/search";
import { PrometheusMetrics, startMetricsServer } from "@turnpike/telemetry";
import { hostText } from "../cli/context.ts";
import { productVersion } from "../cli/version.ts";

/** A running search service with its metrics. */
export interface RunningSearch extends AsyncDisposable {
  readonly service: SearchService;
  /** Undefined when there is no metrics server. */
  readonly metricsPort: number | undefined;
  readonly metrics: Metrics;
}

/** Address at which others reach the search service: the one that indexed files are named by. */
export function searchPublicUrl({ search: { publicUrl, host, port } }: Config): string {
  return trimEndOf(publicUrl ?? `http://${hostText(host)}:${port}`, "/");
}

/** A file beside the index: `search.sqlite` has `search-crawl.sqlite`. */
export function besideIndex(file: string, what: string): string {
  return `${file.replace(/\.sqlite$/, "")}-${what}.sqlite`;
}

/** Opens the local index for reading. */
export function openLocalIndex({ search }: Config, id: string, modules: { readonly log: Log }): LocalEngine {
  const { file, threads } = search.local;
  const timeoutMs = search.engines.find(({ kind }) => kind === "local")?.timeoutMs ?? search.timeoutMs;
  return openLocalEngine({ id, file, threads, timeoutMs }, modules);
}

function isPortTaken(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "EADDRINUSE";
}

/** Builds and starts the search service. @throws AppError CONFIG_INVALID, PORT_IN_USE. */
export async function startSearch(config: Config, modules: { readonly log: Log }): Promise<RunningSearch> {
  const { log } = modules;
  const { search, allowedHosts } = config;
  await using stack = new AsyncDisposableStack();
  const watched = search.metrics;
  const metrics = new PrometheusMetrics({ processMetrics: watched.port !== undefined });
  const metricsPort =
    watched.port === undefined
      ? undefined
      : stack.use(await startMetricsServer({ host: watched.host, port: watched.port, allowedHosts }, { metrics, log }))
          .port;
  let local: LocalEngine | undefined;
  const engines = stack.use(
    createEngines(search.engines, {
      local: (id) => {
        local = stack.use(openLocalIndex(config, id, { log }));
        return pagesOf(local);
      },
    }),
  );
  const index = local as LocalEngine | undefined;
  try {
    const service = stack.use(
      await startSearchService(
        { ...search, publicUrl: search.publicUrl, allowedHosts, version: productVersion() },
        {
          engines: engines.list,
          log,
          metrics,
          documents:
            index === undefined
              ? undefined
              : joinedDocuments(
                  (url) => index.document(url),
                  (url) => furtherSections(besideIndex(search.local.file, "files"), url),
                ),
          indexSize: index === undefined ? undefined : () => index.stats(),
        },
      ),
    );
    const owned = stack.move();
    return { service, metricsPort, metrics, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  } catch (cause) {
    if (!isPortTaken(cause)) throw cause;
    throw new AppError("PORT_IN_USE", { message: `search.port: ${search.port} is in use by another program.`, cause });
  }
}
