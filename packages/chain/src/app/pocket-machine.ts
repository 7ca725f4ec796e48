import { moduleAddress } from "@turnpike/crypto";
import type { cometTypes } from "@turnpike/proto";
import { unbuiltContentFault } from "../genesis/unbuilt-modules.ts";
import { applicationModule } from "../modules/application/application-module.ts";
import { APPLICATION_MODULE } from "../modules/application/state.ts";
import { authModule } from "../modules/auth/auth-module.ts";
import { authzModule } from "../modules/authz/authz-module.ts";
import { bankModule } from "../modules/bank/bank-module.ts";
import { consensusModule } from "../modules/consensus/consensus-module.ts";
import { gatewayModule } from "../modules/gateway/gateway-module.ts";
import { genutilModule } from "../modules/genutil/genutil-module.ts";
import { proofModule } from "../modules/proof/proof-module.ts";
import { serviceModule } from "../modules/service/service-module.ts";
import { sessionModule } from "../modules/session/session-module.ts";
import { sharedModule } from "../modules/shared/shared-module.ts";
import { stakingModule } from "../modules/staking/staking-module.ts";
import { supplierModule } from "../modules/supplier/supplier-module.ts";
import { tokenomicsModule } from "../modules/tokenomics/tokenomics-module.ts";
import { upgradeModule } from "../modules/upgrade/upgrade-module.ts";
import type { MessageHandler, Module } from "../state/module.ts";
import type { RuleSet } from "../state/rules.ts";
import type { GasPrice } from "../tx/fees.ts";
import { RULE_SETS } from "./rule-sets.ts";
import { StateMachine } from "./state-machine.ts";

/** The release of the network's own node whose behaviour this chain has. Relay miners ask for at least 0.1.25. */
export const PROTOCOL_VERSION = "0.1.35";

export interface PocketMachineOptions {
  /** What the mempool asks for; every node may have its own. */
  readonly gasPrices: readonly GasPrice[];
  /** Consensus parameters of the genesis, for who asks. */
  readonly consensusParams?: cometTypes.ConsensusParams;
  /** Rules that blocks can be run by, in their order; by default all that this program has. */
  readonly rules?: readonly RuleSet[];
  /** Heights at which a planned upgrade is dropped. */
  readonly skipHeights?: ReadonlySet<bigint>;
}

/** The relay protocol's state machine, and its modules for the servers that list them. */
export interface PocketMachine {
  readonly machine: StateMachine;
  readonly modules: readonly Module[];
}

/** Modules whose accounts hold stakes and mint. */
const ACTOR_PERMISSIONS = ["minter", "burner", "staking"];
const POOL_PERMISSIONS = ["burner", "staking"];

/** Accounts of modules, with what they may do, in the order in which a genesis numbers them. */
const MODULE_ACCOUNTS: Readonly<Record<string, readonly string[]>> = {
  fee_collector: [],
  distribution: [],
  bonded_tokens_pool: POOL_PERMISSIONS,
  not_bonded_tokens_pool: POOL_PERMISSIONS,
  gov: ["burner"],
  mint: ["minter"],
  service: ACTOR_PERMISSIONS,
  gateway: ACTOR_PERMISSIONS,
  [APPLICATION_MODULE]: ACTOR_PERMISSIONS,
  supplier: ACTOR_PERMISSIONS,
  proof: ACTOR_PERMISSIONS,
  tokenomics: ACTOR_PERMISSIONS,
  bank: ["minter"],
  migration: ["minter"],
  session: ACTOR_PERMISSIONS,
};

/** Accounts that no message may send coins to; those that hold stakes are not among them. */
const BLOCKED = ["fee_collector", "distribution", "mint", "bonded_tokens_pool", "not_bonded_tokens_pool"];

/** In what order blocks begin and end: an upgrade before all else, settlement before unbonding, parameters of the next session last. */
export const BLOCK_ORDER = {
  beginBlock: ["upgrade", "auth", "authz", "supplier"],
  endBlock: ["staking", "service", "session", "proof", "tokenomics", "gateway", "application", "supplier", "shared"],
};

/** The state machine of the relay protocol's chain. Its authority is the account of the module `gov`. */
export function pocketMachine({
  gasPrices,
  consensusParams,
  rules = RULE_SETS,
  skipHeights,
}: PocketMachineOptions): PocketMachine {
  const authority = moduleAddress("gov");
  const handlers = new Map<string, MessageHandler>();
  const modules: readonly Module[] = [
    // First: what a genesis begins with is read by the rules that it names.
    upgradeModule({ authority, rules, ...(skipHeights === undefined ? {} : { skipHeights }) }),
    authModule({ moduleAccounts: MODULE_ACCOUNTS, authority }),
    bankModule({ blocked: new Set(BLOCKED.map(moduleAddress)), authority }),
    stakingModule({ authority }),
    genutilModule(),
    authzModule({ handlers: () => handlers }),
    consensusModule(consensusParams === undefined ? {} : { params: consensusParams }),
    serviceModule({ authority }),
    gatewayModule({ authority }),
    applicationModule({ authority }),
    supplierModule({ authority }),
    sessionModule({ authority }),
    proofModule({ authority }),
    tokenomicsModule({ authority }),
    sharedModule({ authority }),
  ];
  for (const { messages = {} } of modules) {
    for (const [typeUrl, handler] of Object.entries(messages)) handlers.set(typeUrl, handler);
  }
  return {
    machine: new StateMachine({ gasPrices, order: BLOCK_ORDER, rules, genesisFault: unbuiltContentFault }, modules),
    modules,
  };
}
