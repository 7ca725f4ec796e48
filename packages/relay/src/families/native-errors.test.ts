import assert from "node:assert/strict";
import { test } from "node:test";
import { readError } from "../answers/rules.ts";
import { beacon } from "./beacon.ts";
import { bitcoin } from "./bitcoin.ts";
import { cosmos } from "./cosmos.ts";
import { evm } from "./evm.ts";
import type { ErrorJudgement, Family, RpcError } from "./family.ts";
import { rpcProbeCall } from "./family.ts";
import { near } from "./near.ts";
import { solana } from "./solana.ts";
import { sui } from "./sui.ts";
import { tron } from "./tron.ts";

const call = rpcProbeCall("any", []);
const word = (judged: ErrorJudgement | undefined): string =>
  judged === undefined ? "no error" : judged === "answer" ? "answer" : `${judged.blame} ${judged.reason}`;

interface StatedError {
  readonly code?: number;
  readonly message?: string;
  readonly data?: unknown;
  readonly cause?: string;
}

function errorOf({ code = -32_000, message = "", data, cause }: StatedError): RpcError {
  const error = readError({ code, message, data, cause: { name: cause } });
  assert.ok(error !== undefined);
  return error;
}

const rpc = (family: Family, error: StatedError): string => word(family.judgeRpcError(errorOf(error), call));

test("an unknown method is never charged as an answer, in any family and under any error code", () => {
  const texts = ["", "execution reverted", "revert", "UNKNOWN_ACCOUNT", "not found", "invalid request", "too many"];
  for (const family of [evm, cosmos, solana, near, sui, tron, bitcoin]) {
    for (const message of texts) {
      assert.equal(rpc(family, { code: -32601, message }), "supplier unsupported", `${family.id} ${message}`);
      assert.equal(rpc(family, { code: -32601, message: "x", data: message }), "supplier unsupported", family.id);
    }
  }
});

test("an unknown path is never an answer; a missing object is one", () => {
  const lcd = (message: string, code = 5): string => word(cosmos.judgeHttpError(404, { code, message }, call));
  assert.equal(lcd("Not Found"), "supplier unsupported");
  assert.equal(lcd("account cosmos1x not found"), "answer");
  const stated = (message: string): string => word(beacon.judgeHttpError(404, { code: 404, message }, call));
  assert.equal(stated("Route GET:/eth/v9/x not found"), "supplier unsupported");
  assert.equal(stated("Endpoint GET /eth/v9/x not found"), "supplier unsupported");
  for (const message of ["Not found", "NOT_FOUND: beacon block with root 0x1", "Block not found"])
    assert.equal(stated(message), "answer");
});

test("the error text of a tracer does not mark the method as missing at the supplier", () => {
  const message = "method foo is not there at <eval>:1:1(2)    in server-side tracer function 'result'";
  const traced = rpcProbeCall("debug_traceCall", []);
  assert.equal(evm.judgeRpcError(errorOf({ message }), traced), "answer");
});

test("Tron: what the chain refuses is the answer; a node without room is not", () => {
  const cases: readonly (readonly [error: unknown, judged: string])[] = [
    ["class org.tron.core.exception.ContractValidateException : freeze v2 is open, old freeze is closed", "answer"],
    ["class org.tron.core.exception.ContractExeException : no", "answer"],
    ["class org.tron.core.services.http.JsonFormat$ParseException : 1:10: INVALID hex String", "answer"],
    ["class java.lang.NullPointerException : null", "answer"],
    ["class java.lang.IllegalAccessException : lack of computing resources", "supplier rate_limited"],
    ['class java.lang.NumberFormatException : For input string: "lack of computing resources"', "answer"],
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

test("a text that the client chose is no limit of the supplier; a limit is, where no code says otherwise", () => {
  const cases: readonly (readonly [family: Family, code: number, message: string, judged: string])[] = [
    [solana, -32_601, "Method not found: too many requests", "supplier unsupported"],
    [solana, -32_602, "Invalid params: unknown variant `rate limit`, expected one of `processed`", "answer"],
    [solana, -32_002, "Transaction simulation failed: BorshIoError(rate limit)", "answer"],
    [solana, -32_003, "rate limit reached", "supplier rate_limited"],
    [solana, -32_005, "rate limit exceeded", "supplier rate_limited"],
    [solana, 429, "Too many requests for a specific RPC call", "supplier rate_limited"],
    [near, -32_601, "Method not found: rate limit", "supplier unsupported"],
    [near, -32_602, "unknown variant `rate limit`", "answer"],
    [near, -32_700, "Parse error: unknown variant `too many requests`", "answer"],
    [near, -429, "rate limit exceeded", "supplier rate_limited"],
    [sui, -32_601, "Method not found: rate limit", "supplier unsupported"],
    [sui, -32_602, "unknown variant `rate limit`", "client too_much"],
    [sui, -32_002, "Error in the package too many requests", "answer"],
    [sui, -32_000, "too many requests", "supplier rate_limited"],
  ];
  for (const [family, code, message, judged] of cases) assert.equal(rpc(family, { code, message }), judged, message);
});

test("Sui: a call of fixed size is never too large for a supplier", () => {
  const error = errorOf({ message: "daily limit reached" });
  const judged = (method: string): string => word(sui.judgeRpcError(error, rpcProbeCall(method, [])));
  assert.equal(judged("sui_getLatestCheckpointSequenceNumber"), "supplier rate_limited");
  assert.equal(judged("suix_queryEvents"), "client too_much");
});
