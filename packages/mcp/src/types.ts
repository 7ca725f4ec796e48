import type { Log } from "@turnpike/base";
import type { Client, SpendJournal } from "@turnpike/client";
import type { Deliveries } from "./deliveries.ts";
import type { GatewayDocuments } from "./documents.ts";
import type { McpSession } from "./mcp-session.ts";

export interface McpServerOptions {
  /** Base URL of the gateway, as it is shown. */
  readonly gateway: string;
  /** The product's version. */
  readonly version: string;
  /** Address that pays. */
  readonly buyer: string;
  /** Maximum that all sessions of the journal may spend together, in US dollars, as it is shown. */
  readonly totalUsd?: string;
  /** Maximum number of characters of a bought answer in one result; 40,000 by default. */
  readonly maxDataCharacters?: number;
}

export interface McpServerModules {
  /** Makes the client of one call, on the journal that it is given: budgets are held there. */
  readonly client: (journal: SpendJournal) => Client;
  readonly session: McpSession;
  readonly documents: Pick<GatewayDocuments, "services" | "route">;
  readonly log: Log;
  /** Ends calls under way when the process stops; a payment that was signed stays open. */
  readonly stopping?: AbortSignal;
}

/** Modules of the tools of one server. */
export interface ToolModules extends McpServerModules {
  readonly deliveries: Deliveries;
}
