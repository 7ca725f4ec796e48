import { application, createMessage } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import { goQuoted, goTypeOfValue } from "../../state/go-text.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, fail, SDK, type TxFault } from "../../state/outcome.ts";
import { coinAmount, coinText, STAKE_DENOM } from "../../state/stakes.ts";
import { wrongAuthorityText } from "../shared/messages.ts";
import { authorityFault } from "../shared/params.ts";
import { APPLICATION } from "./errors.ts";
import { applicationParams, getApplicationParams } from "./state.ts";

const invalid = (text: string): TxFault => fail(APPLICATION.paramInvalid, text).fault;

function maxGatewaysFault(most: bigint): TxFault | undefined {
  return most >= 1n ? undefined : invalid(`max_delegated_gateways must be greater than 0: got ${most}`);
}

function minStakeFault(coin: application.Params["minStake"]): TxFault | undefined {
  if (coin === undefined) return invalid("missing min_stake");
  if (coin.denom !== STAKE_DENOM) {
    return invalid(`invalid min_stake denom ${goQuoted(coin.denom)}; expected ${goQuoted(STAKE_DENOM)}`);
  }
  return coinAmount(coin) > 0n ? undefined : invalid(`invalid min_stake amount: ${coinText(coin)} <= 0`);
}

/** Why parameters cannot be; undefined when they can. */
export function applicationParamsFault(params: application.Params): TxFault | undefined {
  return maxGatewaysFault(params.maxDelegatedGateways) ?? minStakeFault(params.minStake);
}

function updateFault({ authority, name, asType }: application.MsgUpdateParam): TxFault | undefined {
  const address = addressFault(authority);
  if (address !== undefined) return fail(SDK.invalidAddress, `invalid authority address (${address})`).fault;
  if (asType.case === undefined) return invalid(`missing param AsType for parameter ${goQuoted(name)}`);
  const wrongType = (expected: typeof asType.case): TxFault => {
    const [wanted, got] = [goTypeOfValue(expected), goTypeOfValue(asType.case)];
    return invalid(`invalid type for param ${goQuoted(name)}; expected ${wanted}, got ${got}`);
  };
  if (name === "max_delegated_gateways") {
    return asType.case === "asUint64" ? maxGatewaysFault(asType.value) : wrongType("asUint64");
  }
  if (name === "min_stake") return asType.case === "asCoin" ? minStakeFault(asType.value) : wrongType("asCoin");
  return invalid(`unsupported param ${goQuoted(name)}`);
}

function paramsFault({ authority, params }: application.MsgUpdateParams): TxFault | undefined {
  return authorityFault(authority) ?? applicationParamsFault(params ?? createMessage(application.ParamsSchema));
}

/** Handlers of the two messages that change parameters. */
export function applicationParamMessages(authority: string): readonly [MessageHandler, MessageHandler] {
  const refused = (got: string): ReturnType<typeof failStatus> =>
    failStatus("PermissionDenied", wrongAuthorityText(APPLICATION.invalidSigner, authority, got));
  return [
    messageHandler(application.MsgUpdateParamsSchema, application.MsgUpdateParamsResponseSchema, {
      signers: (message) => [message.authority],
      validate: paramsFault,
      run(ctx, message) {
        if (message.authority !== authority) return refused(message.authority);
        // The real chain's log line reads the old ones.
        applicationParams.chargeRead(ctx, undefined);
        applicationParams.set(ctx, undefined, message.params ?? createMessage(application.ParamsSchema));
        return done(createMessage(application.MsgUpdateParamsResponseSchema));
      },
    }),
    messageHandler(application.MsgUpdateParamSchema, application.MsgUpdateParamResponseSchema, {
      signers: (message) => [message.authority],
      validate: updateFault,
      run(ctx, { authority: got, asType }) {
        if (got !== authority) return refused(got);
        const params = getApplicationParams(ctx);
        const changed =
          asType.case === "asUint64"
            ? { ...params, maxDelegatedGateways: asType.value }
            : { ...params, minStake: asType.value };
        const fault = applicationParamsFault(changed);
        if (fault !== undefined) return failStatus("InvalidArgument", fault.text);
        applicationParams.set(ctx, undefined, changed);
        return done(createMessage(application.MsgUpdateParamResponseSchema));
      },
    }),
  ];
}
