import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { createMessage, decodeMessage, encodeMessage, proof, toApiJson, tokenomics } from "@turnpike/proto";
import {
  blockAt,
  contextAt,
  fromJson,
  readChain,
  runRecordedBlock,
  runRecordedTxs,
  settlementMachine,
  stateBefore,
} from "../../../test/modules/tokenomics/recorded.ts";
import { planted } from "../../../test/planted.ts";
import type { Overlay } from "../../state/overlay.ts";
import { tokenomicsParams } from "../tokenomics/state.ts";
import { proofParams } from "./state.ts";

interface RecordedCall {
  readonly name: string;
  readonly method: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly request_hex: string;
  readonly status: { readonly code: number; readonly message: string };
  readonly response_hex: string | null;
}

interface RecordedAnswer {
  readonly name: string;
  readonly request: { readonly headers?: Readonly<Record<string, string>> };
  readonly status: number;
  readonly body: { readonly message?: string };
}

const ROOT = new URL("../../../../../test/spec/recorded-chain/", import.meta.url);
const readJson = <T>(name: string): T => JSON.parse(readFileSync(new URL(name, ROOT), "utf8")) as T;
const answers = readJson<RecordedAnswer[]>("rest/proof.json");
const machine = settlementMachine();
const record = readChain("e2e-1");

/** The state at the heights of the recorded questions: with claims, with verdicts, after settlement. */
function stateAt(height: number): Overlay {
  const state = stateBefore(record);
  const ctx = contextAt(state, BigInt(height));
  const settled = height > record.settlement_height;
  const early = { ...record, txs: record.txs.filter((tx) => Number(tx.height) <= height) };
  runRecordedTxs(machine, early, state);
  if (!settled) return state;
  runRecordedBlock(machine, record, state, BigInt(record.settlement_height), []);
  const params = answers.find(({ name }) => name === "params")?.body as { params: unknown };
  proofParams.set(ctx, undefined, fromJson(proof.ParamsSchema, params.params));
  const other = readJson<{ body: { params: unknown } }[]>("rest/tokenomics.json")[0]?.body.params;
  tokenomicsParams.set(ctx, undefined, planted(fromJson(tokenomics.ParamsSchema, other)));
  return state;
}

const heightOf = (headers: Readonly<Record<string, string>> | undefined): number =>
  Number(headers?.["x-cosmos-block-height"] ?? "2191");

suite("recorded answers", () => {
  for (const call of [
    ...readJson<RecordedCall[]>("grpc/proof.json"),
    ...readJson<RecordedCall[]>("grpc/tokenomics.json"),
  ]) {
    test(`gRPC ${call.method}: ${call.name}`, () => {
      const height = heightOf(call.metadata);
      const block = blockAt(BigInt(height));
      const answer = machine.query(stateAt(height), block, call.method, Buffer.from(call.request_hex, "hex"));
      if (answer.ok) assert.equal(Buffer.from(answer.value).toString("hex"), call.response_hex);
      else assert.deepEqual([answer.status, answer.text], [call.status.code, call.status.message]);
    });
  }

  const SESSION = "128c2f8251da219f332d9d7ffc981b43fa6946463f310fe6ed2bca1281ddd256";
  const SUPPLIER = "pokt1ujc9uxlulhjtnq84s55d9rm980waynn4rvrsun";
  const all = (filter: proof.QueryAllClaimsRequest["filter"]) => ({
    method: "AllClaims",
    request: encodeMessage(
      proof.QueryAllClaimsRequestSchema,
      createMessage(proof.QueryAllClaimsRequestSchema, filter.case === undefined ? {} : { filter }),
    ),
    answer: proof.QueryAllClaimsResponseSchema,
  });
  const one = (supplierOperatorAddress: string, what: "Claim" | "Proof" = "Claim") => ({
    method: what,
    request: encodeMessage(
      proof.QueryGetClaimRequestSchema,
      createMessage(proof.QueryGetClaimRequestSchema, { sessionId: SESSION, supplierOperatorAddress }),
    ),
    answer: what === "Claim" ? proof.QueryGetClaimResponseSchema : proof.QueryGetProofResponseSchema,
  });
  const questions: Record<string, ReturnType<typeof all> | ReturnType<typeof one>> = {
    "claims none or some": all({ case: undefined }),
    "claims at claim height": all({ case: undefined }),
    claim: one(SUPPLIER),
    "claim validated": one(SUPPLIER),
    "claims by session": all({ case: "sessionId", value: SESSION }),
    "claims by supplier": all({ case: "supplierOperatorAddress", value: SUPPLIER }),
    "claims by end height": all({ case: "sessionEndHeight", value: 1210n }),
    "claim after settlement": one(SUPPLIER),
    "claim bad supplier": one("zzz"),
    "proof not found": one(SUPPLIER, "Proof"),
    "claims by bad supplier": all({ case: "supplierOperatorAddress", value: "zzz" }),
  };
  for (const [name, { method, request, answer: schema }] of Object.entries(questions)) {
    test(`REST ${name}`, () => {
      const recorded = answers.find((answer) => answer.name === name);
      assert.ok(recorded);
      const height = heightOf(recorded.request.headers);
      const answer = machine.query(stateAt(height), blockAt(BigInt(height)), `/pocket.proof.Query/${method}`, request);
      if (!answer.ok) {
        assert.equal(answer.text, recorded.body.message);
        return;
      }
      assert.equal(recorded.status, 200);
      assert.deepEqual(Buffer.from(answer.value), Buffer.from(encodeMessage(schema, fromJson(schema, recorded.body))));
    });
  }

  test("claims come in pages that go on where the last one ended, in both directions", () => {
    const state = stateAt(1214);
    const ctx = blockAt(1214n);
    const page = (pagination: Record<string, unknown>) => {
      const request = fromJson(proof.QueryAllClaimsRequestSchema, { session_end_height: "1210", pagination });
      const path = "/pocket.proof.Query/AllClaims";
      const answer = machine.query(state, ctx, path, encodeMessage(proof.QueryAllClaimsRequestSchema, request));
      assert.ok(answer.ok);
      return toApiJson(proof.QueryAllClaimsResponseSchema, decoded(answer.value)) as {
        claims: { root_hash: string }[];
        pagination: { next_key: string | null; total: string };
      };
    };
    const whole = page({ count_total: true });
    assert.equal(whole.pagination.total, "4");
    for (const reverse of [false, true]) {
      const seen: string[] = [];
      let key: string | null = null;
      do {
        const next: ReturnType<typeof page> = page({ limit: "1", reverse, ...(key === null ? {} : { key }) });
        seen.push(...next.claims.map((claim) => claim.root_hash));
        key = next.pagination.next_key;
      } while (key !== null && key !== "");
      const roots = whole.claims.map((claim) => claim.root_hash);
      assert.deepEqual(seen, reverse ? roots.reverse() : roots);
    }
  });
});

function decoded(bytes: Uint8Array): proof.QueryAllClaimsResponse {
  const read = decodeMessage(proof.QueryAllClaimsResponseSchema, bytes);
  assert.ok(read.ok);
  return read.message;
}
