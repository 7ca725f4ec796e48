import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { suite, test } from "node:test";
import { eventually, openRaw, type RawClient } from "@turnpike/testkit";
import { paymentHeader, receipt, startTestGateway, type TestGateway } from "../../test/stand-ins.ts";

const CALL = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}';
const MIB = 1_048_576;
/** More than the system's buffers hold of an answer that is not read. */
const LARGE = `{"jsonrpc":"2.0","id":1,"result":"${"a".repeat(24 * MIB)}"}`;
const SMALL = '{"jsonrpc":"2.0","id":1,"result":"0x10"}';

/** Clients are told apart by what the proxy before the gateway says. */
const proxied = { trustedProxies: ["127.0.0.1"] };

type Way = "plain" | "chunked";

/** A plain request comes by the fast way, which answers one after another; one in chunks comes by the server of `node:http`. */
const post = (client: string, way: Way): string => {
  const head = ["POST /relay/eth HTTP/1.1", "Host: 127.0.0.1", `X-Forwarded-For: ${client}`];
  const body =
    way === "plain"
      ? `Content-Length: ${CALL.length}\r\n\r\n${CALL}`
      : `Transfer-Encoding: chunked\r\n\r\n${CALL.length.toString(16)}\r\n${CALL}\r\n0\r\n\r\n`;
  return `${head.join("\r\n")}\r\n${body}`;
};

const read = (to: TestGateway, client = "198.51.100.9"): Promise<Response> =>
  fetch(`${to.url}/relay/eth`, { method: "POST", body: CALL, headers: { "x-forwarded-for": client } });

const buy = (to: TestGateway): Promise<Response> =>
  fetch(`${to.url}/v1/eth`, { method: "POST", body: CALL, headers: { "payment-signature": paymentHeader() } });

/** Asks, so many times, and reads nothing. Resolves when the answers are made. */
async function askAndLeave(to: TestGateway, client: string, way: Way, times = 1): Promise<RawClient> {
  const raw = await openRaw(to.port);
  raw.socket.pause();
  const made = Promise.withResolvers<void>();
  const until = to.relay.runs + times;
  const { answer } = to.relay;
  to.relay.answer = (call) => {
    if (to.relay.runs >= until) made.resolve();
    return answer(call);
  };
  raw.write(post(client, way).repeat(times));
  await made.promise;
  to.relay.answer = answer;
  return raw;
}

/** Waits until the free relay serves a client, since what was held is given back. */
async function servedAgain(to: TestGateway, client?: string): Promise<void> {
  await eventually("what was held is given back", async () => {
    const answer = await read(to, client);
    // There was room for it. A short time-out of the test may end this reader too, when the machine is busy.
    await answer.arrayBuffer().catch(() => undefined);
    return answer.status === 200;
  });
}

/** The gateway's end of the next connection on which a request comes. */
function nextServerSocket(to: TestGateway): Promise<Socket> {
  const { promise, resolve } = Promise.withResolvers<Socket>();
  const hear = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket };
    if (socket.localPort !== to.port) return;
    unsubscribe("http.server.request.start", hear);
    resolve(socket);
  };
  subscribe("http.server.request.start", hear);
  return promise;
}

