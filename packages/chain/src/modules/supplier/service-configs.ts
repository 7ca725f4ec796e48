import { encodeMessage, shared } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import { compactText, goQuoted } from "../../state/go-text.ts";
import { fail } from "../../state/outcome.ts";
import { serviceIdFault } from "../shared/services.ts";
import { isEndpointUrl } from "./endpoint-url.ts";
import { INVALID_REV_SHARE } from "./errors.ts";

// The real chain has no bound; but every session of the service carries the configuration of each of its suppliers.
const MOST_CONFIG_BYTES = 65_536;
const RPC_TYPES: ReadonlySet<number> = new Set(shared.RPCTypeSchema.values.map(({ number }) => number));

const shown = (config: shared.SupplierServiceConfig): string => compactText(shared.SupplierServiceConfigSchema, config);

function endpointsFault(config: shared.SupplierServiceConfig): string | undefined {
  if (config.endpoints.length === 0) return `endpoints cannot be nil: ${shown(config)}`;
  for (const { url, rpcType } of config.endpoints) {
    if (url === "") return `endpoint.Url cannot be empty: ${shown(config)}`;
    if (!isEndpointUrl(url)) return `invalid endpoint.Url: ${shown(config)}`;
    if (rpcType === shared.RPCType.UNKNOWN_RPC) return `endpoint.RpcType cannot be UNKNOWN_RPC: ${shown(config)}`;
    if (!RPC_TYPES.has(rpcType)) return `endpoint.RpcType is not a valid RPCType: ${shown(config)}`;
  }
  return undefined;
}

/** Fault of an address; undefined when it is valid. */
type AddressRule = (address: string) => string | undefined;

function shareFault(
  share: shared.ServiceRevenueShare,
  seen: Set<string>,
  receiverFault: AddressRule,
): string | undefined {
  const { address, revSharePercentage } = share;
  if (address === "") {
    return `rev share address cannot be empty: ${compactText(shared.ServiceRevenueShareSchema, share)}`;
  }
  const wrong = receiverFault(address);
  if (wrong !== undefined) return `invalid rev share address ${address}; (${wrong})`;
  if (seen.has(address)) return `duplicate rev share address: ${address}`;
  seen.add(address);
  if (revSharePercentage > 0n && revSharePercentage <= 100n) return undefined;
  return `invalid rev share value ${revSharePercentage}; must be between 0 and 100`;
}

function revShareFault(shares: readonly shared.ServiceRevenueShare[], receiverFault: AddressRule): string | undefined {
  if (shares.length === 0) return "no rev share configurations";
  const seen = new Set<string>();
  let sum = 0n;
  for (const share of shares) {
    const fault = shareFault(share, seen, receiverFault);
    if (fault !== undefined) return fault;
    sum += share.revSharePercentage;
  }
  return sum === 100n ? undefined : `invalid rev share percentage sum ${sum}; must be equal to 100`;
}

/**
 * What is wrong with a supplier's configurations, in the real chain's words; undefined when nothing is: ids are right and
 * unique, every service has endpoints with a URL and a kind, and whole shares that sum up to 100
 * (x/shared/types/service_configs.go); and each is at most 64 KiB.
 *
 * @param receiverFault what a receiver's address may not be: a message has a stricter rule than the state, which an export must be
 *   able to bring back
 */
export function serviceConfigsFault(
  configs: readonly shared.SupplierServiceConfig[],
  receiverFault: AddressRule = addressFault,
): string | undefined {
  const seen = new Set<string>();
  for (const config of configs) {
    const id = serviceIdFault(config.serviceId);
    if (id !== undefined) return id.text;
    if (seen.has(config.serviceId)) return `duplicate service ID: ${config.serviceId}`;
    seen.add(config.serviceId);
    const endpoints = endpointsFault(config);
    if (endpoints !== undefined) return endpoints;
    const shares = revShareFault(config.revShare, receiverFault);
    if (shares !== undefined) return fail(INVALID_REV_SHARE, shares).fault.text;
    const bytes = encodeMessage(shared.SupplierServiceConfigSchema, config).length;
    if (bytes > MOST_CONFIG_BYTES) {
      return `service config of ${goQuoted(config.serviceId)} has ${bytes} bytes; at most ${MOST_CONFIG_BYTES}`;
    }
  }
  return undefined;
}
