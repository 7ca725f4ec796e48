import { nearest } from "@turnpike/base";
import type { Amount } from "@turnpike/chain-client";
import { shared } from "@turnpike/proto";
import { needed, type YamlValue } from "./yaml.ts";

/** What an application's stake file says. */
export interface ApplicationStakeFile {
  readonly stake: Amount;
  readonly serviceIds: readonly string[];
  /** 0 takes the limit away. */
  readonly perSessionSpendLimit?: Amount;
  readonly gatewayAddresses: readonly string[];
}

/** A service of a supplier, in the form of the stake message. */
export interface SupplierServiceFile {
  readonly serviceId: string;
  readonly endpoints: {
    readonly url: string;
    readonly rpcType: shared.RPCType;
    readonly configs: { readonly key: shared.ConfigOptions; readonly value: string }[];
  }[];
  readonly revShare: { readonly address: string; readonly revSharePercentage: bigint }[];
}

/** What a supplier's stake file says. */
export interface SupplierStakeFile {
  readonly ownerAddress: string;
  readonly operatorAddress: string;
  readonly stake?: Amount;
  readonly services: readonly SupplierServiceFile[];
}

/** A service that `edit-service` changes. */
export interface ServiceEdit {
  readonly serviceId: string;
  readonly computeUnitsPerRelay: bigint;
  /** Beside the stake file, or absolute. */
  readonly cardFile?: string;
}

/** The most compute units of a relay that the chain takes. */
const MOST_COMPUTE_UNITS = 2_097_152n;
const RPC_TYPES = ["GRPC", "WEBSOCKET", "JSON_RPC", "REST", "COMET_BFT"] as const;

/** Reads an application's stake file. @throws AppError CONFIG_INVALID */
export function applicationStakeFile(file: YamlValue): ApplicationStakeFile {
  const members = file.members(["stake_amount", "service_ids", "per_session_spend_limit", "gateway_addresses"]);
  const ids = needed(file, members, "service_ids");
  const serviceIds = ids.items().map((item) => item.serviceId());
  if (serviceIds.length !== 1) ids.fail(`expected exactly one service, not ${serviceIds.length}`);
  const limit = members.per_session_spend_limit?.upokt(0n);
  return {
    stake: needed(file, members, "stake_amount").upokt(1n),
    serviceIds,
    ...(limit === undefined ? {} : { perSessionSpendLimit: limit }),
    gatewayAddresses: (members.gateway_addresses?.items() ?? []).map((item) => item.address()),
  };
}

/** Reads a gateway's stake file. @throws AppError CONFIG_INVALID */
export function gatewayStakeFile(file: YamlValue): Amount {
  return needed(file, file.members(["stake_amount"]), "stake_amount").upokt(1n);
}

function shares(value: YamlValue): SupplierServiceFile["revShare"] {
  const found = value.entries().map(([address, percent]) => ({
    address: percent.at(percent.path, address).address(),
    revSharePercentage: percent.whole(1n, 100n),
  }));
  const sum = found.reduce((all, { revSharePercentage }) => all + revSharePercentage, 0n);
  if (sum !== 100n) value.fail(`the shares must add up to 100, not ${sum}`);
  return found;
}

function rpcType(value: YamlValue): shared.RPCType {
  const text = value.text();
  const found = RPC_TYPES.find((name) => name === text.toUpperCase());
  if (found !== undefined) return shared.RPCType[found];
  const near = nearest(text, RPC_TYPES);
  return value.fail(near === undefined ? `expected one of ${RPC_TYPES.join(", ")}` : `did you mean ${near}?`);
}

function url(value: YamlValue): string {
  const text = value.text();
  if (URL.canParse(text) && new URL(text).host !== "") return text;
  return value.fail(`${JSON.stringify(text)} is no address; expected such as https://relays.example:8545`);
}

function endpoint(value: YamlValue): SupplierServiceFile["endpoints"][number] {
  const members = value.members(["publicly_exposed_url", "rpc_type", "config"]);
  const timeout = members.config?.members(["timeout"]).timeout;
  return {
    url: url(needed(value, members, "publicly_exposed_url")),
    rpcType: rpcType(needed(value, members, "rpc_type")),
    configs: timeout === undefined ? [] : [{ key: shared.ConfigOptions.TIMEOUT, value: timeout.text() }],
  };
}

/** Reads a supplier's stake file. @throws AppError CONFIG_INVALID */
export function supplierStakeFile(file: YamlValue): SupplierStakeFile {
  const members = file.members([
    "owner_address",
    "operator_address",
    "stake_amount",
    "default_rev_share_percent",
    "services",
  ]);
  const ownerAddress = needed(file, members, "owner_address").address();
  const usual = members.default_rev_share_percent;
  const usualShares = usual === undefined ? [{ address: ownerAddress, revSharePercentage: 100n }] : shares(usual);
  const services = (members.services?.items() ?? []).map((item) => {
    const inner = item.members(["service_id", "rev_share_percent", "endpoints"]);
    const endpoints = needed(item, inner, "endpoints");
    const found = endpoints.items().map(endpoint);
    if (found.length === 0) endpoints.fail("expected at least one endpoint");
    return {
      serviceId: needed(item, inner, "service_id").serviceId(),
      endpoints: found,
      revShare: inner.rev_share_percent === undefined ? usualShares : shares(inner.rev_share_percent),
    };
  });
  const stake = members.stake_amount?.upokt(1n);
  return {
    ownerAddress,
    operatorAddress: members.operator_address?.address() ?? ownerAddress,
    ...(stake === undefined ? {} : { stake }),
    services,
  };
}

/** Reads the file of `edit-service`. @throws AppError CONFIG_INVALID */
export function serviceEditsFile(file: YamlValue): readonly ServiceEdit[] {
  const services = needed(file, file.members(["services"]), "services");
  const edits = services.items().map((item) => {
    // A name is taken and not used: the command never renames.
    const members = item.members(["service_id", "service_name", "compute_units_per_relay", "card_file"]);
    const cardFile = members.card_file?.text();
    return {
      serviceId: needed(item, members, "service_id").serviceId(),
      computeUnitsPerRelay: needed(item, members, "compute_units_per_relay").whole(1n, MOST_COMPUTE_UNITS),
      ...(cardFile === undefined ? {} : { cardFile }),
    };
  });
  if (edits.length === 0) services.fail("expected at least one service");
  return edits;
}
