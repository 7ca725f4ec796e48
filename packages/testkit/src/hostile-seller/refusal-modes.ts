import type { PaidCall, SellerMode, SellerModes } from "./mode.ts";

const JSON_TYPE = { "content-type": "application/json" } as const;

const refusal = (
  status: number,
  body: unknown,
  headers: (call: PaidCall) => Readonly<Record<string, string>> = () => ({}),
): SellerMode => ({
  kind: "refusal",
  paid: (call) => {
    call.response.writeHead(status, { ...JSON_TYPE, ...headers(call) }).end(JSON.stringify(body));
  },
});

const coded = (status: number, code: string, retryable: boolean): SellerMode =>
  refusal(status, { code, message: "next: Try again with a new payment.", requestId: "r", retryable });

const terms = (error: string): SellerMode => refusal(402, { x402Version: 2, error });

/** Refusals of payments that were settled: each wants to be paid again. */
export const REFUSAL_MODES: SellerModes = {
  "refusal-expired": terms("PAYMENT_EXPIRED: The payment expires too soon. Sign again."),
  "refusal-settlement-failed": terms("PAYMENT_SETTLEMENT_FAILED: It could not be settled. Sign a new payment."),
  "refusal-nonce-used": terms("PAYMENT_NONCE_USED: This authorization is used. Sign with a new nonce."),
  "refusal-without-a-code": terms("Payment required"),
  "refusal-400": coded(400, "BAD_REQUEST", true),
  "refusal-404": coded(404, "UNKNOWN_SERVICE", false),
  "refusal-409": coded(409, "PAYMENT_CONFLICT", false),
  "refusal-410": coded(410, "PAYMENT_OWED", false),
  "refusal-429": coded(429, "PAYMENT_RATE_LIMITED", false),
  "refusal-500": coded(500, "INTERNAL", false),
  "refusal-503-no-suppliers": coded(503, "NO_SUPPLIERS", true),
  "refusal-503-service-unavailable": coded(503, "SERVICE_UNAVAILABLE", true),
  "refusal-422": refusal(422, { detail: [{ loc: ["body"], msg: "Sign again" }] }),
  "refusal-with-a-receipt": refusal(400, { code: "BAD_REQUEST", message: "Try again." }, ({ receipt }) => receipt()),
  "refusal-at-first": {
    kind: "refusal",
    paid: (call) => {
      if (call.presentations > 1) call.sell();
      else call.response.writeHead(402, JSON_TYPE).end('{"x402Version":2,"error":"PAYMENT_EXPIRED: Sign again."}');
    },
  },
};
