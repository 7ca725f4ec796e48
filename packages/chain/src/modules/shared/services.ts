import { utf8ToBytes } from "@turnpike/base";
import type { shared } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import { fail, type TxFault } from "../../state/outcome.ts";
import { SHARED } from "./errors.ts";

/** Most characters of a service's id. */
export const MAX_SERVICE_ID_BYTES = 42;

const MAX_NAME_BYTES = 169;
const MAX_CARD_BYTES = 256 * 1024;
const MAX_COMPUTE_UNITS = 2n << 20n;
const ID = /^[a-zA-Z0-9_-]+$/;
const NAME = /^[a-zA-Z0-9-_ ]+$/;

const bytesOf = (text: string): number => utf8ToBytes(text).length;

/** What is wrong with a service's id; undefined when nothing is. */
export function serviceIdFault(id: string): TxFault | undefined {
  if (id === "") return fail(SHARED.invalidServiceId, "empty service ID").fault;
  if (bytesOf(id) > MAX_SERVICE_ID_BYTES) {
    return fail(SHARED.invalidServiceId, `service ID '${id}' exceeds maximum length: ${MAX_SERVICE_ID_BYTES}`).fault;
  }
  if (!ID.test(id)) return fail(SHARED.invalidServiceId, `service ID '${id}' contains invalid characters`).fault;
  return undefined;
}

function nameFault(name: string): TxFault | undefined {
  if (name === "") return undefined;
  if (bytesOf(name) > MAX_NAME_BYTES) {
    return fail(SHARED.invalidServiceName, `service name '${name}' exceeds maximum length: ${MAX_NAME_BYTES}`).fault;
  }
  if (!NAME.test(name)) {
    return fail(SHARED.invalidServiceName, `service name '${name}' contains invalid characters`).fault;
  }
  return undefined;
}

/** What is wrong with the compute units of a relay; undefined when nothing is. */
export function computeUnitsFault(units: bigint): TxFault | undefined {
  const why =
    units === 0n
      ? "compute units per relay must be greater than 0"
      : units > MAX_COMPUTE_UNITS
        ? `compute units per relay must be less than ${MAX_COMPUTE_UNITS}`
        : undefined;
  if (why === undefined) return undefined;
  // The chain wraps one error into another, and the outer one counts.
  return fail(SHARED.invalidService, `${why}: ${SHARED.invalidComputeUnitsPerRelay.text}`).fault;
}

/** What is wrong with the card of a service or a gateway; no metadata is right. The content of the card is not checked here. */
export function metadataFault(metadata: { readonly card: Uint8Array } | undefined): TxFault | undefined {
  const got = metadata?.card.length;
  if (got === undefined) return undefined;
  if (got === 0) return fail(SHARED.invalidServiceMetadata, "metadata card must not be empty").fault;
  if (got <= MAX_CARD_BYTES) return undefined;
  const text = `metadata card exceeds maximum size: got ${got} bytes, max ${MAX_CARD_BYTES} bytes`;
  return fail(SHARED.invalidServiceMetadata, text).fault;
}

/** What is wrong with a service, before any state is asked: id, name, owner, compute units, card, in this order. */
export function serviceFault(service: shared.Service): TxFault | undefined {
  const named = serviceIdFault(service.id) ?? nameFault(service.name);
  if (named !== undefined) return named;
  if (addressFault(service.ownerAddress) !== undefined) {
    return fail(SHARED.invalidService, `invalid owner address: ${service.ownerAddress}`).fault;
  }
  return computeUnitsFault(service.computeUnitsPerRelay) ?? metadataFault(service.metadata);
}
