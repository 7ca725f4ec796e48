import { type AddressBytes, AppError } from "@turnpike/base";
import { moduleAddressBytes } from "@turnpike/crypto";
import { application, base, createMessage, encodeMessage, type shared, supplier, tokenomics } from "@turnpike/proto";
import type {
  Operation,
  Settlement,
  SettlementApplication,
  SettlementEvent,
  SettlementSupplier,
} from "@turnpike/protocol";
import { accountBytes } from "../../state/addresses.ts";
import type { ChainEvent, Context } from "../../state/context.ts";
import type { Parsed } from "../../state/parsed.ts";
import { typedEvent } from "../../state/typed-event.ts";
import { setApplication } from "../application/state.ts";
import { burnCoins, mintCoins, sendCoins } from "../bank/transfers.ts";
import { removeClaim } from "../proof/state.ts";
import { endServices, setDehydratedSupplier } from "../supplier/state.ts";
import { forEvent } from "../supplier/unstake.ts";
import { MAX_EVENT_RECORD_BYTES } from "./settlement-bytes.ts";
import type { SettlementSource } from "./settlement-input.ts";

const coin = (upokt: bigint): base.Coin => createMessage(base.CoinSchema, { denom: "upokt", amount: upokt.toString() });

const unknown = (actor: string): AppError => new AppError("INTERNAL", { detail: { settledActor: actor } });

// An address of any length that a message accepts is an account, and paid as one.
function recipientBytes(operation: Extract<Operation, { kind: "mod_to_mod" | "mod_to_acct" }>): AddressBytes {
  return operation.kind === "mod_to_mod" ? moduleAddressBytes(operation.recipient) : accountBytes(operation.recipient);
}

/** Moves money as settlement says. @throws AppError INTERNAL when a module has too little: the stakes do not add up */
function move(ctx: Context, operation: Operation): void {
  // No coins at all, where a penalty of nothing is burned: the bank's events say so.
  const coins = operation.amountUpokt === 0n ? [] : [{ denom: "upokt", amount: operation.amountUpokt }];
  const moved =
    operation.kind === "mint"
      ? mintCoins(ctx, operation.module, coins)
      : operation.kind === "burn"
        ? burnCoins(ctx, operation.module, coins)
        : sendCoins(ctx, moduleAddressBytes(operation.sender), recipientBytes(operation), coins);
  if (!moved.ok) {
    throw new AppError("INTERNAL", { detail: { settlement: operation.kind, fault: moved.fault.text } });
  }
}

function wholeApplication(source: SettlementSource, settled: SettlementApplication): Parsed<application.Application> {
  const found = source.applications.get(settled.address);
  if (found === undefined) throw unknown(settled.address);
  return { ...found, stake: coin(settled.stakeUpokt), unstakeSessionEndHeight: settled.unstakeSessionEndHeight };
}

function wholeSupplier(source: SettlementSource, settled: SettlementSupplier): Parsed<shared.Supplier> {
  const found = source.suppliers.get(settled.operatorAddress);
  if (found === undefined) throw unknown(settled.operatorAddress);
  return {
    ...found,
    stake: coin(settled.stakeUpokt),
    unstakeSessionEndHeight: settled.unstakeSessionEndHeight,
    services: settled.services.flatMap((service) => source.configs.get(service) ?? []),
  };
}

/** An application as the event of a block's end shows it: without its lists where they are long, as each claim repeats it. */
function shownApplication(record: Parsed<application.Application>): application.Application {
  if (encodeMessage(application.ApplicationSchema, record).length <= MAX_EVENT_RECORD_BYTES) return record;
  const lists = { delegateeGatewayAddresses: [], pendingUndelegations: {}, serviceConfigHistory: [] };
  return { ...record, ...lists };
}

function chainEventOf(source: SettlementSource, event: SettlementEvent): ChainEvent {
  switch (event.type) {
    case "pocket.tokenomics.EventClaimExpired":
      return typedEvent(tokenomics.EventClaimExpiredSchema, event.value);
    case "pocket.tokenomics.EventClaimSettled": {
      const rewardDistributionDetailed = event.value.rewardDistributionDetailed.map((detail) => ({ ...detail }));
      const rewardDistribution = { ...event.value.rewardDistribution };
      const whole = { ...event.value, rewardDistribution, rewardDistributionDetailed };
      return typedEvent(tokenomics.EventClaimSettledSchema, whole);
    }
    case "pocket.tokenomics.EventApplicationOverserviced":
      return typedEvent(tokenomics.EventApplicationOverservicedSchema, event.value);
    case "pocket.tokenomics.EventSupplierSlashed":
      return typedEvent(tokenomics.EventSupplierSlashedSchema, event.value);
    case "pocket.tokenomics.EventClaimDiscarded":
      return typedEvent(tokenomics.EventClaimDiscardedSchema, event.value);
    case "pocket.tokenomics.EventSettlementBatch":
      return typedEvent(tokenomics.EventSettlementBatchSchema, event.value);
    case "pocket.tokenomics.EventValidatorRewardDistribution":
      return typedEvent(tokenomics.EventValidatorRewardDistributionSchema, event.value);
    case "pocket.tokenomics.EventSupplierRevShareFallbackDistribution":
      return typedEvent(tokenomics.EventSupplierRevShareFallbackDistributionSchema, event.value);
    case "pocket.tokenomics.EventApplicationReimbursementRequest":
      return typedEvent(tokenomics.EventApplicationReimbursementRequestSchema, event.value);
    case "pocket.application.EventApplicationUnbondingBegin": {
      const unbonding = shownApplication(wholeApplication(source, event.value.application));
      return typedEvent(application.EventApplicationUnbondingBeginSchema, {
        ...event.value,
        reason: application.ApplicationUnbondingReason.BELOW_MIN_STAKE,
        application: unbonding,
      });
    }
    case "pocket.supplier.EventSupplierUnbondingBegin": {
      // Without services, as in the event of its own unstaking: JSON writes a character of a URL as up to six.
      const unbonding = forEvent(wholeSupplier(source, event.value.supplier));
      return typedEvent(supplier.EventSupplierUnbondingBeginSchema, {
        ...event.value,
        reason: supplier.SupplierUnbondingReason.BELOW_MIN_STAKE,
        supplier: unbonding,
      });
    }
  }
}

// A supplier that begins to unbond leaves its services with this session, as one that asks for it does. On the real chain
// it stays in sessions and never unbonds.
function writeSupplier(ctx: Context, source: SettlementSource, settled: SettlementSupplier): void {
  setDehydratedSupplier(ctx, wholeSupplier(source, settled));
  const before = source.suppliers.get(settled.operatorAddress)?.unstakeSessionEndHeight;
  if (before === settled.unstakeSessionEndHeight) return;
  endServices(ctx, settled.operatorAddress, settled.unstakeSessionEndHeight + 1n);
}

/** Does what a settlement says: its steps in their order, then the records of actors, and the claims go. */
export function carryOut(ctx: Context, source: SettlementSource, { steps, changes }: Settlement): void {
  for (const step of steps) {
    if (step.kind === "operation") move(ctx, step.operation);
    else ctx.events.push(chainEventOf(source, step.event));
  }
  for (const settled of changes.applications) setApplication(ctx, wholeApplication(source, settled));
  for (const settled of changes.suppliers) writeSupplier(ctx, source, settled);
  for (const { sessionId, supplierOperatorAddress } of changes.removedClaims) {
    removeClaim(ctx, sessionId, supplierOperatorAddress);
  }
}
