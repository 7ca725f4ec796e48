import type { Subscriptions } from "@turnpike/relay";

/** A relay whose suppliers have no WebSockets. */
export const noSubscriptions: Subscriptions = {
  offers: () => false,
  subscribe: async () => ({ ok: false, code: "NO_SUPPLIERS" }),
  call: async () => ({ kind: "lost" }),
  pair: async () => undefined,
  async [Symbol.asyncDispose]() {},
};
