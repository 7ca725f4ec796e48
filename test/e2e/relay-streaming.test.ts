import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type ServerResponse } from "node:http";
import { describe, test } from "node:test";
import { rpcAnswer, startEvmUpstream } from "@turnpike/testkit";
import { rpcAt, startRelay } from "./relay-rig.ts";

const MIB = 1_048_576;
/** Nothing here ends by its time: many megabytes take a busy machine a while. */
const LONG = { timeoutMs: 60_000, gateway: { upstreamTimeoutMs: 60_000 } } as const;

/** An entry of a list, 1 KiB of JSON. */
const ENTRY = JSON.stringify({ data: `0x${"ab".repeat(506)}` });

async function writeLarge(response: ServerResponse, entries: number): Promise<void> {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  for (let at = 0; at < entries && !response.destroyed; at++) {
    if (response.write(at === 0 ? ENTRY : `,${ENTRY}`)) continue;
    await once(response, "drain", { signal: gone.signal }).catch(() => undefined);
  }
}

const ask = (id: string): string => `{"jsonrpc":"2.0","id":${id},"method":"debug_traceBlockByNumber","params":["0x1"]}`;

describe("large answers", () => {
  test("pass on while they arrive, with the client's id, and are not held", async () => {
    await using supplier = await startEvmUpstream((call, response) => {
      response.write(`{"jsonrpc":"2.0","id":${call.id},"result":[`);
      void writeLarge(response, 20 * 1_024).then(() => response.end("]}"));
    });
    await using rig = await startRelay({ eth: rpcAt(supplier.url) }, { ...LONG, relay: { maxInFlightBytes: 4 * MIB } });
    const got = await fetch(`${rig.url}/relay/eth`, { method: "POST", body: ask("1.50") });
    const text = await got.text();
    assert.equal(got.status, 200);
    assert.ok(text.startsWith('{"jsonrpc":"2.0","id":1.50,"result":[{"data"'), text.slice(0, 80));
    assert.equal((JSON.parse(text) as { result: unknown[] }).result.length, 20 * 1_024);
  });

  test("are asked for anew by a batch that waited for one", async () => {
    const [asked, beside, go] = Array.from({ length: 3 }, () => Promise.withResolvers<void>());
    assert.ok(asked !== undefined && beside !== undefined && go !== undefined);
    await using supplier = await startEvmUpstream((call, response) => {
      if (call.method === "eth_getBalance") {
        beside.resolve();
        response.end(rpcAnswer(call, '"result":"0x5"'));
        return;
      }
      asked.resolve();
      void go.promise.then(async () => {
        response.write(`{"jsonrpc":"2.0","id":${call.id},"result":[`);
        await writeLarge(response, 3 * 1_024);
        response.end("]}");
      });
    });
    await using rig = await startRelay({ eth: rpcAt(supplier.url) }, LONG);
    const send = (body: string): Promise<Response> => fetch(`${rig.url}/relay/eth`, { method: "POST", body });
    const balance = `{"jsonrpc":"2.0","id":3,"method":"eth_getBalance","params":["0x${"0".repeat(40)}","latest"]}`;
    const streamed = send(ask("1"));
    await asked.promise;
    const batch = send(`[${ask("2")},${balance}]`);
    await beside.promise;
    assert.equal(supplier.paid().length, 2);
    go.resolve();
    const { id, result } = (await (await streamed).json()) as { readonly id: unknown; readonly result: unknown[] };
    assert.deepEqual([id, result.length], [1, 3 * 1_024]);
    const answers = (await (await batch).json()) as { id: unknown; result: unknown[] | string }[];
    assert.deepEqual(
      answers.map((one) => [one.id, one.result.length]),
      [
        [2, 3 * 1_024],
        [3, 3],
      ],
    );
    assert.equal(supplier.paid().length, 3);
  });

  test("that break off half-way break off for the client, and that do not end as JSON too", async () => {
    for (const end of ["destroy", "half"] as const) {
      await using supplier = await startEvmUpstream((call, response) => {
        response.write(`{"jsonrpc":"2.0","id":${call.id},"result":[`);
        void writeLarge(response, 16 * 1_024).then(() => {
          if (end === "destroy") response.destroy();
          else response.end("]");
        });
      });
      await using rig = await startRelay({ eth: rpcAt(supplier.url) }, LONG);
      const got = await fetch(`${rig.url}/relay/eth`, { method: "POST", body: ask("1") });
      await assert.rejects(got.text(), end);
    }
  });

  test("that say they are larger than what is passed on are asked of another", async () => {
    await using liar = await startEvmUpstream((call, response) => {
      response.writeHead(200, { "content-length": String(200 * MIB) });
      response.write(`{"jsonrpc":"2.0","id":${call.id},"result":[`);
      void writeLarge(response, 4 * 1_024);
    });
    await using good = await startEvmUpstream((call, response) => response.end(rpcAnswer(call, '"result":[]')));
    await using rig = await startRelay({ eth: rpcAt(liar.url, good.url) }, { ...LONG, random: () => 0 });
    const got = await fetch(`${rig.url}/relay/eth`, { method: "POST", body: ask("1") });
    assert.equal(await got.text(), '{"jsonrpc":"2.0","id":1,"result":[]}');
  });

  test("whose beginning does not tell whose they are, are taken whole or not at all", async () => {
    await using supplier = await startEvmUpstream((call, response) => {
      const isSmall = call.text.includes("0x2");
      response.write('{"result":[');
      void writeLarge(response, isSmall ? 2 * 1_024 : 6 * 1_024).then(() =>
        response.end(`],"jsonrpc":"2.0","id":${call.id}}`),
      );
    });
    await using rig = await startRelay({ eth: rpcAt(supplier.url) }, LONG);
    const small = await fetch(`${rig.url}/relay/eth`, { method: "POST", body: ask("1").replace("0x1", "0x2") });
    assert.equal(((await small.json()) as { result: unknown[] }).result.length, 2 * 1_024);
    const large = await fetch(`${rig.url}/relay/eth`, { method: "POST", body: ask("1") });
    assert.equal(large.status, 503);
    assert.match(await large.text(), /ANSWER_TOO_LARGE|larger than/);
  });

  test("let their supplier go when the client leaves", async () => {
    const gone = Promise.withResolvers<void>();
    await using supplier = await startEvmUpstream((call, response) => {
      response.on("close", () => gone.resolve());
      response.write(`{"jsonrpc":"2.0","id":${call.id},"result":[`);
      void writeLarge(response, 60 * 1_024).then(() => response.end("]}"));
    });
    await using rig = await startRelay({ eth: rpcAt(supplier.url) }, LONG);
    const req = request(`${rig.url}/relay/eth`, { method: "POST" }, (res) => {
      res.once("data", () => req.destroy());
      res.on("error", () => undefined);
    });
    req.on("error", () => undefined);
    req.end(ask("1"));
    await gone.promise;
  });
});
