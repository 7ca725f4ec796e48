import { freePort, isPortFree } from "@turnpike/localnet";
import { DEFAULT_PORTS, type UpPorts } from "./layout.ts";

/** What {@link withMetrics} works with. */
export interface MetricsPortModules {
  /** Tells a person. */
  readonly notice: (text: string) => void;
  /** The port that the chain's metrics have when nobody says otherwise; {@link DEFAULT_PORTS} has it. */
  readonly usualPort?: number;
}

/**
 * The ports, with a free one for the chain's metrics when their usual one is taken: other programs use it too, nothing here
 * needs it, and `up.json` says where they are.
 */
export async function withMetrics(
  ports: UpPorts,
  { notice, usualPort = DEFAULT_PORTS.chainMetrics }: MetricsPortModules,
): Promise<UpPorts> {
  if (ports.chainMetrics !== usualPort || (await isPortFree(usualPort))) return ports;
  const chainMetrics = await freePort();
  notice(`Port ${usualPort} is in use by another program: the relay chain's metrics are on ${chainMetrics}.`);
  return { ...ports, chainMetrics };
}
