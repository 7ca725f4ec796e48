import { AppError, isAppError } from "@turnpike/base";
import type { Config } from "@turnpike/config";
import { findUpConfig } from "@turnpike/devnet/files";
import type { IndexedSource, IndexProgress, SourceKind } from "@turnpike/search";
import { configFileOf, configOf } from "../../cli/config-file.ts";
import { type CommandContext, hostText, outputOf } from "../../cli/context.ts";
import { serve } from "../../cli/lifecycle.ts";
import { createLog } from "../../cli/logging.ts";
import { createProgressLine } from "../../cli/progress-line.ts";
import { openLocalIndex, startSearch } from "../../wiring/search.ts";
import { createSourceIndex, type Source } from "../../wiring/search-index.ts";

export interface SearchOptions {
  readonly json?: boolean;
  readonly config?: string;
}

export interface SearchIndexOptions extends SearchOptions {
  readonly kind?: string;
  readonly baseUrl?: string;
}

/** The configuration of a command that works on what runs: where none is named, that of a running `turnpike up`. */
function localConfig(opts: SearchOptions, context: CommandContext): Config {
  const local = configFileOf(context, opts.config) === undefined ? findUpConfig(process.cwd()) : undefined;
  return configOf(context, local ?? opts.config);
}

/** Serves web search until a signal ends it. */
export async function serveSearch(opts: SearchOptions, context: CommandContext): Promise<void> {
  const config = configOf(context, opts.config);
  const output = outputOf(opts);
  const log = createLog({ level: config.log.level, name: "search" });
  await serve(context, { log }, async () => {
    const running = await startSearch(config, { log });
    const { service, metricsPort } = running;
    const { host } = config.search.metrics;
    const metrics = metricsPort === undefined ? undefined : `http://${hostText(host)}:${metricsPort}/metrics`;
    output.result({ ready: true, search: service.url, ...(metrics === undefined ? {} : { metrics }) });
    output.line(`search   ${service.url}`);
    if (metrics !== undefined) output.line(`metrics  ${metrics}`);
    return {
      drainMs: () => config.search.timeoutMs,
      metrics: running.metrics,
      [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
    };
  });
}

const KINDS: readonly SourceKind[] = ["folder", "packages", "url", "sitemap", "feed"];

function kindOf(text: string | undefined): SourceKind | undefined {
  if (text === undefined) return undefined;
  const kind = KINDS.find((known) => known === text);
  if (kind !== undefined) return kind;
  throw new AppError("USAGE", { message: `--kind: expected one of ${KINDS.join(", ")}.` });
}

function baseUrlOf(text: string | undefined): string | undefined {
  if (text === undefined || /^https?:\/\/[^\s/]+/.test(text)) return text;
  throw new AppError("USAGE", { message: "--base-url: expected an http:// or https:// URL." });
}

function sourcesOf(targets: readonly string[], opts: SearchIndexOptions, config: Config): readonly Source[] {
  const kind = kindOf(opts.kind);
  const baseUrl = baseUrlOf(opts.baseUrl);
  if (targets.length > 1 && baseUrl !== undefined) {
    throw new AppError("USAGE", { message: "--base-url: is the address of one folder; name one target." });
  }
  if (targets.length > 0) return targets.map((target) => ({ kind, target, baseUrl }));
  if (kind !== undefined || baseUrl !== undefined) {
    throw new AppError("USAGE", { message: "--kind and --base-url are for a target; name one." });
  }
  const { sources } = config.search.local;
  if (sources.length > 0) return sources.map((one) => ({ ...one, baseUrl: one.baseUrl }));
  throw new AppError("USAGE", { message: "Name a folder or a URL to index, or set search.local.sources." });
}

const counted = ({ seen, indexed, unchanged, skipped }: IndexProgress): string =>
  `${seen} seen, ${indexed} indexed, ${unchanged} unchanged, ${skipped} left out`;

function progressText(target: string, progress: IndexProgress): string {
  const waiting = progress.waiting === undefined ? "" : `, ${progress.waiting} waiting`;
  return `${target}  ${counted(progress)}${waiting}  ${progress.current ?? ""}`;
}

/** True for a source of which nothing could be had: its address may be wrong, or its server away. */
const isBarren = ({ seen, indexed, unchanged }: IndexProgress): boolean => seen > 0 && indexed + unchanged === 0;

function reportLines(target: string, { kind, report }: IndexedSource): readonly string[] {
  const removed = report.removed === 0 ? "" : `, ${report.removed} removed`;
  const reasons = Object.entries(report.reasons)
    .toSorted(([, a], [, b]) => b - a)
    .map(([reason, count]) => `${reason} ${count}`);
  return [
    `${target}  (${kind})  ${counted(report)}${removed}`,
    ...(reasons.length === 0 ? [] : [`  left out: ${reasons.join(", ")}`]),
    ...(isBarren(report) ? ["  nothing of it could be read"] : []),
    ...(report.incomplete ? ["  not all of it: run it again to go on, or see the limits in search.crawl"] : []),
  ];
}

/** Ends a run at its first SIGINT or SIGTERM, so that it can go on from there; the second ends the process. */
function stopSignal(context: CommandContext): Disposable & { readonly signal: AbortSignal } {
  const stopping = new AbortController();
  const onSignal = (): void => {
    if (stopping.signal.aborted) context.kill(1);
    stopping.abort();
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return {
    signal: stopping.signal,
    [Symbol.dispose]() {
      process.off("SIGINT", onSignal);
      process.off("SIGTERM", onSignal);
    },
  };
}

/**
 * Fills the local index. Ends with 1 when a signal ended it early, one of several sources was refused, or one gave nothing.
 * @throws AppError USAGE, SOURCE_REFUSED, SEARCH_INDEX, SEARCH_INDEX_BUSY.
 */
export async function index(
  targets: readonly string[],
  opts: SearchIndexOptions,
  context: CommandContext,
): Promise<void> {
  const output = outputOf(opts);
  const config = localConfig(opts, context);
  const sources = sourcesOf(targets, opts, config);
  // What is left out is counted; a line of the log for each page would bury it.
  const log = createLog({ level: config.log.level === "info" ? "warn" : config.log.level, name: "search" });
  using stop = stopSignal(context);
  using line = createProgressLine({ isShown: !output.json });
  await using sourceIndex = createSourceIndex(config, {
    log,
    signal: stop.signal,
    onProgress: (target, progress) => line.show(progressText(target, progress)),
  });
  const done: (IndexedSource & { readonly target: string })[] = [];
  const refused: { readonly target: string; readonly message: string }[] = [];
  for (const source of sources) {
    if (stop.signal.aborted) break;
    const { target } = source;
    try {
      const indexed = await sourceIndex.add(source);
      done.push({ target, ...indexed });
      line.clear();
      for (const text of reportLines(target, indexed)) output.line(text);
    } catch (error) {
      // One source that cannot be had must not keep the others out.
      if (sources.length === 1 || !isAppError(error, "SOURCE_REFUSED")) throw error;
      refused.push({ target, message: error.message });
    }
  }
  line.clear();
  if (!stop.signal.aborted) sourceIndex.optimize();
  const { documents, bytes } = sourceIndex.stats();
  output.result({
    sources: done.map(({ target, kind, collection, report }) => ({ target, kind, collection, ...report })),
    refused,
    index: { file: config.search.local.file, documents, bytes },
    ended: stop.signal.aborted,
  });
  output.line(`The index holds ${documents} documents (${sizeText(bytes)}).`);
  if (stop.signal.aborted) output.line("Ended before all was done: run it again to go on.");
  const isBad = refused.length > 0 || done.some(({ report }) => isBarren(report));
  if (stop.signal.aborted || isBad) context.exitWith(1);
  if (refused.length > 0 && !output.json) {
    throw new AppError("SOURCE_REFUSED", { message: refused.map(({ message }) => message).join("\n") });
  }
}

function sizeText(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB"] as const;
  let size = bytes;
  let at = 0;
  for (; size >= 1_024 && at < units.length - 1; at++) size /= 1_024;
  return `${at === 0 ? size : size.toFixed(1)} ${units[at]}`;
}

/** Shows what the local index holds. @throws AppError SEARCH_INDEX when it cannot be read. */
export async function status(opts: SearchOptions, context: CommandContext): Promise<void> {
  const output = outputOf(opts);
  const config = localConfig(opts, context);
  const log = createLog({ level: config.log.level, name: "search" });
  await using engine = openLocalIndex(config, "local", { log });
  const { documents, bytes, collections, languages } = await engine.stats();
  const { file } = config.search.local;
  const engines = config.search.engines.map(({ kind, id = kind }) => id);
  output.result({ file, documents, bytes, collections, languages, engines });
  output.line(`engines    ${engines.join(", ")}`);
  output.line(`index      ${file}, ${documents} documents, ${sizeText(bytes)}`);
  if (documents === 0) output.line("Fill it with npx turnpike search index <folder or URL>.");
  const shares = Object.entries(languages).toSorted(([, a], [, b]) => b - a);
  if (shares.length > 0) output.line(`languages  ${shares.map(([name, count]) => `${name} ${count}`).join(", ")}`);
  for (const { name, documents: count } of collections) output.line(`${String(count).padStart(8)}  ${name}`);
}
