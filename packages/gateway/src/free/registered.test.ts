import assert from "node:assert/strict";
import { test } from "node:test";
import { createCatalogue, withRegistered } from "@turnpike/catalogue";
import { type StandInRelay, standInRelay, startTestGateway, type TestGateway } from "../../test/stand-ins.ts";

const ID = "my-api";

/** A gateway that has a service of the chain of which nothing is known. */
async function openGateway(relay: StandInRelay = standInRelay([ID])): Promise<TestGateway> {
  const catalogue = withRegistered(createCatalogue({}), [{ id: ID, ownerAddress: "pokt1owner" }]);
  return startTestGateway({ maxBatchItems: 3 }, { catalogue, relay });
}

test("JSON-RPC at the root is checked for its form before anything is sent", async () => {
  const relay = standInRelay([ID]);
  await using gateway = await openGateway(relay);
  const post = async (body: string | Uint8Array<ArrayBuffer>) => {
    const answer = await fetch(`${gateway.url}/relay/${ID}`, { method: "POST", body });
    const text = await answer.text();
    const { error } = text === "" ? {} : (JSON.parse(text) as { error?: { code: number } });
    return [answer.status, error?.code];
  };
  const call = '{"jsonrpc":"2.0","id":1,"method":"any_thing"}';
  const bodies: readonly (readonly [string | Uint8Array<ArrayBuffer>, number, number | undefined])[] = [
    ["", 400, -32700],
    ["<html>", 400, -32700],
    ["a=1&b=2", 400, -32700],
    [Uint8Array.of(0xff, 0xfe, 0), 400, -32700],
    ["7", 400, -32600],
    ["[]", 400, -32600],
    ['{"id":1}', 400, -32600],
    [`[${[call, call, call, call].join()}]`, 413, -32600],
  ];
  for (const [body, status, code] of bodies) {
    const [got, error] = await post(body);
    assert.equal(got, status, String(body));
    if (code === -32700) assert.equal(error, code, String(body));
    else assert.notEqual(error, undefined, String(body));
  }
  assert.equal(relay.runs, 0);
  assert.deepEqual(await post(call), [200, undefined]);
  assert.deepEqual(await post(`[${call},7,${call}]`), [200, undefined]);
  assert.equal(relay.runs, 3);
});

test("paths take any body and any type, and what comes back is nothing that a browser would run", async () => {
  const relay = standInRelay([ID]);
  await using gateway = await openGateway(relay);
  const types: string[] = [];
  const seen: string[] = [];
  relay.answer = ({ path, request }) => {
    seen.push(`${request.request.call.verb} ${path} ${Buffer.from(request.request.call.body ?? []).toString()}`);
    return "<script>";
  };
  const ask = async (path: string, init: RequestInit) => {
    const answer = await fetch(`${gateway.url}/relay/${ID}${path}`, init);
    types.push(answer.headers.get("content-type") ?? "", answer.headers.get("x-content-type-options") ?? "");
    return answer.status;
  };
  const headers = { "content-type": "text/html" };
  assert.equal(await ask("/v1/things?a=1", { method: "POST", body: "<b>", headers }), 200);
  assert.equal(await ask("/v1/things", {}), 200);
  assert.deepEqual(seen, ["POST /v1/things?a=1 <b>", "GET /v1/things "]);
  assert.deepEqual(new Set(types), new Set(["application/json", "nosniff"]));
  assert.equal(await ask("/v1/things", { method: "DELETE" }), 405);
  assert.equal(await ask("/v1/%2e%2e%2fadmin", {}), 400);
  assert.equal(seen.length, 2);
});

test("it is not sold", async () => {
  await using gateway = await openGateway();
  assert.equal((await fetch(`${gateway.url}/v1/${ID}`, { method: "POST", body: "{}" })).status, 404);
});
