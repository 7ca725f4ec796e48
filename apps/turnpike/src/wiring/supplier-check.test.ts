import assert from "node:assert/strict";
import { test } from "node:test";
import { loadConfig } from "@turnpike/config";
import { createMessage, shared } from "@turnpike/proto";
import { stakeFindings } from "./supplier-check.ts";

const config = loadConfig({
  env: {},
  overrides: { supplier: { services: { eth: { backends: { json_rpc: { url: "http://127.0.0.1:1" } } } } } },
});
const operator = { address: "pokt1operator", port: 8549 };
const service = { serviceId: "eth", endpoints: [{ url: "http://127.0.0.1:8549", rpcType: shared.RPCType.JSON_RPC }] };

const findingsOf = (fields: Parameters<typeof createMessage<typeof shared.SupplierSchema>>[1]) =>
  stakeFindings(config, operator, createMessage(shared.SupplierSchema, fields)).map(({ ok, text }) => [ok, text]);

test("a stake of this session is shown with the block from which sessions have it, and is no fault", () => {
  assert.deepEqual(findingsOf({ serviceConfigHistory: [{ service, activationHeight: 41n }] }), [
    [true, "staked, and in sessions from block 41 on"],
  ]);
  assert.deepEqual(findingsOf({ services: [service], serviceConfigHistory: [{ service, activationHeight: 41n }] }), [
    [true, "1 endpoints"],
  ]);
});

test("a service that was never staked for, or is no more, is a fault", () => {
  const none = [[false, "configured, and not staked for: no session names it. Stake for it"]];
  assert.deepEqual(findingsOf({}), none);
  const over = { service, activationHeight: 1n, deactivationHeight: 21n };
  assert.deepEqual(findingsOf({ serviceConfigHistory: [over] }), none);
});
