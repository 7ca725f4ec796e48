import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { gzipSync } from "node:zlib";
import { connected, receipt, type StandInGateway, said, startStandInGateway } from "../test/gateway.ts";

interface ThirdParty {
  readonly data?: unknown;
  readonly data_text?: string;
  readonly schema_check?: string;
  readonly cut: boolean;
  readonly characters: number;
}

suite("a bought answer, as an agent gets it", () => {
  let gateway: StandInGateway;
  before(async () => {
    gateway = await startStandInGateway();
  });
  after(() => gateway[Symbol.asyncDispose]());

  /** Buys an answer with this body. */
  const buy = async (body: string) => {
    const zipped = gzipSync(body);
    gateway.onPaid = (_, response) => {
      response.writeHead(200, { ...receipt(), "content-encoding": "gzip" }).end(zipped);
      return true;
    };
    await using mcp = await connected(gateway);
    const result = await mcp.tool("call_service", { service_id: "eth", request: { method: "eth_blockNumber" } });
    assert.notEqual(result.isError, true, said(result).slice(0, 500));
    const { third_party: data } = result.structuredContent as { third_party: ThirdParty };
    return { shown: said(result), data };
  };

  test("attack: numbers beyond doubles are shown as they were sent, and are a text for programs", async () => {
    for (const data of ['{"lamports":9007199254740993}', '{"slot":12345678901234567890}', '[1e999,-0,"\\u0041"]']) {
      const bought = await buy(`{"portal":{"schemaCheck":"passed"},"data" : ${data} }`);
      const shown = data.replace("\\u0041", "A");
      assert.ok(bought.shown.includes(`\n${shown}\n`), bought.shown);
      assert.deepEqual([bought.data.data, bought.data.data_text], [undefined, shown]);
      assert.equal(bought.data.schema_check, "passed");
    }
    const { data } = await buy('{"portal":{},"data":{"n":9007199254740991,"f":[0.1,1.0,1e3]}}');
    assert.deepEqual([data.data, data.data_text], [{ n: 9007199254740991, f: [0.1, 1, 1_000] }, undefined]);
  });

  test("attack: members that have one key are all shown, and are a text for programs", async () => {
    const inner = await buy('{"portal":{},"data":{"to":"a","to":"b"}}');
    assert.ok(inner.shown.includes('\n{"to":"a","to":"b"}\n'), inner.shown);
    assert.equal(inner.data.data_text, '{"to":"a","to":"b"}');
    const outer = await buy('{"data":1,"portal":{"schemaCheck":"passed"},"d\\u0061ta":2}');
    assert.equal(outer.data.data_text, '{"data":1,"portal":{"schemaCheck":"passed"},"data":2}');
    assert.equal(outer.data.schema_check, undefined);
  });

  test("attack: a request whose numbers were changed on the way is refused before anything is signed", async () => {
    gateway.onPaid = undefined;
    await using mcp = await connected(gateway);
    const call = (request: unknown) => mcp.tool("call_service", { service_id: "eth", request });
    for (const amount of ["9007199254740993", "-12345678901234567890", "1e999"]) {
      const text = `{"method":"eth_blockNumber","params":[{"amount":${amount}}]}`;
      for (const request of [JSON.parse(text), text]) {
        const refused = await call(request);
        assert.match(said(refused), /^error INVALID_PARAMS: request: has a number beyond 9007199254740991/, amount);
        assert.match(said(refused), /Nothing was signed and nothing was charged/);
      }
    }
    assert.equal(mcp.signer.count, 0);
    const bought = await call({ method: "eth_blockNumber", params: [9_007_199_254_740_991, -0.1, "9007199254740993"] });
    assert.notEqual(bought.isError, true, said(bought));
    const deep = await call(`{"method":${"[".repeat(500_000)}${"]".repeat(500_000)}}`);
    assert.match(said(deep), /^error INVALID_PARAMS/);
    assert.equal(mcp.signer.count, 1);
  });

  test("attack: what holds few bytes and millions of values is shown in part, and never parsed or written as a whole", async () => {
    const keys = Array.from({ length: 300_000 }, (_, at) => `"k${at.toString(36)}":0`).join(",");
    const bodies = {
      objects: `{"portal":{},"data":[${"{},".repeat(600_000)}{}]}`,
      keys: `{"portal":{},"data":{${keys}}}`,
      outerKeys: `{"data":0,${keys}}`,
      repeatedData: `{${'"data":0,'.repeat(250_000)}"data":1}`,
      portal: `{"portal":[${"{},".repeat(600_000)}{}],"data":0}`,
      escapes: `{"portal":{},"data":"${"\\u202e".repeat(400_000)}"}`,
      backslashes: `{"portal":{},"data":"${"\\\\".repeat(1_500_000)}"}`,
      spaces: `{"portal":{},"data":[0${" ".repeat(2_000_000)}]}`,
    };
    const uncut = new Set(["outerKeys", "portal", "spaces"]);
    for (const [name, body] of Object.entries(bodies)) {
      const { parse, stringify } = JSON;
      let longest = 0;
      const see = (text: string | undefined): void => {
        longest = Math.max(longest, text?.length ?? 0);
      };
      JSON.parse = (text: string, ...rest) => {
        see(text);
        return parse(text, ...rest) as unknown;
      };
      JSON.stringify = (...given: unknown[]) => {
        const text = Reflect.apply(stringify, JSON, given) as string;
        see(text);
        return text;
      };
      try {
        const { data } = await buy(body);
        assert.equal(data.cut, !uncut.has(name), name);
      } finally {
        Object.assign(JSON, { parse, stringify });
      }
      assert.ok(longest < 1_500_000, `${name}: ${longest} characters`);
    }
  });
});
