import { type Clock, type FaultPoints, type Log, type Metrics, noFaults, systemClock } from "@turnpike/base";
import type { Config, Environment } from "@turnpike/config";

/** What every part is built with. */
export interface PartModules {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly faults: FaultPoints;
}

/** Longest waits that no configuration sets, in milliseconds; one that is left out is the product's. */
export interface Waits {
  /** For a connection to the ledger. */
  readonly ledgerConnectMs?: number;
  /** For one statement of the ledger. */
  readonly ledgerStatementMs?: number;
  /** For one answer of a payment network. */
  readonly chainMs?: number;
}

/** What a service of the command is built from. */
export interface ServiceInput {
  readonly config: Config;
  /** For relayer keys only. */
  readonly env: Environment;
  readonly log: Log;
  /** Only a test passes any. */
  readonly faults?: FaultPoints;
  /** Only a test passes any. */
  readonly waits?: Waits;
}

/** The product's modules: the machine's clock, no faults. */
export function partModules(input: ServiceInput, metrics: Metrics): PartModules {
  return { clock: systemClock, log: input.log, metrics, faults: input.faults ?? noFaults };
}
