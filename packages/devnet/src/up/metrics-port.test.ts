import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { suite, test } from "node:test";
import { DEFAULT_PORTS } from "../ports.ts";
import { withMetrics } from "./metrics-port.ts";

suite("ports of metrics", () => {
  test("their usual port is given up when it is taken, and only then; one that was asked for stays", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const bound = taken.address();
    assert.ok(bound !== null && typeof bound === "object");
    const usualPort = bound.port;
    const notices: string[] = [];
    const usual = { ...DEFAULT_PORTS, chainMetrics: usualPort, supplierMetrics: 0 };
    const base = { ...DEFAULT_PORTS, supplierMetrics: 0, chainMetrics: 0 };
    const modules = { usual, notice: (text: string) => void notices.push(text) };
    try {
      const moved = await withMetrics({ ...base, chainMetrics: usualPort }, modules);
      assert.ok(moved.chainMetrics > 0 && moved.chainMetrics !== usualPort);
      assert.deepEqual({ ...moved, chainMetrics: 0 }, base);
      assert.deepEqual(notices, [
        `Port ${usualPort} is in use by another program: the protocol chain's metrics are on ${moved.chainMetrics}.`,
      ]);
      const asked = { ...base, chainMetrics: usualPort };
      assert.deepEqual(await withMetrics(asked, { ...modules, usual: { ...usual, chainMetrics: 1 } }), asked);
    } finally {
      taken.close();
    }
    await once(taken, "close");
    const ports = { ...base, chainMetrics: usualPort };
    assert.deepEqual(await withMetrics(ports, modules), ports);
    assert.equal(notices.length, 1);
  });
});
