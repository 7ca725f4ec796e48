import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { type RelayRig, rpc, rpcAt, send, startNode, startRelay, type TestNode } from "./relay-rig.ts";

const ERROR = (id: string, code: number): RegExp =>
  new RegExp(`^\\{"jsonrpc":"2\\.0","id":${id},"error":\\{"code":${code},"message":"[^"]+"\\}\\}$`);

/** `subtract` and `sum` of the specification's examples, and echoes. */
function specNode(): Promise<TestNode> {
  return startNode({
    answer({ method, params }) {
      const numbers = (Array.isArray(params) ? params : Object.values(params)) as number[];
      if (method === "subtract") {
        const { minuend, subtrahend } = params as unknown as { minuend?: number; subtrahend?: number };
        const [a = 0, b = 0] = Array.isArray(params) ? numbers : [minuend, subtrahend];
        return String(a - b);
      }
      if (method === "sum") return String(numbers.reduce((sum, one) => sum + one, 0));
      if (method === "get_data") return '["hello",5]';
      if (method === "foobar") return ',"error":{"code":-32601,"message":"Method not found"}';
      return JSON.stringify(params);
    },
  });
}

/**
 * The examples of https://www.jsonrpc.org/specification, section 7, in its order and its bytes. An answer that is the
 * server's own is a text and must come back as it stands here; one about the body itself is ours: its code, and `null`
 * for its id.
 */
const EXAMPLES: readonly (readonly [
  name: string,
  sent: string,
  answer: string | number | readonly (string | number)[],
])[] = [
  [
    "positional parameters",
    '{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}',
    '{"jsonrpc": "2.0", "result": 19, "id": 1}',
  ],
  [
    "positional parameters, the other way round",
    '{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}',
    '{"jsonrpc": "2.0", "result": -19, "id": 2}',
  ],
  [
    "named parameters",
    '{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}',
    '{"jsonrpc": "2.0", "result": 19, "id": 3}',
  ],
  [
    "named parameters in another order",
    '{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}',
    '{"jsonrpc": "2.0", "result": 19, "id": 4}',
  ],
  ["a notification", '{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}', ""],
  ["a notification without params", '{"jsonrpc": "2.0", "method": "foobar"}', ""],
  [
    "a method that does not exist",
    '{"jsonrpc": "2.0", "method": "foobar", "id": "1"}',
    '{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}',
  ],
  ["invalid JSON", '{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', -32700],
  ["an invalid request object", '{"jsonrpc": "2.0", "method": 1, "params": "bar"}', -32600],
  [
    "a batch of invalid JSON",
    `[
  {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
  {"jsonrpc": "2.0", "method"
]`,
    -32700,
  ],
  ["an empty array", "[]", -32600],
  ["an invalid batch that is not empty", "[1]", [-32600]],
  ["an invalid batch", "[1,2,3]", [-32600, -32600, -32600]],
  [
    "a batch of everything",
    `[
        {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
        {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
        {"foo": "boo"},
        {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
        {"jsonrpc": "2.0", "method": "get_data", "id": "9"}
    ]`,
    [
      '{"jsonrpc": "2.0", "result": 7, "id": "1"}',
      '{"jsonrpc": "2.0", "result": 19, "id": "2"}',
      -32600,
      '{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "5"}',
      '{"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}',
    ],
  ],
  [
    "a batch of notifications",
    `[
        {"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}
    ]`,
    "",
  ],
];

