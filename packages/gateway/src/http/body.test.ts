import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { openRaw, type RawClient } from "@turnpike/testkit";
import { paymentHeader, startTestGateway, type TestGateway } from "../../test/stand-ins.ts";
import { createBodyBudget } from "./body.ts";

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
    const whole = createBodyBudget(() => 10);
    const part = createBodyBudget(() => 5, whole);
    assert.ok(!part.take(6));
    assert.ok(part.take(4));
    assert.ok(!part.take(2));
    assert.ok(!whole.take(7));
    assert.ok(whole.take(6));
    assert.ok(!part.take(1), "the whole has none left");
    whole.give(6);
    assert.ok(part.take(1));
    part.give(5);
    assert.ok(whole.take(10));
    whole.hold(5);
    whole.give(10);
    assert.ok(!whole.take(6));
  });
});
