import assert from "node:assert/strict";
import { test } from "node:test";
import { classify } from "./chain.ts";

test("refusals of the known nodes are read as what they mean", () => {
  const cases: Readonly<Record<string, ReturnType<typeof classify>>> = {
    "already known": "sent",
    AlreadyKnown: "sent",
    "transaction already imported": "sent",
    "Known transaction": "sent",
    "nonce too low: next nonce 5, tx nonce 4": "nonce-used",
    "nonce too low": "nonce-used",
    OldNonce: "nonce-used",
    "replacement transaction underpriced": "underpriced",
    "transaction underpriced": "underpriced",
    "max fee per gas less than block base fee": "underpriced",
    "insufficient funds for gas * price + value": "no-gas",
    "Insufficient funds for gas * price + value": "no-gas",
    "execution aborted": "refused",
  };
  for (const [message, kind] of Object.entries(cases)) assert.equal(classify(message), kind, message);
});
