import { existsSync } from "node:fs";
import { AppError, writeAtomically } from "@turnpike/base";
import {
  type ChainProfile,
  type GenesisDocument,
  genesisFileText,
  LOCAL_ROLES,
  type LocalApplication,
  type LocalEconomy,
  type LocalRole,
  type LocalService,
  type LocalSupplier,
  localGenesis,
  type SuppliedService,
  type Visitor,
} from "@turnpike/chain";
import type { ChainSigner } from "@turnpike/chain-client";
import { chainHome, makeNodeFolder, readGenesis } from "@turnpike/chain-node";
import { namedKey } from "./named-key.ts";

/** Services that a new chain's suppliers serve, and where. Keys are made in the keys' folder. */
export interface EconomyPlan {
  readonly services: readonly SuppliedService[];
  /** Of `supplier-1`, `supplier-2` and `supplier-3`: the address of each one's relay server. */
  readonly supplierUrls: readonly [string, string, string];
}

/** The operators of an {@link EconomyPlan}, who owns each, and the operator's share of the reward. */
const ECONOMY_SUPPLIERS = [
  { operator: "supplier-1", owner: "supplier-1", operatorSharePercent: 100 },
  { operator: "supplier-2", owner: "supplier-2-owner", operatorSharePercent: 40 },
  { operator: "supplier-3", owner: "supplier-3-owner", operatorSharePercent: 10 },
] as const;

/** Names of the operators' keys, in the order of their addresses in {@link EconomyPlan}. */
export const ECONOMY_OPERATORS: readonly string[] = ECONOMY_SUPPLIERS.map(({ operator }) => operator);

/** Name of the key of the application that pays for a service. The first service's has a role of its own. */
function applicationKeyName(serviceId: string, firstServiceId: string): string {
  return serviceId === firstServiceId ? "application-1" : `application-${serviceId}`;
}

async function economyOf(plan: EconomyPlan, keysFolder: string, firstServiceId: string): Promise<LocalEconomy> {
  const signerOf = async (name: string): Promise<ChainSigner> => (await namedKey(keysFolder, name)).signer;
  const suppliers: LocalSupplier[] = [];
  for (const [at, { operator, owner, operatorSharePercent }] of ECONOMY_SUPPLIERS.entries()) {
    suppliers.push({
      operator: await signerOf(operator),
      owner: await signerOf(owner),
      url: plan.supplierUrls[at] ?? "",
      operatorSharePercent,
    });
  }
  const applications: LocalApplication[] = [];
  for (const { serviceId } of plan.services) {
    if (serviceId === firstServiceId) continue;
    applications.push({ serviceId, signer: await signerOf(applicationKeyName(serviceId, firstServiceId)) });
  }
  return { services: plan.services, suppliers, applications };
}

export interface InitChainOptions {
  readonly home: string;
  /** Where the accounts' keys are. */
  readonly keysFolder: string;
  readonly chainId: string;
  readonly profile: ChainProfile;
  readonly genesisTime: string;
  readonly services: readonly [LocalService, ...LocalService[]];
  readonly visitors?: readonly Visitor[];
  readonly supplierUrls: readonly [string, string];
  readonly economy?: EconomyPlan;
  /** Ed25519 key of the validator, 32 bytes. */
  readonly consensusKey: Uint8Array;
}

/** Writes a new chain's genesis. @throws AppError CHAIN_HOME when the folder has one already. */
export async function initChain(options: InitChainOptions): Promise<GenesisDocument> {
  const home = chainHome(options.home);
  if (existsSync(home.genesisFile)) {
    throw new AppError("CHAIN_HOME", {
      message: `${home.genesisFile} is there already; name an empty folder with --home, or remove this one.`,
    });
  }
  await makeNodeFolder(home);
  const signers = {} as Record<LocalRole, ChainSigner>;
  for (const role of LOCAL_ROLES) signers[role] = (await namedKey(options.keysFolder, role)).signer;
  const { economy: plan, ...rest } = options;
  const economy = plan === undefined ? {} : { economy: await economyOf(plan, options.keysFolder, rest.services[0].id) };
  const genesis = localGenesis({ ...rest, ...economy, signers });
  await writeAtomically(home.genesisFile, genesisFileText(genesis));
  return genesis;
}

/** Reads a chain's genesis, or makes the chain. */
export async function ensureChain(options: InitChainOptions): Promise<GenesisDocument> {
  const home = chainHome(options.home);
  return existsSync(home.genesisFile) ? readGenesis(home) : initChain(options);
}
