import assert from "node:assert/strict";
import { test } from "node:test";
import { readError } from "../answers/rules.ts";
import { judgeEvmError } from "./evm.ts";
import { rpcProbeCall } from "./family.ts";

function judged(method: string, code: number, message: string): string {
  const error = readError({ code, message });
  assert.ok(error !== undefined);
  const word = judgeEvmError(error, rpcProbeCall(method, []));
  return word === "answer" ? word : `${word.blame} ${word.reason}`;
}

test("a text that the client chose is no limit of the supplier", () => {
  const cases: readonly (readonly [method: string, code: number, message: string, wanted: string])[] = [
    ["eth_quota", -32_601, "the method eth_quota does not exist/is not available", "supplier unsupported"],
    ["eth_quota", -32_004, "Method eth_quota is not supported", "supplier unsupported"],
    // Alchemy and others name the method under a code that is not about methods.
    ["eth_quota", -32_600, "Unsupported method: eth_quota on ETH_MAINNET", "supplier unsupported"],
    ["eth_quota", -32_000, "the method eth_quota does not exist/is not available", "supplier unsupported"],
    ["eth_call", -32_602, 'invalid argument 0: json: unknown field "quota"', "answer"],
    ["eth_call", -32_602, "unknown variant `unauthorized`, want one of `latest`", "answer"],
    ["debug_traceCall", -32_000, "ReferenceError: quota is not defined at <eval>:1:2(0)", "answer"],
    [
      "debug_traceCall",
      -32_000,
      "rate limit at step (<eval>:1:9(3))    in server-side tracer function 'step'",
      "answer",
    ],
    ["debug_traceCall", -32_000, "execution timeout    in server-side tracer function 'step'", "client too_much"],
  ];
  for (const [method, code, message, wanted] of cases) assert.equal(judged(method, code, message), wanted, message);
});

test("a limit of the supplier is recognised under any error code", () => {
  const cases: readonly (readonly [code: number, message: string])[] = [
    [-32_000, "You have exceeded the quota of your plan"],
    [-32_003, "daily request limit reached - upgrade your account"],
    [-32_005, "rate limit exceeded"],
    [-32_007, "50/second request limit reached - reduce calls per second"],
    [-32_029, "calls exceeded"],
    [-32_090, "Too many requests, reason: call rate limit exhausted"],
    [-32_097, "too many requests"],
    [-32_600, "Your app has exceeded its compute units per second capacity"],
    [-32_603, "credits used up"],
    [429, "exceeded"],
  ];
  for (const method of ["eth_chainId", "eth_call", "eth_sendRawTransaction", "nobody_knows"]) {
    for (const [code, message] of cases) {
      assert.equal(judged(method, code, message), "supplier rate_limited", `${method} ${code} ${message}`);
    }
  }
});

test("a call of fixed size is never too large for a supplier: the error means that it accepts no more calls", () => {
  for (const method of [
    "eth_chainId",
    "eth_blockNumber",
    "eth_getBalance",
    "eth_getTransactionByHash",
    "net_version",
  ]) {
    for (const [code, message] of [
      [-32_005, "limit exceeded"],
      [-32_005, "daily request limit reached"],
      [-32_005, ""],
      [-32_000, "limit exceeded"],
      [-32_002, "request timed out"],
    ] as const) {
      assert.equal(judged(method, code, message), "supplier rate_limited", `${method} ${code} ${message}`);
    }
  }
  assert.equal(judged("eth_sendRawTransaction", -32_005, "limit exceeded"), "supplier rate_limited");
});

test("what the client makes large is too much, and not held against the supplier", () => {
  const cases: readonly (readonly [method: string, code: number, message: string])[] = [
    ["eth_getLogs", -32_005, "limit exceeded"],
    ["eth_call", -32_000, "execution timeout"],
    ["eth_estimateGas", -32_005, "limit exceeded"],
    ["debug_traceTransaction", -32_000, "execution timeout"],
    ["trace_filter", -32_000, "too many blocks"],
    ["nobody_knows", -32_005, "limit exceeded"],
    // A client chooses what a transaction has in it, and which block it asks for.
    ["eth_sendRawTransaction", -32_000, "oversized data: transaction size 200000, limit 131072"],
    ["eth_sendRawTransaction", -32_000, "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)"],
    ["eth_sendRawTransaction", -32_000, "account limit exceeded"],
    ["eth_getBlockByNumber", -32_000, "block number out of range"],
    ["eth_getBlockByNumber", -32_000, "response size exceeded the limit"],
    ["eth_getBlockReceipts", -32_005, "limit exceeded"],
  ];
  for (const [method, code, message] of cases) {
    assert.equal(judged(method, code, message), "client too_much", `${method} ${message}`);
  }
});
