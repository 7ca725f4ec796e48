import type { Module } from "@turnpike/chain";
import type { ApiMethod, ApiModules } from "./api-method.ts";
import { appReflectionService } from "./app-reflection-service.ts";
import { type NodeServiceOptions, nodeService } from "./node-service.ts";
import { tendermintService } from "./tendermint-service.ts";
import { txService } from "./tx-service.ts";

/** What of the application's modules is shown to the outside. */
export interface ApiSurface {
  /** gRPC paths of the modules' queries. */
  readonly queryPaths: readonly string[];
  /** Type URLs of the messages that transactions may hold. */
  readonly messageTypeUrls: readonly string[];
}

/** The surface of an application that is made of these modules. */
export function apiSurface(modules: readonly Module[]): ApiSurface {
  return {
    queryPaths: modules.flatMap(({ queries }) => Object.keys(queries ?? {})),
    messageTypeUrls: modules.flatMap(({ messages }) => Object.keys(messages ?? {})),
  };
}

export interface ChainApiOptions extends NodeServiceOptions {
  readonly surface: ApiSurface;
}

/**
 * The methods beside the modules' queries, by gRPC path: transactions, blocks, validators, the node and what the application
 * is made of. The one table of them for gRPC, REST and `abci_query`.
 */
export function baseServices(
  { surface, ...node }: ChainApiOptions,
  modules: ApiModules,
): ReadonlyMap<string, ApiMethod> {
  return new Map(
    Object.entries({
      ...txService(modules),
      ...tendermintService(modules),
      ...nodeService(node, modules),
      ...appReflectionService(surface, modules),
    }),
  );
}
