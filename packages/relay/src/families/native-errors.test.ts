import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorJudgement, Family, RpcError } from "./family.ts";
import { rpcProbeCall } from "./family.ts";
import { near } from "./near.ts";
import { sui } from "./sui.ts";
import { tron } from "./tron.ts";

const call = rpcProbeCall("any", []);
const word = (judged: ErrorJudgement | undefined): string =>
  judged === undefined ? "no error" : judged === "answer" ? "answer" : `${judged.blame} ${judged.reason}`;
const rpc = (family: Family, error: Partial<RpcError>): string =>
  word(family.judgeRpcError({ code: -32000, message: "", data: undefined, cause: undefined, ...error }, call));

test("Tron: what the chain refuses is the answer; a node without room is not", () => {
  const cases: readonly (readonly [error: unknown, judged: string])[] = [
    ["class org.tron.core.exception.ContractValidateException : freeze v2 is open, old freeze is closed", "answer"],
    ["class org.tron.core.exception.ContractExeException : no", "answer"],
    ["class org.tron.core.services.http.JsonFormat$ParseException : 1:10: INVALID hex String", "answer"],
    ["class java.lang.NullPointerException : null", "answer"],
    ["class java.lang.IllegalAccessException : lack of computing resources", "supplier rate_limited"],
    ["class org.tron.core.exception.BadBlockException : no", "supplier error"],
    [7, "no error"],
  ];
  for (const [error, judged] of cases)
    assert.equal(word(tron.judgeHttpBody?.({ Error: error })), judged, String(error));
  assert.equal(word(tron.judgeHttpBody?.({})), "no error");
});

test("NEAR: a wrong transaction or shard is the answer; a block that is not there may be elsewhere", () => {
  const stated = (cause: string): string => rpc(near, { message: "Server error", cause });
  for (const cause of ["INVALID_TRANSACTION", "INVALID_SHARD_ID", "UNKNOWN_ACCOUNT"]) {
    assert.equal(stated(cause), "answer", cause);
  }
  for (const cause of ["UNKNOWN_BLOCK", "UNKNOWN_TRANSACTION"]) {
    assert.equal(stated(cause), "chain state_unavailable", cause);
  }
  assert.equal(stated("INTERNAL_ERROR"), "supplier error");
});

test("Sui: a transaction that cannot be executed is the answer; one that may pass later is not", () => {
  const message = "Error checking transaction input objects: gas budget is over the limit";
  assert.equal(rpc(sui, { code: -32_002, message }), "answer");
  assert.equal(
    rpc(sui, { code: -32_050, message: "Transaction timed out before reaching finality" }),
    "supplier error",
  );
  assert.equal(rpc(sui, { code: -32_602, message: "Invalid params" }), "answer");
});
