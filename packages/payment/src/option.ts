import { type Address, AppError, decimalToUnits, isRecord, type NetworkId } from "@turnpike/base";
import type { PaymentOption } from "./types.ts";

/** What of a network's configuration a payment option needs. */
export interface OptionNetwork {
  readonly network: NetworkId;
  readonly asset: Address;
  readonly payTo: Address;
  /** EIP-712 domain name of the token: per deployment, `USD Coin` on Base and `USDC` on Base Sepolia. */
  readonly name: string;
  /** EIP-712 domain version of the token. */
  readonly version: string;
  /** Decimal places of the token. */
  readonly decimals: number;
  /** Longest time from now to the end of the window that a payer is asked to sign for. */
  readonly maxTimeoutSeconds: number;
}

/**
 * The option that sells at `priceUsd` (a decimal text) in the token of this network; a token unit is a US dollar.
 * @throws AppError CONFIG_INVALID when the price is no decimal, is zero, or has more places than the token.
 */
export function paymentOption(network: OptionNetwork, priceUsd: string): PaymentOption {
  const units = decimalToUnits(priceUsd, network.decimals);
  if (units === 0n) throw new AppError("CONFIG_INVALID", { message: "A price must be more than zero." });
  return optionOf(network, units.toString());
}

function optionOf(
  { network, asset, payTo, name, version, maxTimeoutSeconds }: OptionNetwork,
  amount: string,
): PaymentOption {
  return { scheme: "exact", network, amount, asset, payTo, maxTimeoutSeconds, extra: { name, version } };
}

/** Members of an option beside `extra`: all compared, no others allowed. */
const FIELDS = ["scheme", "network", "amount", "asset", "payTo", "maxTimeoutSeconds"] as const;

/** A whole number above 0 that a token can hold. */
const UNITS = /^[1-9][0-9]{0,77}$/;

/**
 * The option that `accepted` names in the token of one of these networks, at whatever price it has: for what is not sold any
 * more, and so has none. Undefined when it names none.
 */
export function optionAtAnyPrice(
  accepted: Readonly<Record<string, unknown>>,
  networks: readonly OptionNetwork[],
): PaymentOption | undefined {
  const amount = Object.hasOwn(accepted, "amount") ? accepted.amount : undefined;
  if (typeof amount !== "string" || !UNITS.test(amount)) return undefined;
  return matchOption(
    accepted,
    networks.map((network) => optionOf(network, amount)),
  );
}

/**
 * The offered option that `accepted` names: every member equal, letter case too; `extra` may have members added to ours,
 * the option itself may not. Undefined when none is.
 */
export function matchOption(
  accepted: Readonly<Record<string, unknown>>,
  options: readonly PaymentOption[],
): PaymentOption | undefined {
  const extra = Object.hasOwn(accepted, "extra") ? accepted.extra : undefined;
  if (!isRecord(extra) || Object.keys(accepted).length !== FIELDS.length + 1) return undefined;
  return options.find(
    (option) =>
      FIELDS.every((field) => Object.hasOwn(accepted, field) && accepted[field] === option[field]) &&
      Object.hasOwn(extra, "name") &&
      extra.name === option.extra.name &&
      Object.hasOwn(extra, "version") &&
      extra.version === option.extra.version,
  );
}
