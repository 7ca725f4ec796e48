import { AppError, decimalToUnits, isRecord, type NetworkId, unitsToDecimal } from "@turnpike/base";
import type { PaymentRequired, PaymentRequirements } from "@x402/core/types";
import { type AllowedNetworks, isEvmNetwork } from "./networks.ts";
import type { Token, TokenId } from "./tokens.ts";
import type { Price } from "./types.ts";

/** Maximum validity of a signature: a longer one would let the gateway keep the money on a string. */
const MAX_TIMEOUT_SECONDS = 3600;
/** Maximum options of one gateway's terms that are read. */
const MAX_OPTIONS = 64;
/** Maximum networks that an error names. */
const MAX_NAMED = 5;

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
const UNITS = /^(0|[1-9][0-9]{0,77})$/;

/** One way to pay that this client can take, and its price. */
export interface Choice {
  readonly option: PaymentRequirements;
  readonly price: Price;
}

/** Rules by which an option is chosen. */
export interface ChoiceRules {
  readonly networks: AllowedNetworks;
  readonly findToken: (id: TokenId) => Promise<Token | undefined>;
  readonly maxPriceUsd: string;
}

const isAddress = (text: string): text is `0x${string}` => ADDRESS.test(text);

/** An option whose form this client can sign; undefined for any other. Its token is not looked at. */
function optionOf(value: unknown): PaymentRequirements | undefined {
  if (!isRecord(value)) return undefined;
  const { scheme, network, asset, amount, payTo, maxTimeoutSeconds: seconds, extra } = value;
  if (typeof network !== "string" || typeof asset !== "string" || typeof amount !== "string") return undefined;
  const method: unknown = isRecord(extra) ? extra.assetTransferMethod : undefined;
  if (
    scheme !== "exact" ||
    !isEvmNetwork(network) ||
    (method !== undefined && method !== "eip3009") ||
    !UNITS.test(amount) ||
    !isAddress(asset) ||
    typeof payTo !== "string" ||
    !isAddress(payTo) ||
    typeof seconds !== "number" ||
    !Number.isSafeInteger(seconds) ||
    !(seconds > 0 && seconds <= MAX_TIMEOUT_SECONDS)
  ) {
    return undefined;
  }
  return value as unknown as PaymentRequirements;
}

async function choiceOf(option: PaymentRequirements, { findToken }: ChoiceRules): Promise<Choice | undefined> {
  const token = await findToken(option);
  if (token === undefined) return undefined;
  const extra: unknown = option.extra;
  // A signature for another domain than the token's own is not valid there.
  if (!isRecord(extra) || extra.name !== token.name) return undefined;
  if (token.version !== undefined && extra.version !== token.version) return undefined;
  const amount = BigInt(option.amount);
  const { decimals } = token;
  const { payTo, maxTimeoutSeconds } = option;
  return {
    option,
    price: {
      network: option.network as NetworkId,
      asset: option.asset as `0x${string}`,
      payTo: payTo as `0x${string}`,
      amount,
      decimals,
      usd: unitsToDecimal(amount, decimals),
      maxTimeoutSeconds,
    },
  };
}

/** True when a price is at most `maxPriceUsd`, compared exactly. */
export function withinCap(price: Price, maxPriceUsd: string): boolean {
  const places = Math.max(price.decimals, (maxPriceUsd.split(".")[1] ?? "").length);
  return price.amount * 10n ** BigInt(places - price.decimals) <= decimalToUnits(maxPriceUsd, places);
}

function noChoice(options: readonly PaymentRequirements[], networks: AllowedNetworks): AppError {
  const others = [...new Set(options.map(({ network }) => network).filter((network) => !networks.allows(network)))];
  if (others.length === 0) {
    return new AppError("PAYMENT_OPTION_UNKNOWN", {
      message:
        "None of the offered payment options is in a dollar stablecoin that this client knows; nothing was signed.",
    });
  }
  const named = others.slice(0, MAX_NAMED).join(", ");
  return new AppError("PAYMENT_OPTION_UNKNOWN", {
    message: `The gateway is paid on ${named}, and this buyer pays on ${networks.text()}; nothing was signed.`,
    // No ready option: a program that follows advice would allow what a seller names.
    advice: "A person may allow another network, with --network, or `networks` of the client.",
    detail: { network: others[0] },
  });
}

/**
 * The option that would be signed: of those on an allowed network, in a dollar stablecoin which this client knows, the first
 * that is within the cap, else the first.
 * @throws AppError PAYMENT_OPTION_UNKNOWN when there is none.
 */
export async function choose(terms: PaymentRequired, rules: ChoiceRules): Promise<Choice> {
  const offered: unknown = terms.accepts;
  const entries = Array.isArray(offered) ? (offered as readonly unknown[]) : [];
  const options = entries.slice(0, MAX_OPTIONS).flatMap((entry) => optionOf(entry) ?? []);
  const allowed = options.filter(({ network }) => rules.networks.allows(network));
  const choices = (await Promise.all(allowed.map((option) => choiceOf(option, rules)))).flatMap(
    (choice) => choice ?? [],
  );
  const best = choices.find(({ price }) => withinCap(price, rules.maxPriceUsd)) ?? choices[0];
  if (best === undefined) throw noChoice(options, rules.networks);
  return best;
}
