import { isRecord } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import { memberAt } from "../family.ts";
import type { MethodTraits } from "../method-traits.ts";
import { type PathRule, pathRead, pathTable, pathTip, pathTraitsOf } from "./paths.ts";
import { all, atHeight, decimalHeight, LATEST, NEVER, own } from "./rules.ts";

/** State at the version that the body names, or at the newest one; a time or an epoch is resolved by the gateway. */
const STATE: PathRule = {
  by: "block",
  blocks: ({ named }) => {
    const { at_ledger_state: state } = named;
    if (state === undefined || state === null) return [LATEST];
    if (!isRecord(state) || Object.keys(state).some((key) => key !== "state_version")) return undefined;
    return all(atHeight(decimalHeight(state.state_version)));
  },
};

const never = pathRead(NEVER, false);
const state = pathRead(STATE, false);
const gatewayVersion = (result: unknown): number | undefined =>
  decimalHeight(memberAt(result, "ledger_state", "state_version"));
const coreVersion = (result: unknown): number | undefined =>
  decimalHeight(memberAt(result, "current_state_identifier", "state_version"));

/** The Gateway API and the Core API. Heights are state versions, and these are final. */
export const RADIX_PATHS = pathTable([
  ["POST /status/gateway-status", pathTip(NEVER, gatewayVersion)],
  ["POST /status/network-status", pathTip(NEVER, coreVersion)],
  ["POST /status/*", never],
  ["POST /state/*", state],
  ["POST /statistics/*", never],
  ["POST /stream/*", never],
  ["POST /mempool/*", never],
  ["POST /extensions/*", never],
  ["POST /transaction/submit", { kind: "write", cache: NEVER, isComparable: false }],
  ["POST /transaction/*", never],
  ["POST /lts/transaction/submit", { kind: "write", cache: NEVER, isComparable: false }],
  ["POST /lts/*", never],
]);

/** What is known of a call to a Radix-style network. */
export function radixTraits(call: BackendCall): MethodTraits | undefined {
  return pathTraitsOf(RADIX_PATHS, call) ?? (call.verb === "GET" ? own() : undefined);
}
