import { freePort, isPortFree } from "@turnpike/localnet";
import { DEFAULT_PORTS, type UpPorts } from "../ports.ts";

/** Ports that other programs use too: nothing here needs them, and `up.json` says where they are. */
const MOVABLE = {
  chainMetrics: "the protocol chain's metrics",
  supplierMetrics: "the suppliers' metrics",
} as const satisfies Partial<Record<keyof UpPorts, string>>;

type MovablePort = keyof typeof MOVABLE;

/** What {@link withMetrics} reports to, and the ports that are moved when they are taken. */
export interface MetricsPortModules {
  /** Shows a line to a person. */
  readonly notice: (text: string) => void;
  /** The ports that these have without an option; {@link DEFAULT_PORTS} has them. */
  readonly usual?: Readonly<Record<MovablePort, number>>;
}

/** The ports, with a free one for each of the metrics whose usual one is taken. A port that was chosen is not moved. */
export async function withMetrics(
  ports: UpPorts,
  { notice, usual = DEFAULT_PORTS }: MetricsPortModules,
): Promise<UpPorts> {
  const moved: Partial<Record<MovablePort, number>> = {};
  for (const [name, what] of Object.entries(MOVABLE) as [MovablePort, string][]) {
    const port = ports[name];
    if (port !== usual[name] || (await isPortFree(port))) continue;
    const free = await freePort();
    moved[name] = free;
    notice(`Port ${port} is in use by another program: ${what} are on ${free}.`);
  }
  return { ...ports, ...moved };
}