suite("answers that their clients do not read", () => {
  for (const way of ["plain", "chunked"] as const) {
    test(`are bounded together: beyond that the oldest free one makes room, small and paid ones are always sent (${way})`, async () => {
      await using to = await startTestGateway({ ...proxied, maxHeldAnswerBytes: 98 * MIB });
      to.relay.answer = () => LARGE;
      await using first = await askAndLeave(to, "192.0.2.1", way);
      await using _second = await askAndLeave(to, "192.0.2.2", way);
      assert.equal((await (await read(to)).text()).length, LARGE.length, "the oldest makes room");
      first.socket.resume();
      await first.closed;
      assert.ok(first.socket.bytesRead < LARGE.length);

      const bought = await buy(to);
      assert.equal(bought.status, 200);
      assert.ok((await bought.text()).length > LARGE.length);
      to.relay.answer = () => SMALL;
      assert.equal((await read(to)).status, 200);

      to.relay.answer = () => LARGE;
      await servedAgain(to);
      // It was read to its end, and so given back.
      await servedAgain(to);
    });
  }

  test("attack: copies of one bought answer are bounded as well, and what is bought anew is delivered", async () => {
    await using to = await startTestGateway({ ...proxied, maxHeldAnswerBytes: 98 * MIB });
    const answer = { contentType: "application/json", body: Buffer.from(LARGE) };
    const stored = { kind: "settled", receipt: receipt(), answer, settlementId: "s" as never } as const;
    to.payment.admission = () => ({ kind: "outcome", outcome: stored });
    const ask = `POST /v1/eth HTTP/1.1\r\nHost: 127.0.0.1\r\nPAYMENT-SIGNATURE: ${paymentHeader()}\r\n`;
    const raws = await Promise.all(
      ["192.0.2.1", "192.0.2.2", "192.0.2.2"].map(async (client) => {
        const raw = await openRaw(to.port);
        raw.socket.pause();
        raw.write(`${ask}X-Forwarded-For: ${client}\r\nContent-Length: ${CALL.length}\r\n\r\n${CALL}`);
        return raw;
      }),
    );
    await eventually("a second copy of one client is refused", async () => {
      const metrics = await (await fetch(`${to.metricsUrl}/metrics`)).text();
      return /^turnpike_gateway_limited_total\{limit="unread"\} 1$/m.test(metrics);
    });
    to.payment.admission = undefined;
    to.relay.answer = () => LARGE;
    const bought = await buy(to);
    assert.equal(bought.status, 200);
    assert.ok((await bought.text()).length > LARGE.length);
    to.payment.admission = () => ({ kind: "outcome", outcome: stored });
    const copy = await buy(to);
    assert.equal(copy.status, 200, "those that are not read make room");
    assert.equal((await copy.text()).length, LARGE.length);
    for (const raw of raws) raw.socket.resetAndDestroy();
  });

  test("are given back when their connection ends, also those that wait behind another", async () => {
    await using to = await startTestGateway({ ...proxied, maxHeldAnswerBytes: 400 * MIB, stallTimeoutMs: 600_000 });
    to.relay.answer = () => LARGE;
    const opened = nextServerSocket(to);
    await using _raw = await askAndLeave(to, "192.0.2.1", "chunked", 2);
    assert.equal((await read(to, "192.0.2.1")).status, 503);
    const socket = await opened;
    assert.equal(socket.timeout, 600_000);
    // From here on the stall is a short one: it ends the connection.
    socket.setTimeout(50);
    await servedAgain(to, "192.0.2.1");
    // There is room for two again, not for one.
    await using _next = await askAndLeave(to, "192.0.2.1", "chunked");
    assert.equal((await read(to, "192.0.2.1")).status, 200);
  });

  test("a plain one is given back when its connection ends by its stall", async () => {
    await using to = await startTestGateway({ ...proxied, maxHeldAnswerBytes: 400 * MIB, stallTimeoutMs: 50 });
    to.relay.answer = () => LARGE;
    await using _one = await askAndLeave(to, "192.0.2.1", "plain");
    await using _other = await askAndLeave(to, "192.0.2.1", "plain");
    await servedAgain(to, "192.0.2.1");
  });

  for (const way of ["plain", "chunked"] as const) {
    test(`are bounded for each client: one that reads nothing does not take the others' room (${way})`, async () => {
      await using to = await startTestGateway({ ...proxied, maxHeldAnswerBytes: 400 * MIB });
      to.relay.answer = () => LARGE;
      await using first = await askAndLeave(to, "192.0.2.1", way);
      await using _second = await askAndLeave(to, "192.0.2.1", way);
      const refused = await read(to, "192.0.2.1");
      assert.equal(refused.status, 503);
      assert.equal(refused.headers.get("retry-after"), "1");
      const { error } = (await refused.json()) as { readonly error: { readonly code: number } };
      assert.equal(error.code, -32503);
      const metrics = await (await fetch(`${to.metricsUrl}/metrics`)).text();
      assert.match(metrics, /^turnpike_gateway_limited_total\{limit="unread"\} 1$/m);
      assert.equal((await read(to, "192.0.2.2")).status, 200);
      // An address of IPv6 is counted with all of its /64.
      await using _third = await askAndLeave(to, "2001:db8::1", way);
      await using _fourth = await askAndLeave(to, "2001:db8::1", way);
      assert.equal((await read(to, "2001:db8::ffff")).status, 503);
      assert.equal((await read(to, "2001:db8:0:1::1")).status, 200);

      first.socket.resetAndDestroy();
      await servedAgain(to, "192.0.2.1");
    });
  }
});
