import type { Port } from "@turnpike/gateway";
import type { Calls } from "./calls.ts";

/** A worker that runs. */
export interface LiveWorker {
  /** Its own, not its place's: another one after each start. */
  readonly id: string;
  readonly port: Port;
  readonly calls: Calls;
  /** Where it listens. */
  readonly gatewayPort: number;
  readonly adminPort: number | undefined;
}
