import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { AppError, type MetricSpec, noMetrics, silentLog } from "@turnpike/base";
import { ConnectionFaults } from "./connection-faults.ts";

const fault = (code: string, more: object = {}): Error => Object.assign(new Error(code), { code, ...more });

suite("faults of connections at the process's last handler", () => {
  const FAULTS = [
    fault("ERR_HTTP2_INVALID_STREAM"),
    fault("ERR_HTTP2_SOCKET_UNBOUND"),
    fault("ECONNRESET", { syscall: "read" }),
    fault("EPIPE", { syscall: "write" }),
    fault("ECONNRESET"),
    fault("HPE_INVALID_CONSTANT"),
    fault("WS_ERR_INVALID_UTF8"),
  ];
  const OTHERS = [
    new TypeError("x is not a function"),
    fault("EADDRINUSE", { syscall: "listen" }),
    fault("ECONNREFUSED", { syscall: "connect" }),
    fault("ECONNRESET", { syscall: "connect" }),
    fault("ENOSPC", { syscall: "write" }),
    new AppError("CHAIN_STORE_DAMAGED"),
    "ECONNRESET",
  ];

  test("are logged and counted while a service runs; a command ends by them", () => {
    const counted: MetricSpec[] = [];
    const lines: string[] = [];
    const faults = new ConnectionFaults();
    assert.deepEqual(
      FAULTS.map((error) => faults.absorb(error)),
      FAULTS.map(() => false),
    );
    faults.attach({
      log: { ...silentLog, error: (_, message) => void lines.push(message) },
      metrics: { ...noMetrics, count: (spec) => void counted.push(spec) },
    });
    assert.deepEqual(
      FAULTS.map((error) => faults.absorb(error)),
      FAULTS.map(() => true),
    );
    assert.deepEqual(
      counted.map(({ name }) => name),
      FAULTS.map(() => "turnpike_connection_faults_total"),
    );
    // One line for many: a flood must not fill the log.
    assert.equal(lines.length, 1);
  });

  test("whatever else reaches it ends the process", () => {
    const faults = new ConnectionFaults();
    faults.attach({ log: silentLog });
    assert.deepEqual(
      OTHERS.map((error) => faults.absorb(error)),
      OTHERS.map(() => false),
    );
  });
});
