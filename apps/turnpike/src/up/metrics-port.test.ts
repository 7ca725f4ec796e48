import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { suite, test } from "node:test";
import { DEFAULT_PORTS } from "./layout.ts";
import { withMetrics } from "./metrics-port.ts";

suite("port of the chain's metrics", () => {
  test("their usual port is given up when it is taken, and only then; one that was asked for stays", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const bound = taken.address();
    assert.ok(bound !== null && typeof bound === "object");
    const usualPort = bound.port;
    const notices: string[] = [];
    const modules = { usualPort, notice: (text: string) => void notices.push(text) };
    try {
      const moved = await withMetrics({ ...DEFAULT_PORTS, chainMetrics: usualPort }, modules);
      assert.ok(moved.chainMetrics > 0 && moved.chainMetrics !== usualPort);
      assert.deepEqual({ ...moved, chainMetrics: 0 }, { ...DEFAULT_PORTS, chainMetrics: 0 });
      assert.deepEqual(notices, [
        `Port ${usualPort} is in use by another program: the relay chain's metrics are on ${moved.chainMetrics}.`,
      ]);
      const asked = { ...DEFAULT_PORTS, chainMetrics: usualPort };
      assert.equal(await withMetrics(asked, { ...modules, usualPort: 1 }), asked);
    } finally {
      taken.close();
    }
    await once(taken, "close");
    const ports = { ...DEFAULT_PORTS, chainMetrics: usualPort };
    assert.equal(await withMetrics(ports, modules), ports);
    assert.equal(notices.length, 1);
  });
});
