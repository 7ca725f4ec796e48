import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { BOUNDED_EVM_METHODS, EVM_BOUNDS } from "./evm-arguments.ts";
import { evmRefusal, readEvmBody } from "./evm-calls.ts";

const RULES = { bounds: EVM_BOUNDS };
const HUGE = `0x${"f".repeat(16)}`;
const LOOP = "0x5b600056";

const call = (method: string, params: unknown = [], id: unknown = 1): string =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params });

const refusal = (body: string): string | undefined => evmRefusal(Buffer.from(body), RULES);

const codesOf = (body: string): unknown => {
  const answer = refusal(body);
  if (answer === undefined || answer === "") return answer;
  const read = JSON.parse(answer) as { error: { code: number } } | { error: { code: number } }[];
  return Array.isArray(read) ? read.map(({ error }) => error.code) : read.error.code;
};

suite("bounds of calls to an EVM node", () => {
  test("attack: each bounded method is refused beyond its bound, and passed within", () => {
    const looping = { data: LOOP, gas: HUGE };
    const many = Array.from({ length: 1_025 }, () => "0x1");
    const blocks = Array.from({ length: 17 }, () => ({ calls: [{ data: LOOP }] }));
    const beyond: Readonly<Record<string, readonly unknown[]>> = {
      debug_traceBlock: ["0x00", { timeout: "10000h" }],
      debug_traceBlockByHash: ["0x00", { tracer: "{step: function() { while (true); }}" }],
      debug_traceBlockByNumber: ["0x0", { reexec: 100_000_000 }],
      debug_traceCall: [{ data: LOOP }, "latest", { tracer: "{result: function() {}}" }],
      debug_traceCallMany: [[{ transactions: [looping] }], {}, {}],
      debug_traceTransaction: ["0x00", { timeout: "100s" }],
      eth_call: [{ data: LOOP }, "latest", {}, { gasLimit: HUGE }],
      eth_callMany: [[{ transactions: [looping] }]],
      eth_createAccessList: [looping, "latest"],
      eth_estimateGas: [looping],
      eth_feeHistory: ["4294967295", "latest", []],
      eth_getLogs: [{ address: many }],
      eth_getProof: ["0x00", many, "latest"],
      eth_newFilter: [{ topics: [[], [], [], [], []] }],
      eth_sendRawTransaction: [`0x${"00".repeat(131_073)}`],
      eth_sendRawTransactionSync: [`0x${"00".repeat(131_073)}`],
      eth_simulateV1: [{ blockStateCalls: blocks }, "latest"],
      eth_subscribe: ["logs", { topics: [many] }],
      trace_call: [looping, ["trace"], "latest"],
      trace_callMany: [[[looping, ["trace"]]], "latest"],
      trace_filter: [{ fromBlock: "0x0", toBlock: "0x3e8" }],
    };
    assert.deepEqual(Object.keys(beyond), [...BOUNDED_EVM_METHODS]);
    for (const [method, params] of Object.entries(beyond)) assert.equal(codesOf(call(method, params)), -32602, method);
    const within: Readonly<Record<string, readonly unknown[]>> = {
      debug_traceCall: [{ data: LOOP, gas: "0x2faf080" }, "latest", { tracer: "prestateTracer", timeout: "30s" }],
      eth_call: [{ data: LOOP, gas: "0x2faf080" }, "latest"],
      eth_feeHistory: ["0x400", "latest", [25, 75]],
      eth_getLogs: [{ address: many.slice(1), topics: [null, many.slice(1)] }],
      eth_simulateV1: [{ blockStateCalls: blocks.slice(1) }, "latest"],
      trace_filter: [{ fromBlock: "0x0", toBlock: "0x3e7" }],
      anything_else: [looping],
    };
    for (const [method, params] of Object.entries(within))
      assert.equal(refusal(call(method, params)), undefined, method);
  });

  test("attack: a list in the place of an object, which nodes written in Rust read as one, hides nothing", () => {
    const group = [null, {}, [{ to: LOOP, gas: HUGE }]];
    const lists: readonly (readonly [string, readonly unknown[]])[] = [
      ["eth_simulateV1", [[[group], false, false, false], "latest"]],
      ["eth_simulateV1", [{ blockStateCalls: [group] }, "latest"]],
      ["eth_simulateV1", [{ blockStateCalls: [{ calls: [[null, LOOP, HUGE]] }] }]],
      ["eth_callMany", [[[[{ gas: HUGE }], {}]]]],
      ["eth_call", [[null, LOOP, HUGE], "latest"]],
      ["eth_call", [{}, "latest", {}, [HUGE]]],
      ["eth_getLogs", [[["0x1"]]]],
      ["debug_traceCall", [{}, "latest", ["{step: function() { while (true); }}"]]],
      ["trace_filter", [["0x0", "0x3e8"]]],
      ["trace_filter", [null]],
      ["trace_callMany", [[[[HUGE], ["trace"]]]]],
    ];
    for (const [method, params] of lists) {
      assert.equal(codesOf(call(method, params)), -32602, `${method} ${JSON.stringify(params)}`);
    }
  });

  test("attack: a key in another case, which geth takes for the same, hides nothing", () => {
    for (const gas of ["Gas", "GAS", "gaſ", "ga\\u017f"]) {
      const body = `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"data":"${LOOP}","${gas}":"${HUGE}"},"latest"]}`;
      assert.equal(codesOf(body), -32602, gas);
    }
    assert.equal(codesOf(`{"id":1,"METHOD":"eth_estimateGas","Params":[{"gas":"${HUGE}"}]}`), -32602);
    const params = `[{"gas":"${HUGE}"},"latest"]`;
    assert.equal(codesOf(`{"id":1,"method":"eth_chainId","Method":"eth_call","params":${params}}`), -32600);
    assert.equal(codesOf(`{"id":1,"method":"eth_call","params":[{"gas":"0x1","Gas":"${HUGE}"}]}`), -32600);
    const blocks = `[{"Calls":[],"calls":[${Array.from({ length: 99 }, () => "{}").join()}]}]`;
    assert.equal(codesOf(`{"id":1,"method":"eth_simulateV1","params":[{"blockStateCalls":${blocks}}]}`), -32600);
  });

  test("what is not JSON, repeats a key or is too large a batch is refused as a whole", () => {
    assert.equal(codesOf("{"), -32700);
    assert.equal(codesOf('{"id":1,"method":"eth_chainId","method":"eth_call"}'), -32700);
    assert.equal(codesOf(`[${Array.from({ length: 251 }, () => call("eth_chainId")).join()}]`), -32600);
    assert.equal(refusal(`[${Array.from({ length: 250 }, () => call("eth_chainId")).join()}]`), undefined);
  });

  test("a batch with a refused call is not made: each call has an error and its id as sent, a notification none", () => {
    const bad = call("eth_call", [{ gas: HUGE }], 9_007_199_254_740_993n.toString());
    const silent = JSON.stringify({ method: "eth_call", params: [{ gas: HUGE }] });
    assert.equal(refusal(silent), "");
    const answer = refusal(`[${call("eth_chainId", [], "a")},${silent},${bad},{"method":"eth_chainId"}]`);
    const errors = JSON.parse(answer ?? "") as { id: unknown; error: { code: number; message: string } }[];
    assert.deepEqual(
      errors.map(({ id, error }) => [id, error.code]),
      [
        ["a", -32005],
        ["9007199254740993", -32602],
      ],
    );
    assert.match(errors[0]?.error.message ?? "", /^Not made/);
    assert.match(errors[1]?.error.message ?? "", /^Gas must be a quantity of at most 50000000\.$/);
    assert.equal(refusal(`[${silent},{"method":"eth_chainId"}]`), "");
  });

  test("property: any body is passed or answered with JSON, and what is passed has no gas beyond the bound", () => {
    const key = fc.constantFrom(
      "gas",
      "Gas",
      "gasLimit",
      "GASLIMIT",
      "calls",
      "blockOverrides",
      "blockStateCalls",
      "to",
    );
    const leaf = fc.oneof(fc.constantFrom(HUGE, "0x1", "latest", null), fc.integer(), fc.string({ maxLength: 5 }));
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 5 },
        leaf,
        fc.array(tie("value"), { maxLength: 4 }),
        fc.dictionary(key, tie("value"), { maxKeys: 4 }),
      ),
    }));
    fc.assert(
      fc.property(fc.constantFrom(...BOUNDED_EVM_METHODS), fc.array(value, { maxLength: 4 }), (method, params) => {
        const body = call(method, params);
        const answer = refusal(body);
        if (answer !== undefined) {
          JSON.parse(answer);
          return;
        }
        assert.equal(readEvmBody(Buffer.from(body), RULES)?.calls[0]?.raw, body);
        const [first] = params as unknown[];
        if (["eth_call", "eth_estimateGas", "trace_call"].includes(method)) {
          assert.doesNotMatch(JSON.stringify(first ?? null), new RegExp(`^\\{[^{[]*"gas":"${HUGE}"`, "i"));
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
