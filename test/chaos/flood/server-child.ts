import { LISTENERS } from "../../e2e/listeners.ts";

/** Starts the listener that is named by the argument, and sends its URL to the parent. */
const listener = LISTENERS[process.argv[2] ?? ""];
const owned = new AsyncDisposableStack();
process.once("disconnect", () => {
  void owned.disposeAsync().finally(() => process.exit(0));
});
const served = await listener?.start(owned);
process.send?.({ url: served?.url });
