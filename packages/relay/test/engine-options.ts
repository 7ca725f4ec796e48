import { loadConfig, SUPPLIER_DEFAULTS } from "@turnpike/config";
import { relayEngineBounds } from "../src/create-relay-engine.ts";

const { gateway, relay } = loadConfig({ env: {} });

/** The options of a relay engine without a configuration file. */
export const engineOptions = {
  ...relayEngineBounds,
  ...relay,
  maxAnswerBytes: gateway.maxAnswerBytes,
  defaultRules: SUPPLIER_DEFAULTS,
};
