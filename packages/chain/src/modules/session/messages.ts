import { createMessage, session, typeUrlOf } from "@turnpike/proto";
import { failStatus } from "../../state/grpc-status.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done } from "../../state/outcome.ts";
import { type ParamMessageOptions, wrongAuthorityText } from "../shared/messages.ts";
import { SESSION } from "./errors.ts";
import { changeParams, updateParamFault, updateParamsFault } from "./params.ts";
import { sessionParams } from "./state.ts";

/** Handlers of the module's messages, by type URL. */
export function sessionMessages({ authority }: ParamMessageOptions): Record<string, MessageHandler> {
  return {
    [typeUrlOf(session.MsgUpdateParamsSchema)]: messageHandler(
      session.MsgUpdateParamsSchema,
      session.MsgUpdateParamsResponseSchema,
      {
        signers: (message) => [message.authority],
        validate: updateParamsFault,
        run(ctx, message) {
          if (message.authority !== authority) {
            const text = wrongAuthorityText(SESSION.invalidSigner, authority, message.authority);
            return failStatus("PermissionDenied", text);
          }
          // The real chain's log line reads the old ones.
          sessionParams.chargeRead(ctx, undefined);
          changeParams(ctx, message.params ?? createMessage(session.ParamsSchema));
          return done(createMessage(session.MsgUpdateParamsResponseSchema));
        },
      },
    ),
    [typeUrlOf(session.MsgUpdateParamSchema)]: messageHandler(
      session.MsgUpdateParamSchema,
      session.MsgUpdateParamResponseSchema,
      {
        signers: (message) => [message.authority],
        validate: updateParamFault,
        run(ctx, message) {
          if (message.authority !== authority) {
            const text = wrongAuthorityText(SESSION.invalidSigner, authority, message.authority);
            return failStatus("InvalidArgument", text);
          }
          const numSuppliersPerSession = message.asType.case === "asUint64" ? message.asType.value : 0n;
          sessionParams.chargeRead(ctx, undefined);
          changeParams(ctx, createMessage(session.ParamsSchema, { numSuppliersPerSession }));
          return done(createMessage(session.MsgUpdateParamResponseSchema));
        },
      },
    ),
  };
}
