import type { SellerModes } from "./mode.ts";

/** Answers to a payment that was settled that come late, or never. */
export const TIMING_MODES: SellerModes = {
  "timing-no-answer": { kind: "timing", paid: () => {} },
  "timing-head-without-body": {
    kind: "timing",
    paid: ({ response, receipt }) => {
      response.writeHead(200, { "content-type": "application/json", ...receipt() }).write('{"portal":');
    },
  },
  "timing-no-answer-at-first": {
    kind: "timing",
    paid: (call) => {
      if (call.presentations > 1) call.sell();
    },
  },
};
