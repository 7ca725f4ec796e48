import { flushCompileCache } from "node:module";
import type { FaultPoints } from "@turnpike/base";
import { type ServiceOrder, startService } from "./service.ts";

/** What a test sends to this child at its start. */
export interface ChildOrder extends ServiceOrder {
  /** Name of the fault point that ends this process by SIGKILL. */
  readonly killAt: string;
}

/** What this child sends to the test. */
export type ChildMessage =
  | { readonly kind: "listening"; readonly url: string }
  | { readonly kind: "failed"; readonly message: string };

const send = (message: ChildMessage): void => {
  process.send?.(message);
};

/** Faults of one run: armed only after the start, so that what is tested is a request, not the start itself. */
function faultsOf(killAt: string): FaultPoints & { arm(): void } {
  let armed = false;
  return {
    arm() {
      armed = true;
    },
    reach(name) {
      if (!armed || name !== killAt) return undefined;
      process.kill(process.pid, "SIGKILL");
      return new Promise<void>(() => undefined);
    },
  };
}

process.once("message", (order: ChildOrder) => {
  const faults = faultsOf(order.killAt);
  startService(order, faults).then(
    ({ url }) => {
      // A killed process writes no compile cache, and every child would compile all sources again.
      flushCompileCache();
      faults.arm();
      send({ kind: "listening", url });
    },
    (error: unknown) => send({ kind: "failed", message: String(error) }),
  );
});
process.once("disconnect", () => process.kill(process.pid, "SIGKILL"));
