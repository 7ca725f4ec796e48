import { AppError } from "@turnpike/base";
import { moduleAddressBytes } from "@turnpike/crypto";
import { createMessage, gateway } from "@turnpike/proto";
import { unbondingEndHeight } from "@turnpike/protocol";
import { accountBytes, addressFault } from "../../state/addresses.ts";
import { runPart } from "../../state/block-parts.ts";
import type { Context } from "../../state/context.ts";
import { addressType, heightType, recordType, type ValueOf } from "../../state/genesis-types.ts";
import { isHeight } from "../../state/heights.ts";
import { genesisList, type Module, moduleGenesis } from "../../state/module.ts";
import { type Parsed, parsedRecord } from "../../state/parsed.ts";
import { coinAmount, STAKE_DENOM, stakeFault } from "../../state/stakes.ts";
import { emit } from "../../state/typed-event.ts";
import { poolFault } from "../bank/pools.ts";
import { sendCoins } from "../bank/transfers.ts";
import { metadataFault } from "../shared/services.ts";
import { type DueItem, SessionEndQueue } from "../shared/session-end-queue.ts";
import { GATEWAY } from "./errors.ts";
import { forEvent, type GatewayOptions, gatewayMessages } from "./messages.ts";
import { gatewayParamsFault } from "./params.ts";
import { GATEWAY_QUERIES } from "./queries.ts";
import {
  DEFAULT_GATEWAY_PARAMS,
  enterUnstaking,
  formerUnstaking,
  GATEWAY_MODULE,
  gatewayParams,
  gateways,
  getGateway,
  getGatewayParams,
  removeGateway,
  setGateway,
  undelegatingGateways,
  unfinishedUnbonding,
  unstakingGateways,
} from "./state.ts";

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the gateways is not valid: ${why}.` });

function init(ctx: Context, { params = DEFAULT_GATEWAY_PARAMS, gatewayList }: gateway.GenesisState): undefined {
  const fault = gatewayParamsFault(params);
  if (fault !== undefined) throw invalid(fault.text);
  gatewayParams.set(ctx, undefined, params);
  let staked = 0n;
  for (const found of gatewayList) {
    const { address, stake, metadata, unstakeSessionEndHeight } = found;
    const why =
      addressFault(address) ??
      stakeFault(stake, { kind: GATEWAY.invalidStake, who: "gateway", beforeDenom: "" })?.text ??
      metadataFault(metadata)?.text ??
      (isHeight(unstakeSessionEndHeight) ? undefined : "it has a height that no block has") ??
      (getGateway(ctx, address) === undefined ? undefined : "it is there twice");
    if (why !== undefined) throw invalid(`gateway ${address}: ${why}`);
    setGateway(ctx, parsedRecord(found));
    staked += coinAmount(stake);
  }
  const lacking = poolFault(ctx, GATEWAY_MODULE, staked);
  if (lacking !== undefined) throw invalid(lacking);
}

const unbondings = new SessionEndQueue({
  entries: unstakingGateways,
  unfinished: unfinishedUnbonding,
  former: formerUnstaking,
  enter: enterUnstaking,
  // By the parameters at the unstaking, so that a later change does not move the end (x/gateway/keeper/unbond_gateways.go).
  endHeight: (params, since) => unbondingEndHeight("gateway", params, since),
  waitsForSettlement: false,
});

const UNDELEGATING_GATEWAY = recordType({ since_height: heightType, address: addressType });

function initUndelegating(ctx: Context, list: readonly ValueOf<typeof UNDELEGATING_GATEWAY>[]): undefined {
  for (const { since_height: since, address } of list) {
    // A chain that begins anew at block 1 counts other blocks than the exported one.
    const height = since < ctx.block.heightBlocks ? since : ctx.block.heightBlocks;
    if (undelegatingGateways.has(ctx, [height, address])) throw invalid(`undelegating_gateways has ${address} twice`);
    undelegatingGateways.set(ctx, [height, address], new Uint8Array(0));
  }
}

/** Gateways that left before all of their delegations had ended. The entries of the others follow from their records. */
function* exportUndelegating(ctx: Context): Generator<ValueOf<typeof UNDELEGATING_GATEWAY>> {
  for (const [[since, address]] of undelegatingGateways.entries(ctx)) {
    if (getGateway(ctx, address) === undefined) yield { since_height: since, address };
  }
}

function endBlock(ctx: Context): undefined {
  unbondings.run(ctx, (item) => {
    const found = getGateway(ctx, item.address);
    if (found === undefined || found.unstakeSessionEndHeight === 0n) return;
    runPart(ctx, { part: "unbonding", item: item.address }, (branch) => unbond(branch, found, item));
  });
}

// A gateway whose stake cannot be paid out stays, and is tried again at the end of the next session.
function unbond(ctx: Context, found: Parsed<gateway.Gateway>, { sessionEndHeight, endHeight }: DueItem): void {
  const stake = [{ denom: STAKE_DENOM, amount: coinAmount(found.stake) }];
  const sent = sendCoins(ctx, moduleAddressBytes(GATEWAY_MODULE), accountBytes(found.address), stake);
  if (!sent.ok) throw new AppError("INTERNAL", { detail: { gateway: found.address, fault: sent.fault.text } });
  removeGateway(ctx, found);
  emit(ctx, gateway.EventGatewayUnbondingEndSchema, {
    gateway: forEvent(found),
    sessionEndHeight,
    unbondingEndHeight: endHeight,
  });
}

/** The module of gateways: their stakes and their cards. */
export function gatewayModule(opts: GatewayOptions): Module {
  return {
    name: GATEWAY_MODULE,
    messages: gatewayMessages(opts),
    queries: GATEWAY_QUERIES,
    genesis: moduleGenesis(gateway.GenesisStateSchema, {
      init,
      export: (ctx) =>
        createMessage(gateway.GenesisStateSchema, {
          params: getGatewayParams(ctx),
          gatewayList: [...gateways.entries(ctx)].map(([, found]) => found),
        }),
      // For the real chain's genesis has no fields.
      lists: [
        unbondings.genesisList("unfinished_unbonding"),
        genesisList("undelegating_gateways", UNDELEGATING_GATEWAY, {
          init: initUndelegating,
          export: exportUndelegating,
        }),
      ],
    }),
    endBlock,
  };
}
