import type { ServiceId } from "@turnpike/base";
import type { RpcType } from "@turnpike/protocol";

/** A JSON Schema (draft 2020-12). */
export type JsonSchema = Readonly<Record<string, unknown>> | boolean;

/** How a family of services is spoken to; a network may have two (EVM and Cosmos-style). */
export type FamilyId =
  | "evm"
  | "cosmos"
  | "solana"
  | "near"
  | "sui"
  | "radix"
  | "tron"
  | "bitcoin"
  | "beacon"
  | "search"
  | "http";

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
  /** `eth_call`, or `GET /cosmos/auth/v1beta1/accounts/{address}`. */
  readonly name: string;
  readonly rpcType: RpcType;
  readonly description: string;
  /** Schema of `params` (JSON-RPC) or of the body (HTTP); undefined: anything. */
  readonly params?: JsonSchema;
  /** Schema of `result` (JSON-RPC) or of the body (HTTP); undefined: undeclared. */
  readonly result?: JsonSchema;
  /** An example request body. */
  readonly example?: Readonly<Record<string, unknown>>;
  /** Sticks to the supplier that made the filter: `create` makes one, `use` needs its maker. Never retried or hedged. */
  readonly filter?: "create" | "use";
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
  readonly operations: ReadonlyMap<string, Operation>;
  /** Largest request body in bytes. */
  readonly maxBodyBytes: number;
}
