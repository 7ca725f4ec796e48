import { supplier, typeUrlOf } from "@turnpike/proto";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { supplierParamMessages } from "./params.ts";
import { stakeSupplier, stakeSupplierFault } from "./stake.ts";
import { unstakeSupplier, unstakeSupplierFault } from "./unstake.ts";

/** What supplier messages need to know of the chain. */
export interface SupplierOptions {
  /** Address whose messages change parameters. */
  readonly authority: string;
}

/** Handlers of the suppliers' messages, by type URL. */
export function supplierMessages({ authority }: SupplierOptions): Record<string, MessageHandler> {
  const handlers: readonly MessageHandler[] = [
    ...supplierParamMessages(authority),
    messageHandler(supplier.MsgStakeSupplierSchema, supplier.MsgStakeSupplierResponseSchema, {
      signers: (message) => [message.signer],
      validate: stakeSupplierFault,
      run: stakeSupplier,
    }),
    messageHandler(supplier.MsgUnstakeSupplierSchema, supplier.MsgUnstakeSupplierResponseSchema, {
      signers: (message) => [message.signer],
      validate: unstakeSupplierFault,
      run: unstakeSupplier,
    }),
  ];
  return Object.fromEntries(handlers.map((handler) => [typeUrlOf(handler.schema), handler]));
}
