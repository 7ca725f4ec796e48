import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { loadConfig } from "./load.ts";

/** What a configuration of search is refused for; `ok` when it is not. */
function fault(search: unknown, more: Readonly<Record<string, unknown>> = {}): string {
  try {
    loadConfig({ env: {}, overrides: { localnet: true, search, ...more } });
  } catch (error) {
    assert.ok(isAppError(error, "CONFIG_INVALID"), String(error));
    return error.message;
  }
  return "ok";
}

const engines = (...list: readonly object[]): string => fault({ engines: list });

suite("the rules of search", () => {
  test("an engine has what its kind needs, and nothing else", () => {
    assert.equal(engines({ kind: "local" }), "ok");
    assert.match(engines({ kind: "searxng" }), /search\.engines\[0\]\.url: missing; set the address/);
    assert.equal(engines({ kind: "searxng", url: "http://127.0.0.1:8888" }), "ok");
    assert.equal(engines({ kind: "searxng", url: "http://u:100%25@127.0.0.1:8888" }), "ok");
    for (const escapes of ["100%", "%ff"]) {
      const said = engines({ kind: "searxng", url: `http://u:${escapes}@127.0.0.1:8888` });
      assert.match(
        said,
        /search\.engines\[0\]\.url: its user or password has % escapes that are no UTF-8; write a % as/,
      );
      assert.ok(!said.includes(escapes), "a password is never shown");
    }
    for (const kind of ["brave", "tavily", "exa"]) {
      const expected = new RegExp(
        `search\\.engines\\[1\\]\\.apiKey: missing; .*\\$\\{${kind.toUpperCase()}_API_KEY\\}`,
      );
      assert.match(engines({ kind: "local" }, { kind }), expected);
      assert.equal(engines({ kind, apiKey: "k" }), "ok");
    }
    assert.match(engines({ kind: "local", apiKey: "k" }), /search\.engines\[0\]\.apiKey: local has none; remove it/);
    assert.match(engines({ kind: "local", url: "http://x" }), /search\.engines\[0\]\.url: the local index has none/);
  });

  test("ids are unique, also those that are the kind; one local engine at most", () => {
    const exa = { kind: "exa", apiKey: "k" };
    assert.match(engines(exa, exa), /search\.engines\[1\]\.id: exa is also the id of search\.engines\[0\]/);
    assert.match(engines(exa, { kind: "local", id: "exa" }), /search\.engines\[1\]\.id: exa is also/);
    assert.equal(engines(exa, { ...exa, id: "exa-2" }), "ok");
    assert.match(engines({ kind: "local" }, { kind: "local", id: "b" }), /search\.engines\[1\]: a second local engine/);
  });

  test("a key never stands in the message", () => {
    const message = engines(
      { kind: "local", apiKey: "very-secret-key" },
      { kind: "exa", apiKey: "very-secret-key", id: "local" },
    );
    assert.ok(message !== "ok" && !message.includes("very-secret-key"), message);
  });

  test("its ports are not shared with other servers, once there is a search service", () => {
    assert.match(fault({ port: 3069 }), /search\.port: 3069 is also gateway\.port; set search\.port to a free port/);
    assert.match(fault({ port: 8081, metrics: { port: 8081 } }), /search\.metrics\.port: 8081 is also search\.port/);
    assert.equal(fault({}, { gateway: { port: 8080 } }), "ok");
    assert.match(fault({ metrics: { port: 9099 } }, { gateway: { port: 8080 } }), /search\.port: 8080 is also gateway/);
  });

  test("an address for everybody needs a name that results can have", () => {
    assert.match(fault({ host: "0.0.0.0" }), /search\.publicUrl: missing/);
    assert.equal(fault({ host: "0.0.0.0", publicUrl: "https://search.example" }), "ok");
  });

  test("a source has the target of its kind", () => {
    const source = (one: object): string => fault({ local: { sources: [one] } });
    assert.match(source({ kind: "url", target: "./docs" }), /search\.local\.sources\[0\]\.target: expected an http/);
    assert.equal(source({ kind: "folder", target: "./docs", baseUrl: "https://docs.example/" }), "ok");
    assert.match(
      source({ kind: "feed", target: "https://a.example/feed", baseUrl: "https://b.example" }),
      /search\.local\.sources\[0\]\.baseUrl: only folders have one/,
    );
  });
});
