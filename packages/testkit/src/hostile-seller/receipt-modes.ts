import { nestedJson } from "./answer-modes.ts";
import type { PaidCall, SellerMode, SellerModes } from "./mode.ts";

const DATA =
  '{"portal":{"provenance":"third-party-supplier","serviceId":"eth","schemaCheck":"passed"},"data":{"result":"0x1"}}';

/** 200 with a good answer and this receipt. */
const receipt = (headers: (call: PaidCall) => Readonly<Record<string, string>>): SellerMode => ({
  kind: "receipt",
  paid: (call) => {
    call.response.writeHead(200, { "content-type": "application/json", ...headers(call) }).end(DATA);
  },
});

const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** Receipts of payments that were settled. */
export const RECEIPT_MODES: SellerModes = {
  "receipt-none": receipt(() => ({})),
  "receipt-not-base64": receipt(() => ({ "payment-response": "%%%" })),
  "receipt-not-json": receipt(() => ({ "payment-response": base64("<html>") })),
  "receipt-null": receipt(() => ({ "payment-response": base64("null") })),
  "receipt-of-failure": receipt((call) => call.receipt({ success: false, errorReason: "insufficient_funds" })),
  "receipt-4000-levels": receipt((call) => ({
    "payment-response": base64(
      `{"success":true,"transaction":"${call.transfer?.transaction}","network":"${call.payment.network}","extensions":${nestedJson(4_000)}}`,
    ),
  })),
  "receipt-proto-keys": receipt(() => ({ "payment-response": base64('{"__proto__":{"success":true}}') })),
};
