import type { Config, NetworkConfig } from "./schema.ts";

/** How settlements of one network are sent: its own keys, and those of `payment.relayer` for all that it leaves out. */
export type NetworkRelayer = Omit<Config["payment"]["relayer"], "keys" | "keysFile"> &
  Pick<NetworkConfig["relayer"], "coinPriceUsd">;

/** The relayer rules of one network. */
export function networkRelayer({ payment }: Config, network: NetworkConfig): NetworkRelayer {
  const { keys: _, keysFile: __, ...common } = payment.relayer;
  const { keys: ___, keysFile: ____, ...own } = network.relayer;
  return { ...common, ...own };
}

/** A payment that is held must still be settled in its window, and its buyer must still be there. */
function holdFaults(config: Config, network: NetworkConfig, at: number): string[] {
  const { holdMs } = networkRelayer(config, network);
  const { settleMarginMs, settleWaitMs } = config.payment;
  const holdPath = network.relayer.holdMs === undefined ? "payment.relayer" : `payment.networks[${at}].relayer`;
  const faults: string[] = [];
  if (holdMs * 2 > settleWaitMs) {
    faults.push(
      `${holdPath}.holdMs: ${holdMs} is more than half of payment.settleWaitMs (${settleWaitMs}), after which its caller has left; set at most ${Math.floor(settleWaitMs / 2)}`,
    );
  }
  const neededMs = config.gateway.upstreamTimeoutMs + holdMs + settleMarginMs;
  if (network.maxTimeoutSeconds * 1_000 < neededMs) {
    faults.push(
      `payment.networks[${at}].maxTimeoutSeconds: ${network.maxTimeoutSeconds} leaves no time to hold a payment (whenUnprofitable: wait) beside gateway.upstreamTimeoutMs, holdMs and payment.settleMarginMs; set at least ${Math.ceil(neededMs / 1_000)}`,
    );
  }
  return faults;
}

/** What the rule for sales that cost more than they bring needs. */
export function profitFaults(config: Config): string[] {
  return config.payment.networks.flatMap((network, at) => {
    const { whenUnprofitable, coinPriceUsd } = networkRelayer(config, network);
    if (whenUnprofitable === "settle") return [];
    const faults = whenUnprofitable === "wait" ? holdFaults(config, network, at) : [];
    if (coinPriceUsd === undefined) {
      faults.push(
        `payment.networks[${at}].relayer.coinPriceUsd: missing; whenUnprofitable ${whenUnprofitable} needs the price of this chain's coin in US dollars, such as "3200.50"`,
      );
    }
    return faults;
  });
}
