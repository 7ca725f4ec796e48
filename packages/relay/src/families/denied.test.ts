import assert from "node:assert/strict";
import { test } from "node:test";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import { DENIED, isDenied } from "./denied.ts";

const { services } = createCatalogue({});

function serviceOf(id: string): Service {
  const service = services.get(id as never);
  assert.ok(service !== undefined);
  return service;
}

test("nothing that is sold is refused for free", () => {
  for (const service of services.values()) {
    for (const name of service.operations.keys()) {
      const path = /^(?:GET|POST) (\/.*)$/.exec(name)?.[1];
      assert.ok(!isDenied(service, path ?? name), `${service.id} ${name}`);
    }
  }
});

test("signed writes and unlisted methods pass", () => {
  const passing: readonly (readonly [string, string])[] = [
    ["eth", "eth_sendRawTransaction"],
    ["eth", "eth_sendRawTransactionConditional"],
    ["eth", "eth_accounts"],
    ["eth", "debug_traceTransaction"],
    ["eth", "trace_block"],
    ["eth", "trace_replayBlockTransactions"],
    ["arb-one", "arbtrace_call"],
    ["eth", "parity_getBlockReceipts"],
    ["eth", "no_such_method"],
    ["eth", "evmos_whatever"],
    ["pocket", "broadcast_tx_sync"],
    ["solana", "sendTransaction"],
    ["near", "broadcast_tx_commit"],
    ["tron", "/wallet/broadcasttransaction"],
    ["radix", "/transaction/submit"],
  ];
  for (const [id, name] of passing) assert.ok(!isDenied(serviceOf(id), name), `${id} ${name}`);
});

test("traces are read, not written", () => {
  for (const name of ["trace_import", "trace_export", "TRACE_import", "arbtrace_import"]) {
    assert.ok(isDenied(serviceOf("eth"), name), name);
  }
});

test("a service of two families refuses what either refuses", () => {
  const kava = serviceOf("kava");
  for (const name of ["anvil_mine", "unsafe_flush_mempool", "dial_peers"]) assert.ok(isDenied(kava, name), name);
});

test("every name of the table is refused, in any letter case, with any characters that a reader may drop", () => {
  for (const service of services.values()) {
    const names = service.families.flatMap((family) => DENIED[family].flatMap((group) => group.names));
    for (const name of names) {
      const full = name.replace("*", "Anything");
      for (const one of [full, full.toUpperCase(), ` ${full}`, `${full}\u0000`, full.replace("a", "a\u200b")]) {
        assert.ok(isDenied(service, one), `${service.id} ${JSON.stringify(one)}`);
      }
    }
  }
});
