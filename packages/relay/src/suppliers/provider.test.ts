import assert from "node:assert/strict";
import { test } from "node:test";
import { domainOf } from "./provider.ts";

test("hosts of one registered domain have one provider", () => {
  const cases: readonly (readonly [string, string | undefined])[] = [
    ["relay1.nodes.example:443", "nodes.example"],
    ["Relay2.Nodes.Example.", "nodes.example"],
    ["nodes.example", "nodes.example"],
    ["a.b.provider.co.uk:8545", "provider.co.uk"],
    ["provider.com.br", "provider.com.br"],
    ["eth.provider.io", "provider.io"],
    ["localhost:8545", undefined],
    ["127.0.0.1:8545", undefined],
    ["10.0.0.1", undefined],
    ["[2001:db8::1]:443", undefined],
  ];
  for (const [host, domain] of cases) assert.equal(domainOf(host), domain, host);
});
