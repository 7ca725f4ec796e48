import { AppError } from "@turnpike/base";
import { moduleAddressBytes } from "@turnpike/crypto";
import { createMessage, gateway } from "@turnpike/proto";
import { isSessionEnd, unbondingEndHeight } from "@turnpike/protocol";
import { accountBytes, addressFault } from "../../state/addresses.ts";
import { runPart } from "../../state/block-parts.ts";
import type { Context } from "../../state/context.ts";
import { MAX_UNBONDING_BYTES, withinEventBytes } from "../../state/event-bytes.ts";
import { isHeight } from "../../state/heights.ts";
import { type Module, moduleGenesis } from "../../state/module.ts";
import { type Parsed, parsedRecord } from "../../state/parsed.ts";
import { coinAmount, STAKE_DENOM, stakeFault } from "../../state/stakes.ts";
import { emit } from "../../state/typed-event.ts";
import { poolFault } from "../bank/pools.ts";
import { sendCoins } from "../bank/transfers.ts";
import { metadataFault } from "../shared/services.ts";
import { getSharedParams, getSharedParamsAt } from "../shared/state.ts";
import { GATEWAY } from "./errors.ts";
import { forEvent, type GatewayOptions, gatewayMessages } from "./messages.ts";
import { gatewayParamsFault } from "./params.ts";
import { GATEWAY_QUERIES } from "./queries.ts";
import {
  DEFAULT_GATEWAY_PARAMS,
  GATEWAY_MODULE,
  gatewayParams,
  gateways,
  getGateway,
  getGatewayParams,
  getUnstakingGateways,
  removeGateway,
  setGateway,
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

// Those above the maximum of a block go at the end of the next session.
// By the parameters at the unstaking, so that a later change does not move the end (x/gateway/keeper/unbond_gateways.go).
function endBlock(ctx: Context): undefined {
  const height = ctx.block.heightBlocks;
  if (!isSessionEnd(getSharedParams(ctx), height)) return;
  for (const found of withinEventBytes(ctx, getUnstakingGateways(ctx), MAX_UNBONDING_BYTES)) {
    const since = found.unstakeSessionEndHeight;
    const endHeight = unbondingEndHeight("gateway", getSharedParamsAt(ctx, since), since);
    if (endHeight > height) continue;
    runPart(ctx, { part: "unbonding", item: found.address }, (branch) => unbond(branch, found, endHeight));
  }
}

// A gateway whose stake cannot be paid out stays, and is tried again at the end of the next session.
function unbond(ctx: Context, found: Parsed<gateway.Gateway>, unbondingHeight: bigint): void {
  const stake = [{ denom: STAKE_DENOM, amount: coinAmount(found.stake) }];
  const sent = sendCoins(ctx, moduleAddressBytes(GATEWAY_MODULE), accountBytes(found.address), stake);
  if (!sent.ok) throw new AppError("INTERNAL", { detail: { gateway: found.address, fault: sent.fault.text } });
  removeGateway(ctx, found.address);
  emit(ctx, gateway.EventGatewayUnbondingEndSchema, {
    gateway: forEvent(found),
    sessionEndHeight: ctx.block.heightBlocks,
    unbondingEndHeight: unbondingHeight,
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
    }),
    endBlock,
  };
}
