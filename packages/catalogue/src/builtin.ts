import { readFileSync } from "node:fs";
import { AppError } from "@turnpike/base";
import { cosmosRestOperations } from "./cosmos-rest.ts";
import { COSMOS_RPC_OPERATIONS } from "./cosmos-rpc.ts";
import { evmOperations } from "./evm-operations.ts";
import { HTTP_SERVICES } from "./http-services.ts";
import { nativeOperations } from "./native-operations.ts";
import { FAMILY_IDS, type FamilyId, type Operation, type ServiceDefinition } from "./types.ts";

/** What one row of `data/networks.tsv` says beside the service's definition. */
interface NetworkFacts {
  readonly rest: boolean;
  readonly wasm: boolean;
}

const FAMILY_WORDS: Readonly<Record<FamilyId, string>> = {
  evm: "EVM JSON-RPC",
  cosmos: "CometBFT RPC and Cosmos REST",
  solana: "Solana JSON-RPC",
  near: "NEAR JSON-RPC",
  sui: "Sui JSON-RPC",
  radix: "Radix gateway API",
  tron: "Tron JSON-RPC and HTTP API",
  bitcoin: "Bitcoin JSON-RPC",
  beacon: "Ethereum beacon API",
  search: "Web search",
  http: "HTTP JSON",
};

function isFamily(text: string): text is FamilyId {
  return (FAMILY_IDS as readonly string[]).includes(text);
}

/** Operations that the families of a service bring along. */
export function familyOperations(id: string, families: readonly FamilyId[], facts: NetworkFacts): readonly Operation[] {
  return families.flatMap((family) => {
    if (family === "evm") return evmOperations(id);
    if (family === "cosmos") {
      return facts.rest ? [...COSMOS_RPC_OPERATIONS, ...cosmosRestOperations(id, facts.wasm)] : COSMOS_RPC_OPERATIONS;
    }
    return nativeOperations(family);
  });
}

function networkDefinition(line: string): ServiceDefinition {
  const [id = "", name = "", familyList = "", evmId = "", chainId = "", net, free, allowance = "", rest, wasm] =
    line.split("\t");
  const families = familyList.split(",").filter(isFamily);
  if (wasm === undefined || families.length === 0) {
    throw new AppError("INTERNAL", { detail: { file: "networks.tsv", line } });
  }
  const network = net === "testnet" ? "testnet" : "mainnet";
  const ways = families.map((family) => FAMILY_WORDS[family]).join(", ");
  const kind = network === "testnet" ? "test network" : "network";
  return {
    id,
    name,
    description: `Read-only ${ways} of the ${name} ${kind}, answered by independent node operators.`,
    category: "blockchain",
    families,
    tags: ["blockchain", ...families, network],
    ...(evmId === "" ? {} : { evmChainId: Number(evmId) }),
    ...(chainId === "" ? {} : { chainId }),
    network,
    ...(allowance === "" ? {} : { syncAllowanceBlocks: Number(allowance) }),
    free: free === "yes",
    operations: familyOperations(id, families, { rest: rest === "yes", wasm: wasm === "yes" }),
  };
}

function readNetworks(): readonly ServiceDefinition[] {
  const text = readFileSync(new URL("../data/networks.tsv", import.meta.url), "utf8");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return lines.slice(1).map(networkDefinition);
}

/** Every service that the catalogue has before an operator's changes. */
export const BUILTIN_SERVICES: readonly ServiceDefinition[] = [...HTTP_SERVICES, ...readNetworks()];

let reads: ReadonlyMap<FamilyId, ReadonlySet<string>> | undefined;

/** True for an operation that the catalogue sells as a read on a network of one of these families. */
export function isKnownRead(name: string, families: readonly FamilyId[]): boolean {
  if (reads === undefined) {
    const found = new Map<FamilyId, Set<string>>();
    for (const definition of BUILTIN_SERVICES) {
      for (const family of definition.families) {
        const names = found.get(family) ?? new Set();
        found.set(family, names);
        for (const operation of definition.operations ?? []) names.add(operation.name);
      }
    }
    reads = found;
  }
  const known = reads;
  return families.some((family) => known.get(family)?.has(name) === true);
}
