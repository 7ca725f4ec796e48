import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isAppError } from "@turnpike/base";
import { pathText, type SchemaNode } from "./describe.ts";
import { CONFIG_SCHEMA, type Config, loadConfig, redactConfig } from "./index.ts";

interface Leaf {
  readonly path: readonly string[];
  readonly schema: SchemaNode & { readonly pattern?: string };
}

/** Every place of the schema that holds one value: of a list its first item, of a map one key. */
function leaves(schema: SchemaNode, path: readonly string[] = []): Leaf[] {
  const inner: [string, SchemaNode][] = [
    ...Object.entries(schema.properties ?? {}),
    ...Object.values(schema.patternProperties ?? {}).map((one): [string, SchemaNode] => ["x", one]),
    ...(schema.items === undefined ? [] : [["0", schema.items] satisfies [string, SchemaNode]]),
  ];
  if (inner.length === 0) return [{ path, schema }];
  return inner.flatMap(([key, one]) => leaves(one, [...path, key]));
}

/** A tree with one value at a path. */
function treeOf(path: readonly string[], value: unknown): unknown {
  return path.reduceRight((inner, key) => (key === "0" ? [inner] : { [key]: inner }), value);
}

const valueAt = (tree: unknown, path: readonly string[]): unknown =>
  path.reduce((node, key) => (node as Record<string, unknown>)[key], tree);

const shown = (tree: unknown): unknown => redactConfig(tree as Config);

const ALL = leaves(CONFIG_SCHEMA as SchemaNode);
const SECRET = ALL.filter(({ schema }) => schema["x-secret"] !== undefined);
const CANARY = "canary7d1f";

suite("what an operator sees of a configuration", () => {
  test("no secret of the schema is shown, and everything else is", () => {
    assert.ok(SECRET.length >= 20, `${SECRET.length} secrets`);
    for (const { path, schema } of SECRET) {
      const name = pathText(path);
      for (const value of [
        CANARY,
        `https://user:${CANARY}@host.example:8443/${CANARY}?key=${CANARY}#${CANARY}`,
        ...(schema["x-secret"] === true ? [`any://${CANARY}`, { [CANARY]: CANARY }, [CANARY]] : []),
      ]) {
        const text = JSON.stringify(shown(treeOf(path, value)));
        assert.ok(!text.includes(CANARY), `${name}: ${text}`);
      }
      const url = shown(treeOf(path, "https://user@host.example:8443/x"));
      assert.equal(valueAt(url, path), schema["x-secret"] === true ? "[hidden]" : "https://host.example:8443/…", name);
    }
    for (const { path } of ALL.filter(({ schema }) => schema["x-secret"] === undefined)) {
      assert.equal(valueAt(shown(treeOf(path, "plain")), path), "plain", pathText(path));
      assert.ok(!JSON.stringify(shown(treeOf(path, `https://u:${CANARY}@h/${CANARY}`))).includes(CANARY));
    }
  });

  test("the engines' keys, headers and tokens of a whole configuration", () => {
    const config = loadConfig({
      env: { BRAVE: CANARY },
      overrides: {
        search: { engines: [{ kind: "brave", apiKey: CANARY }] },
        suppliers: {
          eth: { endpoints: [{ operator: "a", urls: { json_rpc: "https://h/x" }, headers: { "X-Key": CANARY } }] },
        },
        ledger: { url: `postgres://u:${CANARY}@db.internal/d` },
      },
    });
    const text = JSON.stringify(redactConfig(config));
    assert.ok(!text.includes(CANARY), text);
    for (const part of [
      '"apiKey":"[hidden]"',
      '"X-Key":"[hidden]"',
      '"url":"postgres://db.internal/…"',
      '"kind":"brave"',
    ]) {
      assert.ok(text.includes(part), part);
    }
  });

  test("a text that is named or formed like a secret is marked, or is one of these", () => {
    const harmless = [
      "payment.relayer.keysFile",
      "payment.sellerKeyFile",
      "facilitator.relayer.keysFile",
      "facilitator.sellers[0].keySha256",
      "payment.networks[0].relayer.keysFile",
      "redis.keyPrefix",
      "supplier.keys[0].operatorKeyFile",
      "portalDb.jwt.audience",
      "portalDb.jwt.keys[0].kid",
      "portalDb.jwt.keys[0].algorithm",
      "portalDb.jwt.keys[0].publicKey",
      "protocol.applicationKeyFiles[0]",
      "protocol.gatewayKeyFile",
    ];
    const isLike = ({ path, schema }: Leaf): boolean =>
      /key|token|secret|passw|header|credential|auth|jwt|url|dsn/i.test(pathText(path)) ||
      (schema.pattern ?? "").includes("://");
    const unmarked = ALL.filter(({ schema }) => schema["x-secret"] === undefined)
      .filter((leaf) => leaf.schema.type === "string" || leaf.schema.enum !== undefined)
      .filter(isLike)
      .map(({ path }) => pathText(path));
    assert.deepEqual(unmarked.sort(), harmless.sort());
  });

  test("an error of a configuration never repeats a secret, nor what stands where its list or section was expected", () => {
    let refused = 0;
    for (const { path } of SECRET) {
      for (let length = 1; length <= path.length; length++) {
        for (const value of [CANARY, [CANARY], { [path[length] ?? "other"]: CANARY }, `x ://${CANARY}`]) {
          try {
            loadConfig({ env: {}, overrides: treeOf(path.slice(0, length), value) as Record<string, unknown> });
          } catch (error) {
            if (!isAppError(error, "CONFIG_INVALID")) throw error;
            refused++;
            assert.ok(!error.message.includes(CANARY), error.message);
          }
        }
      }
    }
    assert.ok(refused > 100, `${refused} refused`);
  });
});
