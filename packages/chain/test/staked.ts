import { moduleAddress } from "@turnpike/crypto";
import { application, createMessage, gateway } from "@turnpike/proto";
import { setApplication } from "../src/modules/application/state.ts";
import { getGateway, setGateway } from "../src/modules/gateway/state.ts";
import type { Context } from "../src/state/context.ts";
import type { Parsed } from "../src/state/parsed.ts";
import { upokt } from "../src/state/stakes.ts";
import { planted } from "./planted.ts";
import { fund } from "./recorded-tx.ts";

/** An application for a test; what is not given is as it begins. */
export interface TestApplication {
  readonly address: string;
  readonly stakeUpokt: bigint;
  readonly serviceId: string;
  readonly gateways?: readonly string[];
  readonly unstakeSessionEndHeight?: bigint;
  /** Gateways that were left, by session end. */
  readonly left?: Readonly<Record<string, readonly string[]>>;
  readonly transfer?: { readonly destinationAddress: string; readonly sessionEndHeight: bigint };
  readonly spendLimitUpokt?: bigint;
}

/** Stakes an application without a transaction: the record, and the coins in the module's account. */
export function addApplication(ctx: Context, given: TestApplication): Parsed<application.Application> {
  const lists = Object.entries(given.left ?? {}).map(
    ([height, gatewayAddresses]) =>
      [
        height,
        createMessage(application.UndelegatingGatewayListSchema, { gatewayAddresses: [...gatewayAddresses] }),
      ] as const,
  );
  const app = createMessage(application.ApplicationSchema, {
    address: given.address,
    stake: upokt(given.stakeUpokt),
    serviceConfigs: [{ serviceId: given.serviceId }],
    delegateeGatewayAddresses: [...(given.gateways ?? [])],
    unstakeSessionEndHeight: given.unstakeSessionEndHeight ?? 0n,
    pendingUndelegations: Object.fromEntries(lists),
    ...(given.transfer === undefined
      ? {}
      : { pendingTransfer: createMessage(application.PendingApplicationTransferSchema, given.transfer) }),
    ...(given.spendLimitUpokt === undefined ? {} : { perSessionSpendLimit: upokt(given.spendLimitUpokt) }),
  });
  const record = planted(app);
  setApplication(ctx, record);
  fund(ctx, moduleAddress("application"), given.stakeUpokt);
  return record;
}

/** Stakes a gateway without a transaction, unless it is there. */
export function addGateway(ctx: Context, address: string, stakeUpokt = 2_000_000n, unstakeSessionEndHeight = 0n): void {
  if (getGateway(ctx, address) !== undefined) return;
  const record = createMessage(gateway.GatewaySchema, { address, stake: upokt(stakeUpokt), unstakeSessionEndHeight });
  setGateway(ctx, planted(record));
  fund(ctx, moduleAddress("gateway"), stakeUpokt);
}
