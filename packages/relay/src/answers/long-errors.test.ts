import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import type { BackendCall, RpcType } from "@turnpike/protocol";
import { endsInLinearTime } from "@turnpike/testkit";
import { responseOf } from "../../test/response.ts";
import { httpProbeCall, rpcProbeCall } from "../families/family.ts";
import { parseAnswer } from "./parsed-answer.ts";
import { scanAnswer } from "./scanned-answer.ts";

const services = [...createCatalogue({}).services.values()];
const FAMILIES = ["evm", "cosmos", "solana", "near", "sui", "tron", "bitcoin", "beacon"] as const;
const LENGTH = 1_000_000;
/** Beginnings of what families look for, and what their expressions repeat. */
const PARTS = ["min height ", "height -1", "checkpoint ", "tx (", "tx 0x", "state ", "query ", "codespace a", "route "];
const PUMPS = [...PARTS, "Error", "1", " "];

function serviceOf(family: string): Service {
  const service = services.find(({ families }) => families.length === 1 && families[0] === family);
  assert.ok(service !== undefined, family);
  return service;
}

/** A JSON-RPC error, and one of a path, that consist of a long text. */
function errorsWith(
  family: string,
  text: string,
): readonly (readonly [call: BackendCall, status: number, body: unknown])[] {
  const rpc = (error: unknown): unknown => ({ jsonrpc: "2.0", id: 1, error });
  const path = (verb: "GET" | "POST", rpcType: RpcType): BackendCall => httpProbeCall(verb, "/x", rpcType);
  if (family === "beacon") return [[path("GET", "rest"), 404, { code: 404, message: text }]];
  const error = rpc({
    code: -32_603,
    message: text,
    ...(family === "cosmos" || family === "near" ? { data: text } : {}),
  });
  return [
    [rpcProbeCall("m", []), 200, error],
    ...(family === "cosmos" ? [[path("GET", "rest"), 500, { code: 13, message: text, details: [] }] as const] : []),
    ...(family === "tron" ? [[path("POST", "rest"), 200, { Error: text }] as const] : []),
  ];
}

suite("errors that repeat a long request", () => {
  for (const family of FAMILIES) {
    test(`${family}: time grows with their length`, () => {
      const service = serviceOf(family);
      for (const pump of PUMPS) {
        const text = `${pump.repeat(LENGTH / pump.length)}\u0001`;
        for (const [call, status, said] of errorsWith(family, text)) {
          const body = Buffer.from(JSON.stringify(said));
          const source = { call, response: responseOf(body, status), operator: "a" };
          endsInLinearTime(() => void scanAnswer(service, source));
        }
      }
    });
  }

  test("are judged by both of their ends", () => {
    const request = "x".repeat(LENGTH);
    const judged = (data: string): string => {
      const error = { code: -32_603, message: "Internal error", data };
      const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 1, error }));
      const source = { call: rpcProbeCall("tx_search", {}), response: responseOf(body), operator: "a" };
      const read = parseAnswer(serviceOf("cosmos"), source, 0);
      return read.ok ? "answer" : `${read.blame} ${read.reason}`;
    };
    assert.equal(judged(`min height 9 can't be greater than max height 1 in ${request}`), "answer");
    assert.equal(judged(`${request}: could not find results for height #5`), "chain state_unavailable");
    assert.equal(judged(`${request} min height 9 can't be greater than max height 1 ${request}`), "supplier error");
  });
});
