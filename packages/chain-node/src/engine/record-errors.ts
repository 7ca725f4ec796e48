import { AppError } from "@turnpike/base";

/** The error of a record that is not what the engine wrote. */
export function damagedRecord(what: string): AppError {
  return new AppError("CHAIN_STORE_DAMAGED", { message: `The chain's store is damaged: ${what} cannot be read.` });
}