suite("the specification's examples, through the free relay, in its own bytes", () => {
  /** The specification's server: it knows the requests that it shows, and answers nothing else. */
  const known = new Map<string, string>();
  for (const [, sent, answer] of EXAMPLES) {
    if (typeof answer === "string" && answer !== "") known.set(sent, answer);
    if (typeof answer !== "object") continue;
    for (const line of sent.split("\n")) {
      const item = line.trim().replace(/,$/, "");
      const id = /"id": ("\d")\}$/.exec(item)?.[1];
      const own = answer.find((one) => typeof one === "string" && id !== undefined && one.endsWith(`"id": ${id}}`));
      if (typeof own === "string") known.set(item, own);
    }
  }
  let node: TestNode;
  let rig: RelayRig;

  before(async () => {
    node = await startNode({ respond: (res, body) => void res.end(known.get(body) ?? "") });
    rig = await startRelay({ eth: rpcAt(node.url) });
  });
  after(async () => {
    await rig?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
  });

  const ours = (code: number): string =>
    `\\{"jsonrpc":"2\\.0","id":null,"error":\\{"code":${code},"message":"(?:[^"\\\\]|\\\\.)+"\\}\\}`;
  const literal = (text: string): string => text.replaceAll(/[.[\]{}()^$*+?|\\/]/g, "\\$&");

  for (const [name, sent, answer] of EXAMPLES) {
    test(name, async () => {
      const from = node.calls.length;
      const got = await send(rig, sent);
      const one = (part: string | number): string => (typeof part === "string" ? literal(part) : ours(part));
      const pattern = typeof answer === "object" ? `\\[${answer.map(one).join(",")}\\]` : one(answer);
      assert.match(got.text, new RegExp(`^${pattern}$`));
      assert.equal(got.status, answer === "" ? 204 : typeof answer === "number" ? 400 : 200);
      // Notifications are calls of the server too; what is no request never reaches it.
      const reached = node.calls.slice(from).map(({ method }) => method);
      const methods =
        typeof answer === "number" ? [] : [...sent.matchAll(/"method": "([^"]+)"/g)].map((found) => String(found[1]));
      assert.deepEqual(reached.sort(), methods.sort());
    });
  }
});

