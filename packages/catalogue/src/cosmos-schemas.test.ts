import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { isRecord } from "@turnpike/base";
import { createCatalogue } from "./catalogue.ts";
import { checkParams, checkResult } from "./check.ts";
import { COSMOS_RPC_METHODS, COSMOS_RPC_PATHS } from "./cosmos-rpc.ts";
import type { Service } from "./types.ts";

interface Exchange {
  readonly name: string;
  readonly template: unknown;
  readonly request: { readonly method: string; readonly path: string; readonly body?: unknown };
  readonly status: number;
  readonly body: unknown;
}

const folder = new URL("../../../test/spec/recorded-cosmos/", import.meta.url);

function* exchanges(kind: "rpc" | "rest"): Generator<Exchange> {
  for (const file of readdirSync(new URL(`${kind}/`, folder))) {
    if (file === "protocol.json") continue;
    yield* JSON.parse(readFileSync(new URL(`${kind}/${file}`, folder), "utf8")) as Exchange[];
  }
}

function service(id: string): Service {
  const found = createCatalogue().get(id);
  assert.ok(found);
  return found;
}

const pocket = service("pocket");

/** Every member that is a non-empty object or list, replaced by a text; and every text, by a number. */
function* bends(value: unknown, path: string): Generator<readonly [string, unknown]> {
  if (!isRecord(value)) return;
  for (const [key, member] of Object.entries(value)) {
    if (typeof member === "string") yield [`${path}.${key}`, { ...value, [key]: 1 }];
    else if (member !== null) yield [`${path}.${key}`, { ...value, [key]: "bent" }];
    const { [key]: _, ...without } = value;
    yield [`${path} without ${key}`, without];
  }
}

test("recorded answers of the consensus engine are taken, bent ones refused", () => {
  const seen = new Set<string>();
  for (const { name, request, body } of exchanges("rpc")) {
    if (!isRecord(body) || body.result === undefined) continue;
    const call = request.body;
    const path = request.path.split("?")[0] ?? "";
    const operation = isRecord(call) ? String(call.method) : `GET ${path}`;
    if (!pocket.operations.has(operation)) continue;
    seen.add(operation);
    const { result } = body;
    assert.equal(checkResult(pocket, operation, result), "passed", `${operation}: ${name}`);
    if (isRecord(call)) assert.deepEqual(checkParams(pocket, operation, call.params), { ok: true });
    for (const bent of [null, "x", 1, [], [result]]) {
      assert.equal(
        checkResult(pocket, operation, bent),
        "failed",
        `${operation}: ${JSON.stringify(bent)?.slice(0, 40)}`,
      );
    }
    const isEmpty = isRecord(result) && Object.keys(result).length === 0;
    const refused = [...bends(result, operation)].filter(
      ([, bent]) => checkResult(pocket, operation, bent) === "failed",
    );
    assert.ok(isEmpty || refused.length >= 2, `${operation}: ${refused.length} bends refused`);
  }
  // header_by_hash has only errors among the recorded answers
  const missing = COSMOS_RPC_METHODS.filter((method) => !seen.has(method));
  assert.deepEqual(missing.sort(), ["dump_consensus_state", "header_by_hash"]);
});

test("a block with a bent header is refused", () => {
  const found = [...exchanges("rpc")].find(
    ({ name, request }) => name === "by height" && request.path.startsWith("/block?"),
  );
  const answer = structuredClone(found?.body) as { result: { block: { header: Record<string, unknown> } } };
  const { header } = answer.result.block;
  const good = { ...header };
  for (const [key, value] of [
    ["height", 103],
    ["height", "103 "],
    ["time", "yesterday"],
    ["app_hash", "0xzz"],
    ["proposer_address", "abc"],
    ["data_hash", null],
  ] as const) {
    answer.result.block.header = { ...good, [key]: value };
    assert.equal(checkResult(pocket, "GET /block", answer.result), "failed", `${key}: ${JSON.stringify(value)}`);
  }
});

/** The declared operation whose template fits a path. */
function operationOf(path: string): string | undefined {
  const names = [...pocket.operations.keys()].filter((name) => name.startsWith("GET /cosmos"));
  const exact = names.find((name) => name === `GET ${path}`);
  return exact ?? names.find((name) => new RegExp(`^${name.slice(4).replaceAll(/\{[^}]+\}/g, "[^/]+")}$`).test(path));
}

test("recorded REST answers are taken, bent ones refused", () => {
  const seen = new Set<string>();
  for (const { name, request, status, body } of exchanges("rest")) {
    const operation = request.method === "GET" ? operationOf(request.path.split("?")[0] ?? "") : undefined;
    if (operation === undefined || status !== 200) continue;
    seen.add(operation);
    assert.equal(checkResult(pocket, operation, body), "passed", `${operation}: ${name}`);
    assert.ok(isRecord(body));
    for (const bent of [null, [], {}, { code: 5, message: "not found", details: [] }]) {
      assert.equal(checkResult(pocket, operation, bent), "failed", `${operation}: ${JSON.stringify(bent)}`);
    }
    const refused = [...bends(body, operation)].filter(([, bent]) => checkResult(pocket, operation, bent) === "failed");
    assert.ok(refused.length >= 1, `${operation}: no bend refused`);
  }
  assert.ok(seen.size >= 45, `${seen.size} paths`);
});

test("amounts are decimal texts", () => {
  const operation = "GET /cosmos/bank/v1beta1/balances/{address}";
  const answer = (amount: unknown): unknown => ({ balances: [{ denom: "upokt", amount }], pagination: null });
  assert.equal(checkResult(pocket, operation, answer("10")), "passed");
  for (const amount of [10, "1.5", "0x1", "", "01", null]) {
    assert.equal(checkResult(pocket, operation, answer(amount)), "failed", JSON.stringify(amount));
  }
});

test("every engine path but /syncing has the schema of its method", () => {
  for (const path of COSMOS_RPC_PATHS) {
    const result = pocket.operations.get(`GET ${path}`)?.result;
    assert.equal(result, pocket.operations.get(path.slice(1))?.result, path);
  }
  assert.equal(checkResult(pocket, "GET /syncing", { syncing: false }), "undeclared");
});
