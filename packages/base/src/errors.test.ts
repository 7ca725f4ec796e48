import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  AppError,
  ERRORS,
  type ErrorCode,
  errorBody,
  errorRow,
  failureCode,
  isAppError,
  RETIRED_CODES,
  thrownCode,
} from "./errors.ts";

const codes = Object.keys(ERRORS) as ErrorCode[];

suite("errors", () => {
  test("what was thrown has a code where it has one that is text or a number, whatever it is", () => {
    assert.equal(thrownCode(Object.assign(new Error("x"), { code: "ENOENT" })), "ENOENT");
    assert.equal(thrownCode({ code: -30_797 }), -30_797);
    assert.equal(thrownCode(new AppError("INTERNAL")), "INTERNAL");
    for (const other of [new Error("x"), { code: {} }, "ENOENT", null, undefined]) {
      assert.equal(thrownCode(other), undefined);
    }
    assert.equal(failureCode(new AppError("INTERNAL")), "INTERNAL");
    assert.equal(failureCode(new TypeError("x")), "TypeError");
    assert.equal(failureCode({ code: "ENOENT" }), "unknown");
  });

  test("every row is complete: status, JSON-RPC code, a sentence, and what to do", () => {
    assert.ok(codes.length > 40);
    for (const code of codes) {
      const { http, rpc, message, advice } = errorRow(code);
      assert.match(code, /^[A-Z][A-Z_]*[A-Z]$/);
      assert.ok(Number.isInteger(http) && http >= 400 && http < 600, code);
      assert.ok(Number.isInteger(rpc) && rpc >= -32_768 && rpc <= -32_000, code);
      assert.match(message, /\w/, code);
      assert.match(advice, /\.$/, code);
    }
  });

  test("no code is used again after it was retired", () => {
    assert.equal(new Set([...codes, ...RETIRED_CODES]).size, codes.length + RETIRED_CODES.length);
  });

  test("what may be repeated is never the client's own fault", () => {
    for (const code of codes) {
      const { http, retryable } = errorRow(code);
      if ([400, 404, 405, 409, 410, 413, 415, 422].includes(http)) assert.equal(retryable, false, code);
      if ([408, 429, 502, 504].includes(http)) assert.equal(retryable, true, code);
    }
  });

  test("a gateway's fault is one of the statuses that the specification lists, and silence has a JSON-RPC code of its own", () => {
    // Of a command, never of an answer over HTTP.
    const commands = new Set(["TX_UNKNOWN"]);
    const faults = codes.filter((code) => errorRow(code).http >= 500 && !commands.has(code));
    assert.deepEqual(
      [...new Set(faults.map((code) => errorRow(code).http))].toSorted((a, b) => a - b),
      [500, 502, 503],
    );
    assert.equal(errorRow("DEADLINE_EXCEEDED").http, errorRow("SUPPLIERS_UNREACHABLE").http);
    assert.notEqual(errorRow("DEADLINE_EXCEEDED").rpc, errorRow("SUPPLIERS_UNREACHABLE").rpc);
  });

  test("an error carries its code, its safe sentence, its detail and its cause", () => {
    const cause = new TypeError("inner");
    const error = new AppError("NO_SUPPLIERS", { detail: { service: "eth" }, cause });
    assert.equal(error.name, "AppError");
    assert.equal(error.message, ERRORS.NO_SUPPLIERS.message);
    assert.equal(error.cause, cause);
    assert.deepEqual(error.detail, { service: "eth" });
    assert.ok(isAppError(error) && isAppError(error, "NO_SUPPLIERS"));
    assert.ok(!isAppError(error, "INTERNAL") && !isAppError(cause));
    assert.ok(!Object.hasOwn(new AppError("INTERNAL"), "cause"));
  });

  test("the body has exactly four members and shows neither detail nor cause", () => {
    const body = errorBody("SERVICE_UNAVAILABLE", "r1");
    assert.deepEqual(Object.keys(body), ["code", "message", "requestId", "retryable"]);
    assert.equal(body.retryable, true);
    assert.match(errorBody("BAD_PATH", "r1", "Custom.").message, /^Custom\. Send a path/);
  });
});
