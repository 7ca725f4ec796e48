declare const brand: unique symbol;

/** A string or bytes that only its maker can make: `type ServiceId = Brand<string, "ServiceId">`. */
export type Brand<T, Name extends string> = T & { readonly [brand]: Name };

/** Id of a service: `^[a-z0-9][a-z0-9-]*$`, or `^[a-zA-Z0-9_-]+$` where only the chain has it. */
export type ServiceId = Brand<string, "ServiceId">;
/** Id of one request at the gateway, shown in errors and logs. */
export type RequestId = Brand<string, "RequestId">;
/** Unguessable id of one payment in the ledger; it is what `GET /settlements/{id}` takes. */
export type SettlementId = Brand<string, "SettlementId">;
/** CAIP-2 id of a payment network: `eip155:<chain id>`. */
export type NetworkId = Brand<string, "NetworkId">;
/**
 * Text of an account's address on the protocol's chain, in its one form: lower case, of the chain's prefix, with 1 to 255 bytes.
 * The chain's one parser makes it, and what moves money takes nothing else.
 */
export type AccountAddress = Brand<string, "AccountAddress">;
/** Bytes of an account's address on the protocol's chain, 1 to 255. */
export type AddressBytes = Brand<Uint8Array, "AddressBytes">;
/** An EVM address as its source spelled it; compare with {@link sameAddress}. */
export type Address = `0x${string}`;

/** True when both are the same address, whatever their letter case. */
export function sameAddress(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}
