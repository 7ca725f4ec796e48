import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { after, before, suite, test } from "node:test";
import { eventually, openSocket, refusedUpgrade } from "@turnpike/testkit";
import { fc } from "@turnpike/testkit/property";
import { type Anvil, startAnvil } from "./anvil.ts";
import { blockedAddress } from "./blocked-address.ts";
import { type EvmGuard, startEvmGuard } from "./evm-guard.ts";
import { PASSED_EVM_METHODS } from "./evm-methods.ts";
import { devRpc } from "./rpc.ts";

const ACCOUNT = "0x1111111111111111111111111111111111111111";

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly allowOrigin: string | undefined;
}

async function ask(url: string, body: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const sent = request(url, { method: "POST", headers: { "content-type": "application/json", ...headers } });
  sent.end(body);
  const [response] = await once(sent, "response");
  let text = "";
  for await (const part of response) text += String(part);
  return { status: response.statusCode, text, allowOrigin: response.headers["access-control-allow-origin"] };
}

const call = (method: string, params: readonly unknown[] = [], id: unknown = 1): string =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params });

suite("guard of the local chain", () => {
  let anvil: Anvil;
  let guard: EvmGuard;
  before(async () => {
    anvil = await startAnvil(await blockedAddress());
    guard = await startEvmGuard({ port: 0, target: anvil.url });
  });
  after(async () => {
    await guard?.[Symbol.asyncDispose]();
    await anvil?.[Symbol.asyncDispose]();
  });
  const balance = (): Promise<unknown> => devRpc(anvil.url, "eth_getBalance", [ACCOUNT, "latest"]);

  test("what reads a chain and sends signed transactions is passed, with ids as sent", async () => {
    assert.deepEqual(await ask(guard.url, '{"jsonrpc":"2.0","id":9007199254740993,"method":"eth_chainId"}'), {
      status: 200,
      text: '{"jsonrpc":"2.0","id":9007199254740993,"result":"0x14a34"}',
      allowOrigin: undefined,
    });
    const batch = await ask(guard.url, `[${call("eth_chainId")},${call("net_version", [], 2)}]`);
    assert.deepEqual(
      (JSON.parse(batch.text) as { id: number }[]).map(({ id }) => id),
      [1, 2],
    );
    const page = await ask(guard.url, call("eth_blockNumber"), { origin: "http://localhost:5173" });
    assert.deepEqual([page.status, page.allowOrigin], [200, "http://localhost:5173"]);
  });

  test("attack: no method that changes the chain at will is passed, in any spelling, body or batch", async () => {
    const reset = { forking: { jsonRpcUrl: "http://192.0.2.1" } };
    for (const body of [
      call("anvil_setBalance", [ACCOUNT, "0x5"]),
      call("hardhat_setBalance", [ACCOUNT, "0x5"]),
      call("anvil_reset", [reset]),
      call("evm_mine"),
      call("eth_sendUnsignedTransaction", [{ from: ACCOUNT, to: ACCOUNT }]),
      call("eth_sendTransaction", [{ from: ACCOUNT, to: ACCOUNT }]),
      call("debug_traceCall"),
      '{"jsonrpc":"2.0","id":1,"method":"\\u0061nvil_setBalance","params":["0x1111111111111111111111111111111111111111","0x5"]}',
    ]) {
      const { status, text } = await ask(guard.url, body);
      assert.equal(status, 200);
      assert.match(text, /^\{"jsonrpc":"2.0","id":1,"error":\{"code":-32601,/, body);
    }
    const twice = `{"jsonrpc":"2.0","id":1,"method":"eth_chainId","method":"anvil_setBalance","params":["${ACCOUNT}","0x5"]}`;
    assert.equal((await ask(guard.url, twice)).status, 400);
    const silent = `{"jsonrpc":"2.0","method":"anvil_setBalance","params":["${ACCOUNT}","0x5"]}`;
    assert.deepEqual(await ask(guard.url, silent), { status: 204, text: "", allowOrigin: undefined });
    const mixed = await ask(
      guard.url,
      `[${call("eth_chainId")}, ${call("anvil_setBalance", [ACCOUNT, "0x5"], "b")} ,7]`,
    );
    const answers = JSON.parse(mixed.text) as { id: unknown; result?: string; error?: { code: number } }[];
    assert.deepEqual(
      answers.map(({ id, result, error }) => [id, result ?? error?.code]),
      [
        [1, "0x14a34"],
        ["b", -32601],
        [null, -32600],
      ],
    );
    assert.equal(await balance(), "0x0");
  });

  test("attack: no arguments of a passed method hang or end the chain", async () => {
    const loop = "0x5b600056";
    const max = `0x${"f".repeat(16)}`;
    const looping = { data: loop, gas: max };
    const at = { to: ACCOUNT, gas: max };
    for (const [method, ...params] of [
      ["eth_feeHistory", `0x${"1".repeat(64)}`, "latest", []],
      ["eth_feeHistory", max, "latest", [50]],
      ["eth_feeHistory", "0x10", "latest", Array.from({ length: 5_000 }, (_, i) => i / 50)],
      ["eth_call", looping, "latest"],
      ["eth_estimateGas", looping, "latest"],
      ["eth_createAccessList", looping, "latest"],
      ["eth_call", { data: loop, gas: 1e300 }, "latest"],
      ["eth_call", { data: loop, gas: "99999999999" }, "latest"],
      ["eth_call", at, "latest", { [ACCOUNT]: { code: loop } }],
      ["eth_call", { to: ACCOUNT }, "latest", { [ACCOUNT]: { code: loop } }, { gasLimit: max }],
      [
        "eth_simulateV1",
        { blockStateCalls: Array.from({ length: 300 }, () => ({ calls: [{ data: loop }] })) },
        "latest",
      ],
      ["eth_simulateV1", { blockStateCalls: [{ blockOverrides: { number: max }, calls: [] }] }, "latest"],
      ["eth_simulateV1", { blockStateCalls: [{ blockOverrides: { gasLimit: max }, calls: [looping] }] }, "latest"],
      ["trace_filter", { fromBlock: "0x0", toBlock: max }],
      ["trace_filter", {}],
    ] as const) {
      const { text } = await ask(guard.url, call(method, params));
      assert.match(
        text,
        /^\{"jsonrpc":"2.0","id":1,"error":\{"code":-32602,/,
        `${method} ${JSON.stringify(params).slice(0, 99)}`,
      );
    }
    // A loop without gas of its own ends with a block's gas.
    const bounded = await ask(guard.url, call("eth_call", [{ to: ACCOUNT }, "latest", { [ACCOUNT]: { code: loop } }]));
    assert.match(bounded.text, /"error":/);
    const batch = `[${Array.from({ length: 251 }, () => call("eth_chainId")).join(",")}]`;
    assert.match((await ask(guard.url, batch)).text, /"code":-32600/);
    assert.equal(await balance(), "0x0");
  });

  test("property: random arguments of every passed method leave the chain as it is, and answering", async () => {
    const hex = fc.oneof(
      fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }).map((value) => `0x${value.toString(16)}`),
      fc.constantFrom(
        "0x",
        "0x0",
        "latest",
        "pending",
        "earliest",
        `0x${"f".repeat(64)}`,
        ACCOUNT,
        `0x${"ab".repeat(32)}`,
        "0x5b600056",
      ),
    );
    const leaf = fc.oneof(
      hex,
      fc.integer(),
      fc.double(),
      fc.boolean(),
      fc.constant(null),
      fc.string({ maxLength: 20 }),
    );
    const keys = fc.constantFrom(
      "from",
      "to",
      "gas",
      "gasPrice",
      "value",
      "data",
      "input",
      "nonce",
      "fromBlock",
      "toBlock",
      "address",
      "topics",
      "blockHash",
      "blockStateCalls",
      "calls",
      "blockOverrides",
      "stateOverrides",
      "accessList",
      "authorizationList",
      "count",
      "after",
      ACCOUNT,
      "code",
      "state",
      "balance",
      "gasLimit",
      "number",
      "time",
      "type",
      "maxFeePerGas",
      "blobVersionedHashes",
    );
    const { value } = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.array(tie("value"), { maxLength: 4 }),
        fc.dictionary(keys, tie("value"), { maxKeys: 5 }),
      ),
    }));
    const waiting = new Set(["eth_sendRawTransactionSync"]);
    const names = fc.constantFrom(...[...PASSED_EVM_METHODS].filter((name) => !waiting.has(name)));
    await fc.assert(
      fc.asyncProperty(names, fc.array(value, { maxLength: 4 }), async (name, params) => {
        const { status, text } = await ask(guard.url, call(name, params));
        assert.ok(status === 200 || status === 400, `${status} ${text}`);
        assert.match((await ask(guard.url, call("eth_chainId"))).text, /0x14a34/);
      }),
      { numRuns: Number(process.env.GUARD_RUNS ?? 300) },
    );
    assert.equal(await balance(), "0x0");
  });

  test("property: only listed names are passed", async () => {
    const known = [...PASSED_EVM_METHODS];
    assert.ok(known.every((name) => /^(?:debug_getRaw|eth_|net_|trace_|txpool_status$|web3_)/.test(name)));
    assert.ok(!known.some((name) => /sign|sendTransaction|Unsigned|mine|set[A-Z]|impersonate|reset/i.test(name)));
    const bent = fc
      .tuple(fc.constantFrom(...known, "anvil_mine"), fc.constantFrom(" ", "\t", "\0", "\u200b", "", "A"), fc.boolean())
      .map(([name, text, isFirst]) => (isFirst ? text + name : name + text));
    const names = fc.oneof(bent, fc.string()).filter((name) => !PASSED_EVM_METHODS.has(name));
    await fc.assert(
      fc.asyncProperty(names, async (name) => {
        assert.match((await ask(guard.url, call(name))).text, /"code":-32601/);
      }),
      { numRuns: 60 },
    );
  });

  test("attack: a web page of another origin, and one whose name was pointed here, get 403", async () => {
    const body = call("eth_chainId");
    for (const headers of [
      { origin: "https://evil.example" },
      { origin: "null" },
      { host: "evil.example:8545" },
      { host: "evil.example", origin: "http://evil.example" },
    ]) {
      assert.deepEqual([(await ask(guard.url, body, headers)).status], [403], JSON.stringify(headers));
      const socketUrl = guard.url.replace("http", "ws");
      assert.equal((await refusedUpgrade(socketUrl, headers)).status, 403, JSON.stringify(headers));
    }
  });

  test("WebSocket: subscriptions work, and no method passes that is not listed", async () => {
    await using client = await openSocket(guard.url.replace("http", "ws"));
    const { result } = await client.call(1, "eth_subscribe", ["newHeads"]);
    assert.equal(typeof result, "string");
    const { error } = await client.call(2, "anvil_mine", ["0x1"]);
    assert.match(JSON.stringify(error), /-32601/);
    await devRpc(anvil.url, "anvil_mine", ["0x1"]);
    assert.match(await client.find((text) => text.includes("eth_subscription")), /"number":"0x1"/);
    client.send("{");
    await client.find((text) => text.includes("-32700"));
  });

  test("WebSocket: who connects while the chain is away is not served", async () => {
    const own = await startAnvil({ accounts: 0 });
    await using other = await startEvmGuard({ port: 0, target: own.url });
    const client = await openSocket(other.url.replace("http", "ws"));
    await client.call(1, "eth_chainId");
    await own[Symbol.asyncDispose]();
    await client.closed;
    assert.equal((await ask(other.url, call("eth_chainId"))).status, 502);
    const refused = new WebSocket(other.url.replace("http", "ws"));
    let isOpen = false;
    refused.addEventListener("open", () => (isOpen = true));
    await once(refused, "close");
    assert.equal(isOpen, false);
    await eventually("the guard still answers", async () => (await ask(other.url, "{")).status === 400);
  });
});
