import { type base, createMessage, supplier } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import { goQuoted } from "../../state/go-text.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, fail, SDK, type TxFault } from "../../state/outcome.ts";
import { coinAmount, coinText, hasAmount, STAKE_DENOM } from "../../state/stakes.ts";
import { wrongAuthorityText } from "../shared/messages.ts";
import { authorityFault } from "../shared/params.ts";
import { SUPPLIER } from "./errors.ts";
import { getSupplierParams, supplierParams } from "./state.ts";

function coinFault(coin: base.Coin | undefined, name: string): TxFault | undefined {
  const fault = (text: string): TxFault => fail(SUPPLIER.paramInvalid, text).fault;
  if (coin === undefined) return fault("missing param");
  if (coin.denom !== STAKE_DENOM) {
    return fault(`invalid ${name} denom ${goQuoted(coin.denom)}; expected ${goQuoted(STAKE_DENOM)}`);
  }
  if (!hasAmount(coin)) return fault(`invalid ${name} amount: ${coinText(coin)}`);
  if (coinAmount(coin) < 0n) return fault(`${name} amount must be positive: got ${coinText(coin)}`);
  return undefined;
}

function minStakeFault(coin: base.Coin | undefined): TxFault | undefined {
  const fault = coinFault(coin, "min_stake");
  if (fault !== undefined || coin === undefined || coinAmount(coin) > 0n) return fault;
  return fail(SUPPLIER.paramInvalid, `min_stake amount must be greater than 0: got ${coinText(coin)}`).fault;
}

/** Why parameters cannot be; undefined when they can. */
export function supplierParamsFault({ minStake, stakingFee }: supplier.Params): TxFault | undefined {
  return minStakeFault(minStake) ?? coinFault(stakingFee, "staking_fee");
}

function updateParamFault({ authority, name, asType }: supplier.MsgUpdateParam): TxFault | undefined {
  const address = addressFault(authority);
  if (address !== undefined) return fail(SDK.invalidAddress, `invalid authority address (${address})`).fault;
  if (asType.case === undefined) return fail(SUPPLIER.paramInvalid, "missing param AsType").fault;
  if (name === "min_stake") return minStakeFault(asType.value);
  if (name === "staking_fee") return coinFault(asType.value, name);
  return fail(SUPPLIER.paramInvalid, `unsupported param ${goQuoted(name)}`).fault;
}

function updateParamsFault({ authority, params }: supplier.MsgUpdateParams): TxFault | undefined {
  return authorityFault(authority) ?? supplierParamsFault(params ?? createMessage(supplier.ParamsSchema));
}

/** Handlers of the two messages that change parameters. */
export function supplierParamMessages(authority: string): readonly MessageHandler[] {
  const wrong = (got: string): string => wrongAuthorityText(SUPPLIER.invalidSigner, authority, got);
  return [
    messageHandler(supplier.MsgUpdateParamsSchema, supplier.MsgUpdateParamsResponseSchema, {
      signers: (message) => [message.authority],
      validate: updateParamsFault,
      run(ctx, message) {
        if (message.authority !== authority) {
          return failStatus("PermissionDenied", wrong(message.authority));
        }
        // The real chain's log line reads the old ones.
        supplierParams.chargeRead(ctx, undefined);
        supplierParams.set(ctx, undefined, message.params ?? createMessage(supplier.ParamsSchema));
        return done(createMessage(supplier.MsgUpdateParamsResponseSchema));
      },
    }),
    messageHandler(supplier.MsgUpdateParamSchema, supplier.MsgUpdateParamResponseSchema, {
      signers: (message) => [message.authority],
      validate: updateParamFault,
      run(ctx, message) {
        if (message.authority !== authority) {
          return failStatus("InvalidArgument", wrong(message.authority));
        }
        const { value } = message.asType;
        const change =
          value === undefined ? {} : message.name === "min_stake" ? { minStake: value } : { stakingFee: value };
        const changed: supplier.Params = { ...getSupplierParams(ctx), ...change };
        const fault = supplierParamsFault(changed);
        if (fault !== undefined) return failStatus("InvalidArgument", fault.text);
        supplierParams.set(ctx, undefined, changed);
        return done(createMessage(supplier.MsgUpdateParamResponseSchema));
      },
    }),
  ];
}
