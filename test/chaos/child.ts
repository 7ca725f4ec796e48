import type { FaultPoints } from "@turnpike/base";
import { silentLog } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { startFacilitator } from "../../apps/turnpike/src/wiring/facilitator.ts";
import { startGateway } from "../../apps/turnpike/src/wiring/gateway.ts";

/** What a test tells this child at its start. */
export interface ChildOrder {
  readonly role: "gateway" | "facilitator";
  readonly overrides: Readonly<Record<string, unknown>>;
  /** Name of the fault point that ends this process by SIGKILL, or that waits for the test's word. */
  readonly fault?: { readonly at: string; readonly mode: "kill" | "hold" };
}

/** What this child tells the test. */
export type ChildWord =
  | { readonly kind: "listening"; readonly url: string }
  | { readonly kind: "reached"; readonly at: string }
  | { readonly kind: "failed"; readonly message: string };

const say = (word: ChildWord): void => {
  process.send?.(word);
};

/** Faults of one run: armed only after the start, so that what is tested is a request, not the start itself. */
function faultsOf(order: ChildOrder): FaultPoints & { arm(): void } {
  let armed = false;
  return {
    arm() {
      armed = true;
    },
    reach(name) {
      if (!armed || name !== order.fault?.at) return undefined;
      armed = false;
      say({ kind: "reached", at: name });
      if (order.fault.mode === "hold") {
        return new Promise<void>((resolve) => process.once("message", () => resolve()));
      }
      // The word above may not have left yet; a killed process says nothing more, which is what a crash is like.
      process.kill(process.pid, "SIGKILL");
      return new Promise<void>(() => undefined);
    },
  };
}

process.once("message", (order: ChildOrder) => {
  const faults = faultsOf(order);
  const config = loadConfig({ env: {}, overrides: order.overrides });
  const input = { config, env: {}, log: silentLog, faults };
  const started =
    order.role === "gateway"
      ? startGateway(input).then((gateway) => `http://127.0.0.1:${gateway.gatewayPort}`)
      : startFacilitator(input).then((facilitator) => facilitator.url);
  started.then(
    (url) => {
      faults.arm();
      say({ kind: "listening", url });
    },
    (error: unknown) => say({ kind: "failed", message: String(error) }),
  );
});
process.once("disconnect", () => process.kill(process.pid, "SIGKILL"));
