import type { Config } from "./schema.ts";
import { passwordFaults } from "./url-rules.ts";

type SearchConfig = Config["search"];

/** A configuration that says nothing about search runs none. */
function isUntouched({ port, publicUrl, metrics, engines, local }: SearchConfig): boolean {
  const onlyLocal = engines.length === 1 && engines[0]?.kind === "local";
  return (
    port === 8080 && publicUrl === undefined && metrics.port === undefined && onlyLocal && local.sources.length === 0
  );
}

/** Ports of the search service, when there is one. */
export function searchPorts({
  search,
}: Config): readonly { readonly path: string; readonly host: string; readonly port: number }[] {
  if (isUntouched(search)) return [];
  const { host, port, metrics } = search;
  return [
    { path: "search.port", host, port },
    { path: "search.metrics.port", host: metrics.host, port: metrics.port ?? 0 },
  ];
}

/** The search service: its engines, and what each kind needs. */
export function searchFaults({ search: { host, engines, publicUrl, local } }: Config): string[] {
  const faults: string[] = [];
  const ids = new Map<string, string>();
  let first: number | undefined;
  for (const [at, { kind, id = kind, url, apiKey }] of engines.entries()) {
    const path = `search.engines[${at}]`;
    if (kind === "local") {
      if (first !== undefined) {
        faults.push(
          `${path}: a second local engine; there is one local index, so remove this or search.engines[${first}]`,
        );
        continue;
      }
      first = at;
    }
    const twin = ids.get(id);
    if (twin !== undefined) faults.push(`${path}.id: ${id} is also the id of ${twin}; set an id of its own`);
    else ids.set(id, path);
    const isHosted = kind !== "local" && kind !== "searxng";
    if (kind === "searxng" && url === undefined) {
      faults.push(`${path}.url: missing; set the address of the SearXNG instance, such as http://127.0.0.1:8888`);
    }
    faults.push(...passwordFaults(`${path}.url`, url));
    if (kind === "local" && url !== undefined) faults.push(`${path}.url: the local index has none; remove it`);
    if (isHosted && apiKey === undefined) {
      faults.push(`${path}.apiKey: missing; ${kind} needs one, such as \${${kind.toUpperCase()}_API_KEY}`);
    }
    if (!isHosted && apiKey !== undefined) faults.push(`${path}.apiKey: ${kind} has none; remove it`);
  }
  if (first !== undefined && publicUrl === undefined && /^(0\.0\.0\.0|::|\[::\])$/.test(host)) {
    faults.push(
      `search.publicUrl: missing; ${host} is no address that results can name, so set the one that others use`,
    );
  }
  for (const [at, { kind, target, baseUrl }] of local.sources.entries()) {
    const path = `search.local.sources[${at}]`;
    const isSite = kind !== "folder" && kind !== "packages";
    if (isSite && !/^https?:\/\/[^\s/]+/.test(target)) {
      faults.push(`${path}.target: expected an http:// or https:// URL, as kind is ${kind}`);
    }
    if (isSite && baseUrl !== undefined) faults.push(`${path}.baseUrl: only folders have one; remove it`);
  }
  return faults;
}
