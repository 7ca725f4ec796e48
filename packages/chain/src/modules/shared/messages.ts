import { createMessage, shared, typeUrlOf } from "@turnpike/proto";
import { failStatus } from "../../state/grpc-status.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, type FaultKind, fail } from "../../state/outcome.ts";
import { SHARED } from "./faults.ts";
import { recordParams } from "./history.ts";
import { sharedParamsFault, updateParamFault, updateParamsFault, withParam } from "./params.ts";
import { getSharedParams, sharedParams } from "./state.ts";

/** What messages that change parameters need to know of the chain. */
export interface ParamMessageOptions {
  /** Bech32 address whose messages change parameters. */
  readonly authority: string;
}

/** Text of the error of a message from another than the authority. */
export function wrongAuthorityText(kind: FaultKind, expected: string, got: string): string {
  return fail(kind, `invalid authority; expected ${expected}, got ${got}`).fault.text;
}

/** Handlers of the module's messages, by type URL. */
export function sharedMessages({ authority }: ParamMessageOptions): Record<string, MessageHandler> {
  return {
    [typeUrlOf(shared.MsgUpdateParamsSchema)]: messageHandler(
      shared.MsgUpdateParamsSchema,
      shared.MsgUpdateParamsResponseSchema,
      {
        signers: (message) => [message.authority],
        validate: updateParamsFault,
        run(ctx, message) {
          if (message.authority !== authority) {
            const text = wrongAuthorityText(SHARED.invalidSigner, authority, message.authority);
            return failStatus("PermissionDenied", text);
          }
          // The real chain's log line reads the old ones.
          sharedParams.chargeRead(ctx, undefined);
          recordParams(ctx, message.params ?? createMessage(shared.ParamsSchema));
          return done(createMessage(shared.MsgUpdateParamsResponseSchema));
        },
      },
    ),
    [typeUrlOf(shared.MsgUpdateParamSchema)]: messageHandler(
      shared.MsgUpdateParamSchema,
      shared.MsgUpdateParamResponseSchema,
      {
        signers: (message) => [message.authority],
        validate: updateParamFault,
        run(ctx, message) {
          if (message.authority !== authority) {
            const text = wrongAuthorityText(SHARED.invalidSigner, authority, message.authority);
            return failStatus("InvalidArgument", text);
          }
          const changed = withParam(getSharedParams(ctx), message);
          const fault = sharedParamsFault(changed);
          if (fault !== undefined) return failStatus("InvalidArgument", fault.text);
          recordParams(ctx, changed);
          return done(createMessage(shared.MsgUpdateParamResponseSchema));
        },
      },
    ),
  };
}
