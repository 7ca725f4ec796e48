import type { DescMessage, Message } from "@bufbuild/protobuf";
import { createMessage, shared, typeUrlOf } from "@turnpike/proto";
import type { Collection } from "../../state/collection.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, type FaultKind, fail, type Outcome, type TxFault } from "../../state/outcome.ts";
import type { Versions } from "../../state/versions.ts";
import { SHARED } from "./errors.ts";
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

interface ParamsUpdate<P> extends Message {
  readonly authority: string;
  readonly params?: P | undefined;
}

/** A module whose `MsgUpdateParams` and `MsgUpdateParam` are validated a second time when they run. */
export interface RevalidatedParams<P, Stored extends P, Update> {
  /** The module's part of `@turnpike/proto`. */
  readonly schemas: Readonly<
    Record<
      | "MsgUpdateParamsSchema"
      | "MsgUpdateParamsResponseSchema"
      | "MsgUpdateParamSchema"
      | "MsgUpdateParamResponseSchema",
      DescMessage
    >
  >;
  readonly collection: Collection<undefined, Stored>;
  /** Earlier values, by which sessions under way are settled. */
  readonly past: Versions<Stored>;
  /** Parameters with zero values. */
  readonly empty: () => P;
  /** What `MsgUpdateParam` is validated against before the state is known. */
  readonly defaults: P;
  /** These parameters with the one of the message, or what is wrong with it. */
  readonly changed: (params: P, message: Update) => Outcome<P>;
  readonly paramsFault: (params: P) => TxFault | undefined;
  /** Parameters as they are stored, which nothing was wrong with. */
  readonly stored: (params: P) => Stored;
  readonly authorityFault: (authority: string) => TxFault | undefined;
  readonly invalidSigner: FaultKind;
  /** gRPC status of a `MsgUpdateParam` that another than the authority sends. */
  readonly wrongAuthorityStatus: "InvalidArgument" | "PermissionDenied";
}

/** Handlers of the two messages that change a module's parameters, by type URL. */
export function revalidatedParamMessages<P, Stored extends P, Update extends Message & { readonly authority: string }>(
  authority: string,
  { schemas, collection, past, empty, changed, paramsFault, stored, ...module }: RevalidatedParams<P, Stored, Update>,
): Record<string, MessageHandler> {
  const wrongAuthority = (got: string): string => wrongAuthorityText(module.invalidSigner, authority, got);
  const noteBefore = (ctx: Context): void => past.note(ctx, "", collection.get(unmetered(ctx), undefined));
  const signers = (message: Message & { readonly authority: string }): string[] => [message.authority];
  const validateParams = (message: ParamsUpdate<P>): TxFault | undefined =>
    module.authorityFault(message.authority) ?? paramsFault(message.params ?? empty());
  const validateParam = (message: Update): TxFault | undefined => {
    const next = changed(module.defaults, message);
    return module.authorityFault(message.authority) ?? (next.ok ? undefined : next.fault);
  };
  return {
    [typeUrlOf(schemas.MsgUpdateParamsSchema)]: {
      schema: schemas.MsgUpdateParamsSchema,
      response: schemas.MsgUpdateParamsResponseSchema,
      signers,
      spending: () => [],
      validate: validateParams,
      run(ctx: Context, message: ParamsUpdate<P>): Outcome<Message> {
        const fault = validateParams(message);
        if (fault !== undefined) return failStatus("InvalidArgument", fault.text);
        if (message.authority !== authority) return failStatus("PermissionDenied", wrongAuthority(message.authority));
        // The real chain's log line reads the old ones.
        collection.chargeRead(ctx, undefined);
        noteBefore(ctx);
        collection.set(ctx, undefined, stored(message.params ?? empty()));
        return done(createMessage(schemas.MsgUpdateParamsResponseSchema));
      },
    },
    [typeUrlOf(schemas.MsgUpdateParamSchema)]: {
      schema: schemas.MsgUpdateParamSchema,
      response: schemas.MsgUpdateParamResponseSchema,
      signers,
      spending: () => [],
      validate: validateParam,
      run(ctx: Context, message: Update): Outcome<Message> {
        const fault = validateParam(message);
        if (fault !== undefined) return failStatus("InvalidArgument", fault.text);
        if (message.authority !== authority) {
          return failStatus(module.wrongAuthorityStatus, wrongAuthority(message.authority));
        }
        const next = changed(collection.get(ctx, undefined) ?? empty(), message);
        const wrong = next.ok ? paramsFault(next.value) : next.fault;
        if (wrong !== undefined || !next.ok) return failStatus("InvalidArgument", wrong?.text ?? "");
        noteBefore(ctx);
        collection.set(ctx, undefined, stored(next.value));
        return done(createMessage(schemas.MsgUpdateParamResponseSchema));
      },
    },
  };
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
