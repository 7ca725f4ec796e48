import type { SourceChange } from "./memory-redirect.ts";

/** A mistake in the client, and the fault by which a story shows it. */
export interface ClientMistake {
  readonly changes: readonly SourceChange[];
  readonly fault: RegExp;
}

/** Mistakes that the stories have to notice, or they are no test. */
export const CLIENT_MISTAKES: Readonly<Record<string, ClientMistake>> = {
  "a receipt of an unreadable answer is dropped": {
    changes: [
      {
        file: "verdict.ts",
        from: "return isServed(answer.status) && !isUnreadable(answer) ? undefined : fittingReceipt(answer, payment);",
        to: "return void [answer, payment];",
      },
    ],
    fault: /takes a charge back that a receipt showed|signs anew/,
  },
  "the gateway's PAYMENT_EXPIRED allows the next signature": {
    changes: [
      {
        file: "journal.ts",
        from: '(entry.outcome === "uncharged" || entry.outcome === "unserved") && this.#isExpired(entry)',
        to: '(entry.outcome === "uncharged" || entry.outcome === "unserved")',
      },
    ],
    fault: /signs anew/,
  },
  "the cap is not compared": {
    changes: [
      { file: "client.ts", from: "if (!withinCap(price, purpose.maxPriceUsd)) {", to: "if (false) {" },
      // The reference client has a cap of its own, behind this one.
      { file: "client.ts", from: "`$${maxPriceUsd}`", to: '"$1000000"' },
    ],
    fault: /and the cap of the call is/,
  },
};
