import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { freePort, isPortFree } from "./ports.ts";

/** From where on the system gives out ports by itself; RFC 6335 section 6 has the least for other systems. */
async function firstGivenOut(): Promise<number> {
  const text = await readFile("/proc/sys/net/ipv4/ip_local_port_range", "utf8").catch(() => "49152");
  return Number.parseInt(text, 10);
}

suite("free ports", () => {
  test("are none that the system gives to a connection while their program is away, and none comes twice", async (t) => {
    const first = await firstGivenOut();
    if (first < 26_081) return t.skip(`here the system gives out ports from ${first} on`);
    const ports = await Promise.all(Array.from({ length: 200 }, () => freePort()));
    assert.deepEqual(
      ports.filter((port) => port <= 10_080 || port >= first),
      [],
    );
    assert.equal(new Set(ports).size, ports.length);
  });

  test("are those that nobody listens on; when there is none, that is said", async () => {
    const port = await freePort();
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    assert.equal(await isPortFree(port), false);
    const taken = { first: port, count: 1 };
    await assert.rejects(freePort(taken), (error) => isAppError(error, "PORT_IN_USE"));
    await new Promise((resolve) => server.close(resolve));
    assert.equal(await freePort(taken), port);
  });
});
