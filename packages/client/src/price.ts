import { AppError, decimalToUnits, isRecord, type NetworkId, sameAddress, unitsToDecimal } from "@turnpike/base";
import type { PaymentRequired, PaymentRequirements } from "@x402/core/types";
import { findDefaultAsset } from "@x402/evm";
import type { DollarAsset, Price } from "./types.ts";

/** Longest time that a signature may be valid: a longer one would let the gateway keep the money on a string. */
const MAX_TIMEOUT_SECONDS = 3600;

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
const UNITS = /^(0|[1-9][0-9]{0,77})$/;
const NETWORK = /^eip155:[1-9][0-9]{0,19}$/;

/** One way to pay that this client can take, and its price. */
export interface Choice {
  readonly option: PaymentRequirements;
  readonly price: Price;
}

const isAddress = (text: string): text is `0x${string}` => ADDRESS.test(text);

/** Decimal places of a dollar stablecoin: as this client knows them, whatever anybody claims. */
export function decimalsOf(
  option: { readonly network: string; readonly asset: string },
  assets: readonly DollarAsset[],
): number | undefined {
  // The tables of networks are plain objects: `__proto__` is a key of each.
  if (!NETWORK.test(option.network) || !isAddress(option.asset)) return undefined;
  const own = assets.find(({ network, asset }) => network === option.network && sameAddress(asset, option.asset));
  return own?.decimals ?? findDefaultAsset(option.asset, option.network as `${string}:${string}`)?.decimals;
}

function choiceOf(option: PaymentRequirements, assets: readonly DollarAsset[]): Choice | undefined {
  // What the gateway sent: its types are only claimed.
  const {
    network,
    asset: token,
    amount: units,
    maxTimeoutSeconds: seconds,
  } = option as unknown as Record<string, unknown>;
  if (typeof network !== "string" || typeof token !== "string" || typeof units !== "string") return undefined;
  if (!Number.isSafeInteger(seconds)) return undefined;
  const method: unknown = isRecord(option.extra) ? option.extra.assetTransferMethod : undefined;
  const decimals = decimalsOf(option, assets);
  if (
    option.scheme !== "exact" ||
    (method !== undefined && method !== "eip3009") ||
    decimals === undefined ||
    !UNITS.test(option.amount) ||
    !isAddress(option.asset) ||
    !isAddress(option.payTo) ||
    !(option.maxTimeoutSeconds > 0 && option.maxTimeoutSeconds <= MAX_TIMEOUT_SECONDS)
  ) {
    return undefined;
  }
  const amount = BigInt(option.amount);
  const { asset, payTo, maxTimeoutSeconds } = option;
  const usd = unitsToDecimal(amount, decimals);
  return {
    option,
    price: { network: option.network as NetworkId, asset, payTo, amount, decimals, usd, maxTimeoutSeconds },
  };
}

/** True when a price is at most `maxPriceUsd`, compared exactly. */
export function withinCap(price: Price, maxPriceUsd: string): boolean {
  const places = Math.max(price.decimals, (maxPriceUsd.split(".")[1] ?? "").length);
  return price.amount * 10n ** BigInt(places - price.decimals) <= decimalToUnits(maxPriceUsd, places);
}

/**
 * The option that would be signed: of those that are paid in a dollar stablecoin which this client knows, the first
 * that is within the cap, else the first.
 * @throws AppError PAYMENT_OPTION_UNKNOWN when there is none.
 */
export function choose(terms: PaymentRequired, assets: readonly DollarAsset[], maxPriceUsd: string): Choice {
  const offered: unknown = terms.accepts;
  const options = Array.isArray(offered) ? (offered as readonly unknown[]) : [];
  const choices = options.flatMap((one) =>
    isRecord(one) ? (choiceOf(one as unknown as PaymentRequirements, assets) ?? []) : [],
  );
  const best = choices.find(({ price }) => withinCap(price, maxPriceUsd)) ?? choices[0];
  if (best === undefined) {
    throw new AppError("PAYMENT_OPTION_UNKNOWN", {
      message:
        "None of the offered payment options is in a dollar stablecoin that this client knows; nothing was signed.",
    });
  }
  return best;
}
