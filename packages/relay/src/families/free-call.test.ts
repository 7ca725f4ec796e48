import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonMemberSpans, jsonText } from "@turnpike/base";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import { parseFreePath, parseFreeRpc } from "./free-call.ts";

const { services } = createCatalogue({});

function serviceOf(id: string): Service {
  const service = services.get(id as never);
  assert.ok(service !== undefined);
  return service;
}

function call(id: string, text: string): BackendCall | string {
  const body = Buffer.from(text);
  const { method, params } = JSON.parse(text) as { method: string; params?: unknown };
  const members = jsonMemberSpans(body, 0)?.members ?? [];
  const span = (key: string) => members.find((member) => member.key === key);
  const isPlain = members.every(({ key }) => ["jsonrpc", "id", "method", "params"].includes(key));
  const idAt = span("id");
  const texts = { bodyText: jsonText(body), rawId: idAt && body.toString("utf8", idAt.start, idAt.end) };
  const rpc = { method, params, body, ...texts, id: idAt, paramsSpan: span("params"), isPlain };
  const parsed = parseFreeRpc(serviceOf(id), rpc);
  return parsed.ok ? parsed.call : parsed.code;
}

const show = (made: BackendCall | string): string =>
  typeof made === "string"
    ? made
    : `${made.rpcType} ${made.operation}${made.isRead === true ? " read" : ""} ${Buffer.from(made.body ?? []).toString()}`;

test("JSON-RPC: the client's bytes, but for an id that nodes change, and what could be read in two ways", () => {
  const cases: readonly (readonly [id: string, text: string, made: string])[] = [
    [
      "eth",
      '{ "id":7, "method":"eth_call","jsonrpc":"2.0" }',
      'json_rpc eth_call { "id":7, "method":"eth_call","jsonrpc":"2.0" }',
    ],
    ["eth", '{"id":7.5,"method":"eth_call"}', 'json_rpc eth_call {"id":1,"method":"eth_call"}'],
    [
      "eth",
      '{"id":7,"method":"eth_call","Method":"x"}',
      'json_rpc eth_call {"jsonrpc":"2.0","id":7,"method":"eth_call"}',
    ],
    [
      "eth",
      '{"method":"eth_call","x":1,"params":[1.0]}',
      'json_rpc eth_call {"jsonrpc":"2.0","method":"eth_call","params":[1.0]}',
    ],
    ["eth", '{"id":1,"method":"trace_block"}', 'json_rpc undeclared read {"id":1,"method":"trace_block"}'],
    [
      "eth",
      '{"id":1,"method":"eth_sendRawTransaction"}',
      'json_rpc undeclared {"id":1,"method":"eth_sendRawTransaction"}',
    ],
    ["eth", '{"id":1,"method":"eth_mine"}', 'json_rpc undeclared {"id":1,"method":"eth_mine"}'],
    ["eth", '{"id":1,"method":"evm_mine"}', "METHOD_NOT_ALLOWED"],
    ["pocket", '{"id":1,"method":"status"}', 'comet_bft status {"jsonrpc":"2.0","id":1,"method":"status","params":{}}'],
    [
      "pocket",
      '{"id":1,"method":"broadcast_tx_sync","params":{}}',
      'comet_bft undeclared {"id":1,"method":"broadcast_tx_sync","params":{}}',
    ],
    ["kava", '{"id":1,"method":"status","params":{}}', 'comet_bft status {"id":1,"method":"status","params":{}}'],
    [
      "kava",
      '{"id":1,"method":"broadcast_tx_sync","params":{}}',
      'comet_bft undeclared {"id":1,"method":"broadcast_tx_sync","params":{}}',
    ],
    [
      "kava",
      '{"id":1,"method":"eth_sendRawTransaction"}',
      'json_rpc undeclared {"id":1,"method":"eth_sendRawTransaction"}',
    ],
    ["solana", '{"id":1,"method":"getWhatever"}', 'json_rpc undeclared read {"id":1,"method":"getWhatever"}'],
    ["solana", '{"id":1,"method":"sendTransaction"}', 'json_rpc undeclared {"id":1,"method":"sendTransaction"}'],
    ["radix", '{"id":1,"method":"x"}', "METHOD_NOT_ALLOWED"],
  ];
  for (const [id, text, made] of cases) {
    assert.equal(show(call(id, text)), made, text);
  }
  const kept = call("eth", '{"id":7.5,"method":"eth_call"}');
  assert.ok(typeof kept !== "string" && kept.clientId === "7.5" && kept.id === "1");
});

test("paths: what is declared, what is not, and what may write", () => {
  const path = (id: string, verb: "GET" | "POST", text: string): string => {
    const [raw = "", query] = text.split("?");
    const made = parseFreePath(serviceOf(id), {
      verb,
      path: raw,
      query: query === undefined ? "" : `?${query}`,
      body: Buffer.from("{}"),
    });
    return made.ok
      ? `${made.call.rpcType} ${made.call.operation}${made.call.isRead === true ? " read" : ""} ${made.call.path}`
      : made.code;
  };
  assert.equal(path("pocket", "GET", "/block?height=5"), "comet_bft GET /block /block?height=5");
  assert.equal(path("pocket", "GET", "/check_tx?tx=1"), "comet_bft undeclared read /check_tx?tx=1");
  assert.equal(path("pocket", "GET", "/broadcast_tx_sync?tx=1"), "comet_bft undeclared /broadcast_tx_sync?tx=1");
  assert.equal(path("pocket", "GET", "/a/b"), "rest undeclared read /a/b");
  assert.equal(path("pocket", "POST", "/cosmos/tx/v1beta1/txs"), "rest undeclared /cosmos/tx/v1beta1/txs");
  assert.equal(path("pocket", "GET", "/unsafe_x"), "NOT_FOUND");
  assert.equal(path("pocket", "GET", "/a/../b"), "BAD_PATH");
  assert.equal(path("eth", "GET", "/a"), "NOT_FOUND");
  assert.equal(path("tron", "POST", "/wallet/broadcasttransaction"), "rest undeclared /wallet/broadcasttransaction");
});
