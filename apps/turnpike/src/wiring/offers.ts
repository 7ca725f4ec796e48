import type { NetworkId } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import type { Config } from "@turnpike/config";
import { type OptionNetwork, type PaymentOption, paymentOption } from "@turnpike/payment";

/** Where payments are taken, in the configuration's order. */
export function optionNetworks({ payment }: Config): readonly OptionNetwork[] {
  return payment.networks.map(({ network, asset, payTo, name, version, decimals, maxTimeoutSeconds }) => ({
    network: network as NetworkId,
    asset,
    payTo,
    name,
    version,
    decimals,
    maxTimeoutSeconds,
  }));
}

/** The ways to pay for a service, in the configuration's order; made once for each price. */
export function offeredOptions(config: Config): (service: Service) => readonly PaymentOption[] {
  const networks = optionNetworks(config);
  const byPrice = new Map<string, readonly PaymentOption[]>();
  return ({ price }) => {
    const known = byPrice.get(price);
    if (known !== undefined) return known;
    const options = networks.map((network) => paymentOption(network, price));
    byPrice.set(price, options);
    return options;
  };
}
