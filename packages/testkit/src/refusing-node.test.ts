import assert from "node:assert/strict";
import { test } from "node:test";
import { startRefusingNode } from "./refusing-node.ts";
import { rpcAnswer, startUpstream } from "./upstream.ts";

const ask = async (url: string, body: unknown): Promise<unknown> =>
  (await fetch(url, { method: "POST", body: JSON.stringify(body) })).json();

test("refuses the transactions that it is asked to, alone and in a batch, and passes the rest on", async () => {
  await using upstream = await startUpstream((call, response) => {
    const batch = call.text.startsWith("[") ? (JSON.parse(call.text) as { readonly id: number }[]) : undefined;
    response.end(
      batch === undefined
        ? rpcAnswer(call, '"result":"ok"')
        : JSON.stringify(batch.map(({ id }) => ({ jsonrpc: "2.0", id, result: "ok" }))),
    );
  });
  await using node = await startRefusingNode(upstream.url, (raw) =>
    raw === "0xbad" ? "rejected by policy" : undefined,
  );
  const send = (id: number, raw: string): object => ({ id, method: "eth_sendRawTransaction", params: [raw] });
  const refusal = (id: number): object => ({
    jsonrpc: "2.0",
    id,
    error: { code: -32_000, message: "rejected by policy" },
  });
  const result = (id: number): object => ({ jsonrpc: "2.0", id, result: "ok" });
  assert.deepEqual(await ask(node.url, send(1, "0xbad")), refusal(1));
  assert.deepEqual(await ask(node.url, send(2, "0xgood")), result(2));
  assert.deepEqual(await ask(node.url, { id: 3, method: "eth_chainId", params: [] }), result(3));
  const batch = [send(4, "0xbad"), { id: 5, method: "eth_chainId", params: [] }, send(6, "0xgood")];
  assert.deepEqual(await ask(node.url, batch), [result(5), result(6), refusal(4)]);
  assert.deepEqual(await ask(node.url, [send(7, "0xbad")]), [refusal(7)]);
  assert.deepEqual([node.refused, node.passed], [3, 2]);
});
