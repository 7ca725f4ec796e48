import { application, createMessage } from "@turnpike/proto";
import { messageCodec, noKey, textCodec } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";

/** Name of the module, of its part of the state, and of the account that holds its stakes. */
export const APPLICATION_MODULE = "application";

const module = APPLICATION_MODULE;

/** The parameters. */
export const applicationParams = new Collection({
  module,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(application.ParamsSchema),
});
/** Applications by bech32 address. Written through {@link setApplication} alone, which keeps the indexes. */
export const applications = new Collection({
  module,
  prefix: Uint8Array.of(1),
  key: textCodec,
  value: messageCodec(application.ApplicationSchema),
});

/** The parameters. */
export function getApplicationParams(ctx: Context): application.Params {
  return applicationParams.get(ctx, undefined) ?? createMessage(application.ParamsSchema);
}

/** An application; undefined when there is none. */
export function getApplication(ctx: Context, address: string): application.Application | undefined {
  return applications.get(ctx, address);
}

/** Writes an application, new or changed, and its entries in the indexes. */
export function setApplication(ctx: Context, changed: application.Application): void {
  applications.set(ctx, changed.address, changed);
}

/** Forgets an application and its entries in the indexes. */
export function removeApplication(ctx: Context, address: string): void {
  applications.remove(ctx, address);
}
