import type { ServiceId } from "@turnpike/base";
import type { RpcType } from "@turnpike/protocol";

/** A JSON Schema (draft 2020-12). */
export type JsonSchema = Readonly<Record<string, unknown>> | boolean;

/** Every family of services. */
export const FAMILY_IDS = [
  "evm",
  "cosmos",
  "solana",
  "near",
  "sui",
  "radix",
  "tron",
  "bitcoin",
  "beacon",
  "search",
  "http",
] as const;

/** How a family of services is spoken to; a network may have two (EVM and Cosmos-style). */
export type FamilyId = (typeof FAMILY_IDS)[number];

/** Categories of spec §2.1. */
export type Category =
  | "web"
  | "blockchain"
  | "health"
  | "compliance"
  | "government"
  | "finance"
  | "research"
  | "documents"
  | "security"
  | "ai";

/** One declared operation: a JSON-RPC method, or a verb and path template. */
export interface Operation {
  /** `eth_call`, or `GET /cosmos/auth/v1beta1/accounts/{address}`; `POST /` is the body of the route itself. */
  readonly name: string;
  readonly rpcType: RpcType;
  readonly description: string;
  /** Schema of `params` (JSON-RPC) or of the body (HTTP); undefined: anything. */
  readonly params?: JsonSchema;
  /**
   * Schema of the answer; undefined: undeclared. Of `result` where the answer is a JSON-RPC object (`json_rpc` and
   * `comet_bft`, also its GET forms), of the whole body with `rest`.
   */
  readonly result?: JsonSchema;
  /** An example request body. */
  readonly example?: Readonly<Record<string, unknown>>;
  /** Sticks to the supplier that made the filter: `create` makes one, `use` needs its maker. Never retried or hedged. */
  readonly filter?: "create" | "use";
  /** An operator's word that it changes nothing, for a name that the catalogue does not know as a read. */
  readonly read?: boolean;
}

/** One service of the catalogue. */
export interface Service {
  readonly id: ServiceId;
  readonly name: string;
  readonly description: string;
  readonly category: Category;
  readonly tags: readonly string[];
  /** `call_` and the id with `-` as `_`. */
  readonly operationId: string;
  /** USD, six places. */
  readonly price: string;
  /** Empty: none is known. Then calls are checked for their form only, and sent once. */
  readonly families: readonly FamilyId[];
  /** EVM: decimal chain id. Undefined where there is none. */
  readonly evmChainId: number | undefined;
  /** Cosmos-style: chain id. Others: whatever names the network. */
  readonly chainId: string | undefined;
  readonly network: "mainnet" | "testnet" | undefined;
  /** Blocks that a supplier may lag behind. */
  readonly syncAllowanceBlocks: number | undefined;
  readonly paid: boolean;
  /** True when it is on the public relay. */
  readonly free: boolean;
  /** True: its id is untrusted text, so that texts for language models leave it out. */
  readonly isUnlisted?: true;
  readonly operations: ReadonlyMap<string, Operation>;
  /** Largest request body in bytes. */
  readonly maxBodyBytes: number;
  /** An operator's own image; undefined: the gateway's `/icons/{id}.svg`. */
  readonly iconUrl?: string;
}

/** What an operator may change of a service that the catalogue has. Absent: as it is. */
export interface ServiceOverride {
  readonly name?: string;
  readonly description?: string;
  readonly category?: Category;
  /** Replaces the tags; the category is always one of them. */
  readonly tags?: readonly string[];
  /** USD, up to six places. */
  readonly price?: string;
  readonly families?: readonly FamilyId[];
  /** EVM: decimal chain id that back-ends must have. */
  readonly evmChainId?: number;
  readonly chainId?: string;
  readonly network?: "mainnet" | "testnet";
  readonly syncAllowanceBlocks?: number;
  readonly paid?: boolean;
  readonly free?: boolean;
  readonly maxBodyBytes?: number;
  readonly iconUrl?: string;
  /** Replaces all operations. */
  readonly operations?: readonly Operation[];
  /** Adds operations, or replaces those of the same name. */
  readonly addOperations?: readonly Operation[];
  /** Takes operations away, by name. */
  readonly removeOperations?: readonly string[];
  /** False takes the service out of the catalogue. */
  readonly enabled?: boolean;
}

/** A service that an operator adds. Without `operations` its families' own are used. */
export interface ServiceDefinition extends Omit<ServiceOverride, "addOperations" | "removeOperations" | "enabled"> {
  /** `^[a-z0-9][a-z0-9-]*$`, at most 63 characters: it is a host label. */
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly category: Category;
  readonly families: readonly FamilyId[];
}

/** All services that this gateway knows. */
export interface Catalogue {
  readonly services: ReadonlyMap<ServiceId, Service>;
  get(id: string): Service | undefined;
}
