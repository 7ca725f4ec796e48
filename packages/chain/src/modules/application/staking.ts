import { application, type base, createMessage } from "@turnpike/proto";
import { unbondingEndHeight } from "@turnpike/protocol";
import { accountBytes, addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { done, fail, type Outcome, type TxFault, wrapped } from "../../state/outcome.ts";
import { createParsed, type Parsed } from "../../state/parsed.ts";
import { coinAmount, coinText, hasAmount, STAKE_DENOM, stakeFault, upokt } from "../../state/stakes.ts";
import { emit } from "../../state/typed-event.ts";
import { sendCoinsToModule } from "../bank/transfers.ts";
import { getSharedParams, sessionEnd } from "../shared/state.ts";
import { APPLICATION } from "./errors.ts";
import { serviceConfigsFault, withServices } from "./service-configs.ts";
import { APPLICATION_MODULE, getApplication, minApplicationStakeUpokt, setApplication, stakeUpokt } from "./state.ts";

/** Smallest limit of what an application spends in a session, in upokt. */
const MIN_SPEND_LIMIT_UPOKT = 1_000_000n;

/** A fault of an application's address in a message. */
export function applicationAddressFault(address: string): TxFault | undefined {
  const fault = addressFault(address);
  if (fault === undefined) return undefined;
  return fail(APPLICATION.invalidAddress, `invalid application address ${address}; (${fault})`).fault;
}

/** Why a coin is no spend limit; none, and zero, are. */
export function spendLimitFault(limit: base.Coin | undefined): TxFault | undefined {
  if (limit === undefined) return undefined;
  const amount = coinAmount(limit);
  const invalid = (text: string): TxFault => fail(APPLICATION.invalidSpendLimit, text).fault;
  if (!hasAmount(limit)) return invalid(`per-session spend limit has no amount: ${coinText(limit)}`);
  if (amount < 0n) return invalid(`per-session spend limit cannot be negative: ${coinText(limit)}`);
  if (amount === 0n) return undefined;
  if (limit.denom !== STAKE_DENOM) {
    return invalid(`invalid per-session spend limit denom, expecting: upokt, got: ${limit.denom}`);
  }
  if (amount >= MIN_SPEND_LIMIT_UPOKT) return undefined;
  return invalid(`per_session_spend_limit ${coinText(limit)} must be at least ${MIN_SPEND_LIMIT_UPOKT}upokt`);
}

/** Why a stake message cannot be right, whatever the state is. */
export function stakeMessageFault(message: application.MsgStakeApplication): TxFault | undefined {
  const fault =
    applicationAddressFault(message.address) ??
    stakeFault(message.stake, { kind: APPLICATION.invalidStake, who: "application", beforeDenom: ":" });
  if (fault !== undefined) return fault;
  const services = serviceConfigsFault(message.services);
  if (services !== undefined) return fail(APPLICATION.invalidServiceConfigs, services).fault;
  return spendLimitFault(message.perSessionSpendLimit);
}

// No limit given keeps the one there is, and zero clears it.
function withLimit(
  app: Parsed<application.Application>,
  limit: base.Coin | undefined,
): Parsed<application.Application> {
  if (limit === undefined) return app;
  const amount = coinAmount(limit);
  return { ...app, perSessionSpendLimit: amount === 0n ? undefined : upokt(amount) };
}

/** Runs a stake message: a new application, or more stake and other services of one that is there. */
export function stakeApplication(
  ctx: Context,
  message: Parsed<application.MsgStakeApplication>,
): Outcome<application.MsgStakeApplicationResponse> {
  const { address } = message;
  const amount = coinAmount(message.stake);
  const old = getApplication(ctx, address);
  const before = old === undefined ? 0n : stakeUpokt(old);
  if (old !== undefined && amount <= before) {
    const text = `stake amount ${amount}upokt must be higher than previous stake amount ${before}upokt`;
    return failStatus("InvalidArgument", wrapped(APPLICATION.invalidStake, text));
  }
  const least = minApplicationStakeUpokt(ctx);
  if (amount < least) {
    const text = `application ${goQuoted(address)} must stake at least ${least}upokt`;
    return failStatus("InvalidArgument", wrapped(APPLICATION.invalidStake, text));
  }
  const escrow = [{ denom: STAKE_DENOM, amount: amount - before }];
  const sent = sendCoinsToModule(ctx, accountBytes(address), APPLICATION_MODULE, escrow);
  if (!sent.ok) return failStatus("Internal", sent.fault.text);
  const begun =
    old === undefined
      ? createParsed(application.ApplicationSchema, { address, serviceConfigs: message.services })
      : withServices(ctx, old, message.services);
  const changed = withLimit(
    { ...begun, stake: upokt(amount), unstakeSessionEndHeight: 0n },
    message.perSessionSpendLimit,
  );
  setApplication(ctx, changed);
  const event = { application: changed, sessionEndHeight: sessionEnd(ctx) };
  if (old !== undefined && old.unstakeSessionEndHeight !== 0n) {
    emit(ctx, application.EventApplicationUnbondingCanceledSchema, event);
  }
  emit(ctx, application.EventApplicationStakedSchema, event);
  return done(createMessage(application.MsgStakeApplicationResponseSchema));
}

/** Lets an application's stake go from the end of this session on, and says so. */
function beginApplicationUnbonding(
  ctx: Context,
  found: Parsed<application.Application>,
  reason: application.ApplicationUnbondingReason,
): Parsed<application.Application> {
  const params = getSharedParams(ctx);
  const sessionEndHeight = sessionEnd(ctx);
  const changed = { ...found, unstakeSessionEndHeight: sessionEndHeight };
  setApplication(ctx, changed);
  emit(ctx, application.EventApplicationUnbondingBeginSchema, {
    application: changed,
    reason,
    sessionEndHeight,
    unbondingEndHeight: unbondingEndHeight("application", params, sessionEndHeight),
  });
  return changed;
}

/** Why an unstake message cannot be right, whatever the state is. */
export function unstakeMessageFault({ address }: application.MsgUnstakeApplication): TxFault | undefined {
  const fault = addressFault(address);
  if (fault === undefined) return undefined;
  return fail(APPLICATION.invalidAddress, `invalid address address (${fault})`).fault;
}

/** Runs an unstake message. */
export function unstakeApplication(
  ctx: Context,
  { address }: application.MsgUnstakeApplication,
): Outcome<application.MsgUnstakeApplicationResponse> {
  const found = getApplication(ctx, address);
  const who = `application with address ${goQuoted(address)}`;
  if (found === undefined) return failStatus("NotFound", wrapped(APPLICATION.notFound, who));
  if (found.unstakeSessionEndHeight !== 0n) {
    return failStatus("FailedPrecondition", wrapped(APPLICATION.isUnstaking, who));
  }
  if (found.pendingTransfer !== undefined) {
    return failStatus("FailedPrecondition", wrapped(APPLICATION.hasPendingTransfer, who));
  }
  beginApplicationUnbonding(ctx, found, application.ApplicationUnbondingReason.ELECTIVE);
  return done(createMessage(application.MsgUnstakeApplicationResponseSchema));
}
