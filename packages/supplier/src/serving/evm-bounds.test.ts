import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { BOUNDED_EVM_METHODS, EVM_BOUNDS } from "@turnpike/base";
import { type Anvil, startAnvil } from "@turnpike/localnet";
import { eventually } from "@turnpike/testkit";
import { jsonRpcPayload } from "@turnpike/testkit/chain";
import { fc } from "@turnpike/testkit/property";
import {
  bodyOf,
  ethService,
  type ServingRig,
  type SignedAnswer,
  servingRig,
  startBackEnd,
} from "../../test/serving-rig.ts";
import { openRelaySocket, startSocketBackEnd } from "../../test/sockets.ts";

const GAS = 30_000_000;
const HUGE = `0x${"f".repeat(16)}`;
const LOOP = "0x5b600056";
const LOOPING = { data: LOOP, gas: HUGE };
const ACCOUNT = "0x1111111111111111111111111111111111111111";
const evmBounds = { ...EVM_BOUNDS, maxGas: GAS };

/** Arguments of every bounded method that would hang or end a development node, or cost a real one much. */
const ATTACKS: readonly (readonly [method: string, ...params: unknown[]])[] = [
  ["eth_feeHistory", `0x${"1".repeat(64)}`, "latest", []],
  ["eth_feeHistory", HUGE, "latest", [50]],
  ["eth_feeHistory", "99999999", "latest", [50]],
  ["eth_call", LOOPING, "latest"],
  ["eth_call", { ...LOOPING, gas: 1e300 }, "latest"],
  ["eth_call", { to: ACCOUNT }, "latest", { [ACCOUNT]: { code: LOOP } }, { gasLimit: HUGE }],
  ["eth_estimateGas", LOOPING, "latest"],
  ["eth_createAccessList", LOOPING, "latest"],
  ["eth_simulateV1", { blockStateCalls: Array.from({ length: 300 }, () => ({ calls: [{ data: LOOP }] })) }, "latest"],
  ["eth_simulateV1", { blockStateCalls: [{ blockOverrides: { number: HUGE }, calls: [] }] }, "latest"],
  ["eth_callMany", [{ transactions: [LOOPING] }]],
  ["eth_getProof", ACCOUNT, Array.from({ length: 2_000 }, (_, at) => `0x${at.toString(16)}`), "latest"],
  ["eth_getLogs", { topics: [[], [], [], [], []] }],
  ["debug_traceCall", LOOPING, "latest"],
  ["debug_traceCall", { data: LOOP }, "latest", { tracer: "{step: function() { while (true); }}" }],
  ["debug_traceTransaction", `0x${"ab".repeat(32)}`, { timeout: "1000h" }],
  ["trace_call", LOOPING, ["trace"], "latest"],
  ["trace_callMany", [[LOOPING, ["trace"]]], "latest"],
  ["trace_filter", { fromBlock: "0x0", toBlock: HUGE }],
];

const rpc = (method: string, params: readonly unknown[], id: unknown = 1): string =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params });

const codeOf = (text: string): unknown => (JSON.parse(text) as { error?: { code: number } }).error?.code;

/** The application's stake pays for all relays of this file. */
const RICH = {
  applications: { app: { service: "eth", gateways: ["gateway"], stakeUpokt: 1_000_000_000_000n } },
} as const;

const boundedRig = (url: string, more: Parameters<typeof servingRig>[1] = {}): Promise<ServingRig> =>
  servingRig(url, { ...more, options: { services: ethService(url, { evmBounds }), ...more.options } });