suite("JSON-RPC 2.0 through the free relay, over sockets", () => {
  let node: TestNode;
  let rig: RelayRig;

  before(async () => {
    node = await specNode();
    // Thousands of items take a busy machine some time.
    const bend = { timeoutMs: 60_000, gateway: { maxBatchItems: 12_000, upstreamTimeoutMs: 60_000 } };
    rig = await startRelay({ eth: rpcAt(node.url) }, bend);
  });
  after(async () => {
    await rig?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
  });

  test("a notification is forwarded once, as it came, alone and in a batch", async () => {
    const from = node.bodies.length;
    const note = '{ "jsonrpc":"2.0", "method":"note_this", "params":["once"] }';
    await send(rig, note);
    assert.deepEqual(node.bodies.slice(from), [note]);
    await send(rig, `[${note},${rpc("1", "sum", "[1]")},${note}]`);
    assert.equal(node.bodies.slice(from).filter((body) => body === note).length, 3);
  });

  test("the body of a single call is passed on byte for byte, and so is its answer", async () => {
    const sent =
      ' {"method" : "echo_it","id":  "a b",\n"params":[1.0, 1e3, "\\u00e9", {"z":1,"a":12345678901234567890}],"jsonrpc":"2.0"} ';
    const got = await send(rig, sent);
    assert.equal(node.bodies.at(-1), sent.trim());
    assert.match(got.text, /^\{"jsonrpc":"2\.0","id":"a b","result":/);
  });

  test("ids of every legal kind come back byte for byte, alone and in a batch", async () => {
    const ids = [
      "1",
      "0",
      "-7",
      "-0",
      "1.5",
      "1e3",
      "1E+3",
      "12345678901234567890",
      "1e400",
      '"a"',
      '""',
      '"\\u00e9\\n"',
      '"é"',
      '"<&>"',
      "null",
    ];
    for (const id of ids) {
      const { status, text } = await send(rig, rpc(id, "sum", "[1,1]"));
      assert.deepEqual([status, text], [200, `{"jsonrpc":"2.0","id":${id},"result":2}`]);
    }
    const { text } = await send(
      rig,
      `[${ids.map((id) => rpc(id, "eth_getLogs", `[${JSON.stringify(id)}]`)).join(",")}]`,
    );
    assert.equal(
      text,
      `[${ids.map((id) => `{"jsonrpc":"2.0","id":${id},"result":[${JSON.stringify(id)}]}`).join(",")}]`,
    );
  });

  test("ids of no legal kind are invalid requests", async () => {
    for (const id of ["[1]", "{}", "true"]) {
      const got = await send(rig, rpc(id, "sum"));
      assert.equal(got.status, 400);
      assert.match(got.text, ERROR("null", -32600));
    }
  });

  test("an id is as long as the body may be, and comes back byte for byte, alone and in a batch", async () => {
    for (const id of [`"${"x".repeat(4_000)}"`, "7".repeat(4_000), `"${"\u00e9\\ud800".repeat(50_000)}"`]) {
      const alone = await send(rig, rpc(id, "subtract", "[42,23]"));
      assert.deepEqual([alone.status, alone.text], [200, `{"jsonrpc":"2.0","id":${id},"result":19}`]);
      const batch = await send(rig, `[${rpc(id, "subtract", "[42,23]")},${rpc(id, "subtract", "[23,42]")}]`);
      const answers = [19, -19].map((result) => `{"jsonrpc":"2.0","id":${id},"result":${result}}`);
      assert.equal(batch.text, `[${answers.join(",")}]`);
    }
  });

  test("half a surrogate pair, which nodes cannot read, is a malformed request; a whole one is carried as it came", async () => {
    const from = node.bodies.length;
    for (const half of ['["\\ud800"]', '[{"\\uDFFF":1}]', '["\\ud83d\\\\ude00"]', '["\\ude00\\ud83d"]']) {
      const alone = await send(rig, rpc("7", "eth_getBalance", half));
      assert.equal(alone.status, 400, half);
      assert.match(alone.text, ERROR("7", -32600));
      const batch = await send(rig, `[${rpc("7", "eth_getBalance", half)},${rpc("8", "eth_getBalance", '["x"]')}]`);
      assert.equal(batch.status, 200);
      assert.match(batch.text, /"id":7,"error":\{"code":-32600,.*"id":8,"result":\["x"\]/);
    }
    assert.equal((await send(rig, '{"jsonrpc":"2.0","id":1,"method":"eth_\\udead"}')).status, 400);
    assert.ok(node.bodies.slice(from).every((body) => !/[^\\]\\ud/i.test(body)));
    for (const whole of ['["\\ud83d\\ude00"]', '["\\\\ud800"]']) {
      const sent = rpc("7", "eth_getBalance", whole);
      assert.equal((await send(rig, sent)).status, 200);
      assert.equal(node.bodies.at(-1), sent);
    }
  });

  test("a batch of reads with ids of their own is one upstream body", async () => {
    const from = node.bodies.length;
    const items = Array.from({ length: 10 }, (_, i) => rpc(String(i), "eth_getBalance", `["0x${i}"]`));
    const { text } = await send(rig, `[${items.join(",")}]`);
    assert.deepEqual(node.bodies.slice(from), [`[${items.join(",")}]`]);
    assert.equal(text, `[${items.map((_, i) => `{"jsonrpc":"2.0","id":${i},"result":["0x${i}"]}`).join(",")}]`);
  });

  test("10,000 items in batches: none lost, none crossed, in their order, whatever their ids", async () => {
    const id = fc.oneof(
      fc.integer({ min: 0, max: 5 }).map(String),
      fc.maxSafeInteger().map(String),
      fc.double({ noDefaultInfinity: true, noNaN: true }).map((one) => JSON.stringify(one)),
      fc.string().map((one) => JSON.stringify(one)),
      fc.constant("null"),
    );
    const method = fc.constantFrom("eth_getLogs", "eth_call", "net_version", "eth_sendRawTransaction");
    const sizes = [2_000, 3_000, 4_000, 1, 2, 997];
    for (const size of sizes) {
      const [items = []] = fc.sample(
        fc.array(fc.tuple(id, method), { minLength: size, maxLength: size, size: "max" }),
        1,
      );
      assert.equal(items.length, size);
      const isWrite = (name: string): boolean => name === "eth_sendRawTransaction";
      // Writes go by themselves: one in fifty keeps the test quick.
      const calls = items.map(([raw, name], at) => [raw, isWrite(name) && at % 50 > 0 ? "eth_call" : name] as const);
      const body = `[${calls.map(([raw, name], at) => rpc(raw, name, `[${at}]`)).join(",")}]`;
      const got = await send(rig, body);
      assert.equal(got.status, 200, got.text.slice(0, 200));
      assert.equal(
        got.text,
        `[${calls.map(([raw], at) => `{"jsonrpc":"2.0","id":${raw},"result":[${at}]}`).join(",")}]`,
      );
    }
  });
});

test("a batch over its cap, and a body over its own, are 413 with a JSON-RPC error", async () => {
  await using node = await specNode();
  await using rig = await startRelay({ eth: rpcAt(node.url) }, { gateway: { maxBatchItems: 3 } });
  const items = (count: number): string => `[${Array.from({ length: count }, () => rpc("1", "sum")).join(",")}]`;
  assert.equal((await send(rig, items(3))).status, 200);
  const many = await send(rig, items(4));
  assert.equal(many.status, 413);
  assert.match(many.text, /"id":null,"error":\{"code":-32600/);
  const large = await send(rig, " ".repeat(1_048_577));
  assert.equal(large.status, 413);
  assert.match(large.text, /"id":null,"error":\{"code":-32600/);
});
