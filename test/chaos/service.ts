import { type FaultPoints, silentLog } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { startFacilitator } from "../../apps/turnpike/src/wiring/facilitator.ts";
import { startGateway } from "../../apps/turnpike/src/wiring/gateway.ts";
import { PATIENT } from "../../apps/turnpike/test/patient.ts";

/** What to start. */
export interface ServiceOrder {
  readonly role: "gateway" | "facilitator";
  /** Plain data, so that it can be handed to a child process. */
  readonly overrides: Readonly<Record<string, unknown>>;
}

/** A gateway or facilitator. */
export interface Service extends AsyncDisposable {
  readonly url: string;
}

/** Starts a gateway or facilitator, wired as the command does it, in this process. */
export async function startService({ role, overrides }: ServiceOrder, faults?: FaultPoints): Promise<Service> {
  const config = loadConfig({ env: {}, overrides });
  const input = { config, env: {}, log: silentLog, waits: PATIENT, ...(faults === undefined ? {} : { faults }) };
  if (role === "facilitator") return startFacilitator(input);
  const gateway = await startGateway(input);
  return {
    url: `http://127.0.0.1:${gateway.gatewayPort}`,
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
}
