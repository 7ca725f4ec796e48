import { isProbe, probeResult, rpcAnswer, startUpstream, type Upstream } from "@turnpike/testkit";

/** Calls that fail on purpose. The supplier knows them by the contract that they name. */
export const FAILING_CALLS = {
  /** Is never answered. */
  unanswered: `0x${"dead".repeat(9)}0001`,
  /** Is answered with more than is sold. */
  tooLarge: `0x${"dead".repeat(9)}0002`,
  /** Is answered with status 500. */
  faulty: `0x${"dead".repeat(9)}0003`,
} as const;

/** Largest answer that is sold in this run, in bytes. */
export const MAX_ANSWER_BYTES = 262_144;

const CHAIN_ID_HEX = "0x14a34";
const LARGE = `"result":"0x${"00".repeat(MAX_ANSWER_BYTES)}"`;

/** An EVM node that answers at once, but for {@link FAILING_CALLS}. */
export function startSupplier(): Promise<Upstream> {
  return startUpstream((call, response) => {
    if (isProbe(call)) response.end(rpcAnswer(call, probeResult(call, CHAIN_ID_HEX, "0x64")));
    else if (call.text.includes(FAILING_CALLS.unanswered)) return;
    else if (call.text.includes(FAILING_CALLS.tooLarge)) response.end(rpcAnswer(call, LARGE));
    else if (call.text.includes(FAILING_CALLS.faulty)) response.writeHead(500).end("no");
    else response.end(rpcAnswer(call, '"result":"0xb0a"'));
  });
}

/** A paid call that fails in this way. */
export function failingCall(how: keyof typeof FAILING_CALLS): object {
  return { method: "eth_call", params: [{ to: FAILING_CALLS[how], data: "0x" }, "latest"] };
}
