import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { ByteBudget } from "@turnpike/base";
import { openRaw, type RawClient } from "@turnpike/testkit";
import { paymentHeader, startTestGateway, type TestGateway } from "../../test/stand-ins.ts";

const CALL = '{"method":"eth_blockNumber"}';
const LENGTH = 60_000;

/** Sends a body to a path, all but its last byte. */
async function stall(to: TestGateway, path: string): Promise<RawClient> {
  const raw = await openRaw(to.port);
  const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ${LENGTH}\r\n\r\n`;
  raw.write(head + " ".repeat(LENGTH - 1));
  return raw;
}

suite("bytes of bodies that are held", () => {
  test("uploads to the free relay that stall leave half of the room to what is paid for", async () => {
    await using to = await startTestGateway({ maxBufferedBytes: 2 * LENGTH, requestTimeoutMs: 60_000 });
    await using first = await stall(to, "/relay/eth");
    await using second = await stall(to, "/relay/eth");
    const [refused] = await Promise.race([first.next(), second.next()]);
    assert.equal(refused?.status, 503);
    const headers = { "payment-signature": paymentHeader() };
    const body = `${CALL}${" ".repeat(LENGTH - 100)}`;
    assert.equal((await fetch(`${to.url}/v1/eth`, { method: "POST", body, headers })).status, 200);
  });

  test("a part of a budget takes from the whole, and no more than its share", () => {
    const whole = new ByteBudget(() => 10);
    const part = new ByteBudget(() => 5, whole);
    assert.ok(!part.acquire(6));
    assert.ok(part.acquire(4));
    assert.ok(!part.acquire(2));
    assert.ok(!whole.acquire(7));
    assert.ok(whole.acquire(6));
    assert.ok(!part.acquire(1), "the whole has none left");
    whole.release(6);
    assert.ok(part.acquire(1));
    part.release(5);
    assert.ok(whole.acquire(10));
    whole.forceAcquire(5);
    whole.release(10);
    assert.ok(!whole.acquire(6));
  });
});
