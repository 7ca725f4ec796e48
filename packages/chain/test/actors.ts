import { moduleAddress } from "@turnpike/crypto";
import { createMessage, shared } from "@turnpike/proto";
import { StateMachine } from "../src/app/state-machine.ts";
import { applicationModule } from "../src/modules/application/application-module.ts";
import { ensureModuleAccount, nextAccountNumber } from "../src/modules/auth/accounts.ts";
import { authModule } from "../src/modules/auth/auth-module.ts";
import { authzModule, handlersOf } from "../src/modules/authz/authz-module.ts";
import { bankModule } from "../src/modules/bank/bank-module.ts";
import { consensusModule } from "../src/modules/consensus/consensus-module.ts";
import { gatewayModule } from "../src/modules/gateway/gateway-module.ts";
import { sharedParams } from "../src/modules/shared/state.ts";
import type { Context } from "../src/state/context.ts";
import type { Module } from "../src/state/module.ts";
import { TestChain } from "./run-message.ts";

/** Address whose messages change parameters. */
export const AUTHORITY = moduleAddress("gov");

/** Shared parameters of the chain that was recorded: sessions of ten blocks. */
export const RECORDED_SHARED_PARAMS: shared.Params = createMessage(shared.ParamsSchema, {
  numBlocksPerSession: 10n,
  gracePeriodEndOffsetBlocks: 1n,
  claimWindowOpenOffsetBlocks: 1n,
  claimWindowCloseOffsetBlocks: 6n,
  proofWindowOpenOffsetBlocks: 1n,
  proofWindowCloseOffsetBlocks: 6n,
  applicationUnbondingPeriodSessions: 2n,
  supplierUnbondingPeriodSessions: 2n,
  gatewayUnbondingPeriodSessions: 1n,
  computeUnitsToTokensMultiplier: 42_000_000n,
  computeUnitCostGranularity: 1_000_000n,
  sessionGridAnchorHeight: 1n,
  sessionNumberAtAnchor: 1n,
});

/** Modules of accounts, money, gateways, applications and grants, and what else a test needs. */
export function actorModules(more: readonly Module[] = []): readonly Module[] {
  const modules: Module[] = [
    authModule({ moduleAccounts: {}, authority: AUTHORITY }),
    bankModule({ blocked: new Set([moduleAddress("fee_collector")]), authority: AUTHORITY }),
    authzModule({ handlers: handlersOf(() => modules) }),
    consensusModule(),
    gatewayModule({ authority: AUTHORITY }),
    applicationModule({ authority: AUTHORITY }),
    ...more,
  ];
  return modules;
}

/** A machine of {@link actorModules}. */
export function actorsMachine(more: readonly Module[] = []): StateMachine {
  return new StateMachine({ gasPrices: [] }, actorModules(more));
}

/** A chain of {@link actorModules} at a height, with the recorded shared parameters. */
export function actorsChain(heightBlocks: bigint, appState: Record<string, unknown> = {}): TestChain {
  const modules = actorModules();
  const machine = new StateMachine({ gasPrices: [] }, modules);
  const chain = new TestChain({ heightBlocks, appState }, { machine, handlers: handlersOf(() => modules)() });
  useSharedParams(chain.ctx);
  return chain;
}

const FREE_NUMBER = 100n;

/** Makes the accounts of modules, and lets all later ones have numbers that no recorded signer has. */
export function addModuleAccounts(ctx: Context): void {
  nextAccountNumber.set(ctx, undefined, FREE_NUMBER);
  for (const name of ["fee_collector", "application", "gateway", "gov"]) ensureModuleAccount(ctx, name, []);
}

/** Writes the shared parameters, which have no module in {@link actorsMachine}. */
export function useSharedParams(ctx: Context, params = RECORDED_SHARED_PARAMS): void {
  sharedParams.set(ctx, undefined, params);
}
