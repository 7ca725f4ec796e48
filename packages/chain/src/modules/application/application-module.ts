import { AppError } from "@turnpike/base";
import { application, createMessage, typeUrlOf } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { isHeight } from "../../state/heights.ts";
import { type MessageHandler, type Module, messageHandler, moduleGenesis } from "../../state/module.ts";
import { parsedRecord } from "../../state/parsed.ts";
import { STAKE_DENOM, stakeFault } from "../../state/stakes.ts";
import { poolFault } from "../bank/pools.ts";
import { delegateToGateway, delegationFault, undelegateFromGateway } from "./delegating.ts";
import { endApplicationsBlock, UNFINISHED_LISTS } from "./end-block.ts";
import { APPLICATION } from "./errors.ts";
import { applicationParamMessages, applicationParamsFault } from "./params.ts";
import { APPLICATION_QUERIES } from "./queries.ts";
import { serviceConfigsFault } from "./service-configs.ts";
import {
  spendLimitFault,
  stakeApplication,
  stakeMessageFault,
  unstakeApplication,
  unstakeMessageFault,
} from "./staking.ts";
import {
  APPLICATION_MODULE,
  applicationParams,
  applications,
  DEFAULT_APPLICATION_PARAMS,
  getApplication,
  getApplicationParams,
  setApplication,
  stakeUpokt,
} from "./state.ts";
import { beginTransfer, transferFault } from "./transferring.ts";

/** What application messages need to know of the chain. */
export interface ApplicationOptions {
  /** Address whose messages change parameters. */
  readonly authority: string;
}

const invalid = (why: string): AppError =>
  new AppError("CONFIG_INVALID", { message: `The genesis of the applications is not valid: ${why}.` });

const GENESIS_WORDS = { kind: APPLICATION.invalidStake, who: "application", beforeDenom: "" } as const;

const heightsOf = ({ pendingUndelegations }: application.Application): bigint[] =>
  Object.keys(pendingUndelegations).map(BigInt);

function applicationFault(app: application.Application): string | undefined {
  const left = Object.values(app.pendingUndelegations).flatMap(({ gatewayAddresses }) => gatewayAddresses);
  const gateways = [...app.delegateeGatewayAddresses, ...left];
  const gateway = gateways.find((address) => addressFault(address) !== undefined);
  const history = app.serviceConfigHistory.find(({ service }) => service === undefined);
  // Settlement may have used up a stake, and a transfer of the real chain joins services: both must come back from an export.
  const usedUp = app.unstakeSessionEndHeight !== 0n && app.stake?.denom === STAKE_DENOM && app.stake.amount === "0";
  const services = app.serviceConfigs.length < 2 ? [app.serviceConfigs] : app.serviceConfigs.map((one) => [one]);
  const { unstakeSessionEndHeight, pendingTransfer } = app;
  const heights = [unstakeSessionEndHeight, pendingTransfer?.sessionEndHeight ?? 0n, ...heightsOf(app)];
  const destination = pendingTransfer === undefined ? undefined : addressFault(pendingTransfer.destinationAddress);
  return (
    addressFault(app.address) ??
    (heights.every(isHeight) ? undefined : "it has a height that no block has") ??
    (destination === undefined ? undefined : `its transfer's destination: ${destination}`) ??
    (usedUp ? undefined : stakeFault(app.stake, GENESIS_WORDS)?.text) ??
    (gateway === undefined ? undefined : `the gateway address ${gateway}`) ??
    services.map(serviceConfigsFault).find((fault) => fault !== undefined) ??
    (history === undefined ? undefined : "its service config history") ??
    spendLimitFault(app.perSessionSpendLimit)?.text
  );
}

function init(
  ctx: Context,
  { params = DEFAULT_APPLICATION_PARAMS, applicationList }: application.GenesisState,
): undefined {
  const fault = applicationParamsFault(params);
  if (fault !== undefined) throw invalid(fault.text);
  applicationParams.set(ctx, undefined, params);
  let staked = 0n;
  for (const [i, app] of applicationList.entries()) {
    const { address, pendingTransfer } = app;
    // Joining an application with itself would double its stake.
    if (pendingTransfer?.destinationAddress.toLowerCase() === address.toLowerCase()) {
      throw invalid(`application_list[${i}].pending_transfer: ${address} is transferred to itself`);
    }
    const why = applicationFault(app) ?? (getApplication(ctx, address) === undefined ? undefined : "it is there twice");
    if (why !== undefined) throw invalid(`application ${address}: ${why}`);
    setApplication(ctx, parsedRecord(app));
    staked += stakeUpokt(app);
  }
  const lacking = poolFault(ctx, APPLICATION_MODULE, staked);
  if (lacking !== undefined) throw invalid(lacking);
}

function messages(authority: string): Record<string, MessageHandler> {
  const handlers: readonly MessageHandler[] = [
    ...applicationParamMessages(authority),
    messageHandler(application.MsgStakeApplicationSchema, application.MsgStakeApplicationResponseSchema, {
      signers: (message) => [message.address],
      validate: stakeMessageFault,
      run: stakeApplication,
    }),
    messageHandler(application.MsgUnstakeApplicationSchema, application.MsgUnstakeApplicationResponseSchema, {
      signers: (message) => [message.address],
      validate: unstakeMessageFault,
      run: unstakeApplication,
    }),
    messageHandler(application.MsgDelegateToGatewaySchema, application.MsgDelegateToGatewayResponseSchema, {
      signers: (message) => [message.appAddress],
      validate: delegationFault,
      run: delegateToGateway,
    }),
    messageHandler(application.MsgUndelegateFromGatewaySchema, application.MsgUndelegateFromGatewayResponseSchema, {
      signers: (message) => [message.appAddress],
      validate: delegationFault,
      run: undelegateFromGateway,
    }),
    messageHandler(application.MsgTransferApplicationSchema, application.MsgTransferApplicationResponseSchema, {
      signers: (message) => [message.sourceAddress],
      validate: transferFault,
      run: beginTransfer,
    }),
  ];
  return Object.fromEntries(handlers.map((handler) => [typeUrlOf(handler.schema), handler]));
}

/** The module of applications: their stakes, services, delegations and transfers. */
export function applicationModule({ authority }: ApplicationOptions): Module {
  return {
    name: APPLICATION_MODULE,
    messages: messages(authority),
    queries: APPLICATION_QUERIES,
    genesis: moduleGenesis(application.GenesisStateSchema, {
      init,
      export: (ctx) =>
        createMessage(application.GenesisStateSchema, {
          params: getApplicationParams(ctx),
          applicationList: [...applications.entries(ctx)].map(([, app]) => app),
        }),
      lists: UNFINISHED_LISTS,
    }),
    endBlock: endApplicationsBlock,
  };
}
