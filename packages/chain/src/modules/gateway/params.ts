import { createMessage, gateway } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, fail, SDK, type TxFault } from "../../state/outcome.ts";
import { coinAmount, coinText, STAKE_DENOM } from "../../state/stakes.ts";
import { wrongAuthorityText } from "../shared/messages.ts";
import { authorityFault } from "../shared/params.ts";
import { GATEWAY } from "./errors.ts";
import { gatewayParams } from "./state.ts";

/** Why parameters cannot be; undefined when they can. */
export function gatewayParamsFault({ minStake }: gateway.Params): TxFault | undefined {
  const fault = (text: string): TxFault => fail(GATEWAY.paramInvalid, text).fault;
  if (minStake === undefined) return fault("missing min_stake");
  if (minStake.denom !== STAKE_DENOM) {
    return fault(`invalid min_stake denom ${goQuoted(minStake.denom)}; expected ${goQuoted(STAKE_DENOM)}`);
  }
  if (coinAmount(minStake) > 0n) return undefined;
  return fault(`invalid min stake amount must be greater than zero: ${coinText(minStake)}`);
}

function updateFault({ authority, name, asType }: gateway.MsgUpdateParam): TxFault | undefined {
  const address = addressFault(authority);
  if (address !== undefined) return fail(SDK.invalidAddress, `invalid authority address (${address})`).fault;
  if (asType.case === undefined) return fail(GATEWAY.paramInvalid, "missing param AsType").fault;
  if (name !== "min_stake") return fail(GATEWAY.paramInvalid, `unsupported param ${goQuoted(name)}`).fault;
  return gatewayParamsFault(createMessage(gateway.ParamsSchema, { minStake: asType.value }));
}

function paramsFault({ authority, params }: gateway.MsgUpdateParams): TxFault | undefined {
  return authorityFault(authority) ?? gatewayParamsFault(params ?? createMessage(gateway.ParamsSchema));
}

function setParams(ctx: Context, params: gateway.Params | undefined): void {
  gatewayParams.set(ctx, undefined, params ?? createMessage(gateway.ParamsSchema));
}

/** Handlers of the two messages that change parameters. */
export function gatewayParamMessages(authority: string): readonly [MessageHandler, MessageHandler] {
  const refused = (got: string): string => wrongAuthorityText(GATEWAY.invalidSigner, authority, got);
  return [
    messageHandler(gateway.MsgUpdateParamsSchema, gateway.MsgUpdateParamsResponseSchema, {
      signers: (message) => [message.authority],
      validate: paramsFault,
      run(ctx, message) {
        if (message.authority !== authority) return failStatus("PermissionDenied", refused(message.authority));
        // The real chain's two log lines read the old ones.
        for (let i = 0; i < 2; i++) gatewayParams.chargeRead(ctx, undefined);
        setParams(ctx, message.params);
        return done(createMessage(gateway.MsgUpdateParamsResponseSchema));
      },
    }),
    messageHandler(gateway.MsgUpdateParamSchema, gateway.MsgUpdateParamResponseSchema, {
      signers: (message) => [message.authority],
      validate: updateFault,
      run(ctx, message) {
        if (message.authority !== authority) return failStatus("InvalidArgument", refused(message.authority));
        gatewayParams.chargeRead(ctx, undefined);
        setParams(
          ctx,
          createMessage(
            gateway.ParamsSchema,
            message.asType.value === undefined ? {} : { minStake: message.asType.value },
          ),
        );
        return done(createMessage(gateway.MsgUpdateParamResponseSchema));
      },
    }),
  ];
}