suite("bounds of an EVM back-end", () => {
  let anvil: Anvil;
  before(async () => {
    anvil = await startAnvil({ accounts: 0 });
  });
  after(() => anvil?.[Symbol.asyncDispose]());

  test("attack: no arguments of a bounded method reach the node; the client gets the node's form of error, signed and paid", async () => {
    let asked = 0;
    await using node = await startBackEnd((_, response) => {
      asked++;
      response.end("{}");
    });
    await using rig = await boundedRig(node.url, { chain: RICH });
    for (const [at, [method, ...params]] of ATTACKS.entries()) {
      const answer: SignedAnswer = await rig.call(rpc(method, params, `id ${at}`));
      assert.deepEqual([answer.status, answer.contentType, answer.isSigned], [200, "application/json", true], method);
      const { id, error } = JSON.parse(answer.body) as { id: string; error: { code: number; message: string } };
      assert.deepEqual([id, error.code], [`id ${at}`, -32602], method);
      assert.match(error.message, /^[A-Z][^\n]{5,100}\.$/);
    }
    assert.equal(asked, 0);
    assert.deepEqual([rig.store.relays.length, rig.refused], [ATTACKS.length, []]);
    for (const body of [
      "{",
      '{"id":1,"method":"eth_chainId","method":"eth_call"}',
      `[${rpc("eth_call", [LOOPING])}]`,
    ]) {
      assert.equal((await rig.call(body)).status, 200);
    }
    assert.equal(asked, 0);
    assert.deepEqual(JSON.parse((await rig.call(rpc("eth_call", [{ data: LOOP }, "latest"]))).body), {});
    assert.equal(asked, 1);
  });

  test("attack: refused calls, however many, neither pause a back-end nor end its pause", async () => {
    let isIll = false;
    await using node = await startBackEnd((_, response) => {
      if (isIll) response.destroy();
      else response.end('{"result":1}');
    });
    await using rig = await boundedRig(node.url, { chain: RICH });
    for (let at = 0; at < 20; at++) assert.equal(codeOf((await rig.call(rpc("eth_call", [LOOPING]))).body), -32602);
    assert.equal((await rig.call(rpc("eth_chainId", []))).body, '{"result":1}');
    isIll = true;
    const ask = (): Promise<{ status: number }> => rig.send(rig.sign(jsonRpcPayload(rpc("eth_chainId", []))));
    // A refused call between them does not count as an answer of the node.
    for (let at = 0; at < 4; at++) assert.equal((await ask()).status, 502);
    assert.equal(codeOf((await rig.call(rpc("eth_call", [LOOPING]))).body), -32602);
    assert.equal((await ask()).status, 502);
    assert.equal((await ask()).status, 503, "paused after five faults");
  });

  test("a service without bounds passes everything, and other types than JSON-RPC are not read", async () => {
    const bodies: string[] = [];
    await using node = await startBackEnd((request, response) => {
      void bodyOf(request).then((body) => {
        bodies.push(body);
        response.end("{}");
      });
    });
    const attack = rpc("eth_call", [LOOPING]);
    await using open = await servingRig(node.url);
    await open.call(attack);
    await using rig = await boundedRig(node.url, {
      options: {
        services: ethService(node.url, {
          evmBounds,
          backEnds: { json_rpc: { url: node.url }, rest: { url: node.url } },
        }),
      },
    });
    await rig.send(rig.sign(jsonRpcPayload(attack)), { "rpc-type": "4" });
    assert.deepEqual(bodies, [attack, attack]);
  });

  test("WebSocket: a refused frame is answered as one relay, and the node gets the others", async () => {
    await using node = await startSocketBackEnd((socket, { bytes }) => socket.send(`echo ${bytes.toString()}`));
    const services = ethService("http://127.0.0.1:9", { evmBounds, backEnds: { websocket: { url: node.url } } });
    await using rig = await servingRig("http://127.0.0.1:9", { options: { services } });
    await using client = await openRelaySocket(rig.url);
    client.send(rig.sign(Buffer.from(rpc("eth_call", [LOOPING], 7))), false);
    const [refused = assert.fail()] = await client.until(1);
    assert.deepEqual([codeOf(refused.payload), refused.isSigned, refused.isBinary], [-32602, true, false]);
    assert.equal(rig.store.relays.length, 1);
    client.send(rig.sign(Buffer.from(rpc("eth_chainId", []))), false);
    const [, answer = assert.fail()] = await client.until(2);
    assert.match(answer.payload, /^echo .*eth_chainId/);
    assert.deepEqual([node.frames.length, rig.store.relays.length], [1, 2]);
  });

  test("property: random arguments of every bounded method leave anvil answering behind the supplier", async () => {
    await using rig = await boundedRig(anvil.url, { chain: RICH });
    const hex = fc.constantFrom("0x", "0x0", "latest", HUGE, ACCOUNT, LOOP, `0x${"ab".repeat(32)}`, "1000000000");
    const leaf = fc.oneof(hex, fc.integer(), fc.double(), fc.boolean(), fc.constant(null), fc.string({ maxLength: 9 }));
    const names =
      "from to gas Gas value data input fromBlock toBlock address topics calls code blockStateCalls blockOverrides stateOverrides tracer timeout reexec gasLimit number transactions";
    const keys = fc.constantFrom(...names.split(" "), ACCOUNT);
    const { value } = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.array(tie("value"), { maxLength: 4 }),
        fc.dictionary(keys, tie("value"), { maxKeys: 5 }),
      ),
    }));
    const methods = fc.constantFrom(...BOUNDED_EVM_METHODS.filter((name) => name !== "eth_sendRawTransactionSync"));
    await fc.assert(
      fc.asyncProperty(methods, fc.array(value, { maxLength: 4 }), async (method, params) => {
        const { status, body } = await rig.call(rpc(method, params));
        assert.ok(status === 200 || status === 400, `${status} ${body}`);
      }),
      { numRuns: Number(process.env.GUARD_RUNS ?? 200) },
    );
    for (const [method, ...params] of ATTACKS) assert.equal(codeOf((await rig.call(rpc(method, params))).body), -32602);
    const alive = await eventually("anvil answers", async () => (await rig.call(rpc("eth_chainId", []))).body);
    assert.match(alive, /"result":"0x/);
    assert.deepEqual(rig.refused, []);
  });
});
