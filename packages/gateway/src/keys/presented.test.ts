import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { presentedKey, relayPlace } from "./presented.ts";

const request = (headers: Readonly<Record<string, string | string[]>>): IncomingMessage =>
  ({ headers }) as unknown as IncomingMessage;

suite("keys as they are presented", () => {
  test("a path names a service, and may name a key before it", () => {
    assert.deepEqual(relayPlace("/relay/eth", true), { id: "eth", path: "", key: undefined });
    assert.deepEqual(relayPlace("/relay/eth/a/b", true), { id: "eth", path: "/a/b", key: undefined });
    assert.deepEqual(relayPlace("/relay/key/K/eth", true), { id: "eth", path: "", key: "K" });
    assert.deepEqual(relayPlace("/relay/key/K/pocket/status", true), { id: "pocket", path: "/status", key: "K" });
    assert.deepEqual(relayPlace("/relay/key//eth", true), { id: "eth", path: "", key: "" });
    assert.deepEqual(relayPlace("/relay/key/K", true), { id: "", path: "", key: "K" });
    assert.deepEqual(relayPlace("/relay/key", true), { id: "key", path: "", key: undefined });
    assert.deepEqual(relayPlace("/relay/keys/K/eth", true), { id: "keys", path: "/K/eth", key: undefined });
    assert.equal(relayPlace("/v1/eth", true), undefined);
  });

  test("where there are no applications, a path is what it always was", () => {
    assert.deepEqual(relayPlace("/relay/key/K/eth", false), { id: "key", path: "/K/eth", key: undefined });
  });

  test("property: what follows the service reaches the chain as it came, with a key or without", () => {
    const rest = fc.string({ unit: fc.constantFrom("/", "a", "k", "e", "y", "%", "2", ".") }).map((text) => `/${text}`);
    fc.assert(
      fc.property(rest, (path) => {
        assert.deepEqual(relayPlace(`/relay/eth${path}`, true), { id: "eth", path, key: undefined });
        assert.deepEqual(relayPlace(`/relay/key/K/eth${path}`, true), { id: "eth", path, key: "K" });
      }),
    );
  });

  test("two keys that differ are neither of them", () => {
    assert.equal(presentedKey(request({}), undefined), undefined);
    assert.equal(presentedKey(request({ "x-api-key": "a" }), undefined), "a");
    assert.equal(presentedKey(request({}), "a"), "a");
    assert.equal(presentedKey(request({ "x-api-key": "a" }), "a"), "a");
    assert.equal(presentedKey(request({ "x-api-key": "" }), undefined), "");
    for (const [header, inPath] of [
      ["a", "b"],
      ["", "b"],
      ["a", ""],
    ] as const) {
      const key = presentedKey(request({ "x-api-key": header }), inPath);
      assert.ok(key !== undefined && key !== "a" && key !== "b");
    }
  });
});
