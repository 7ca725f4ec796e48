import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Anvil, startAnvil } from "@turnpike/localnet";
import { eventually, openSocket } from "@turnpike/testkit";
import { WebSocketProvider } from "ethers";
import { createPublicClient, webSocket } from "viem";
import { type SocketGateway, startSocketGateway, startWire, type Wire } from "../../test/socket-gateway.ts";

const CHAIN_ID = 84_532;

let anvil: Anvil;
const wires: Wire[] = [];
let here: SocketGateway;

async function dev(method: string, params: unknown[] = []): Promise<unknown> {
  const answer = await fetch(anvil.url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  return ((await answer.json()) as { result: unknown }).result;
}
const height = async (): Promise<number> => Number(await dev("eth_blockNumber"));
const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, at) => from + at);

before(async () => {
  anvil = await startAnvil({ chainId: CHAIN_ID, noMining: true });
  wires.push(await startWire(anvil.port), await startWire(anvil.port));
  here = await startSocketGateway({
    chainId: CHAIN_ID,
    httpUrl: anvil.url,
    socketUrls: wires.map(({ port }) => `ws://127.0.0.1:${port}`),
  });
});

after(async () => {
  await here?.[Symbol.asyncDispose]();
  for (const wire of wires) await wire?.[Symbol.asyncDispose]();
  await anvil?.[Symbol.asyncDispose]();
});

describe("clients over WebSocket, with a real chain", () => {
  test("viem reads and watches blocks", async () => {
    const client = createPublicClient({ transport: webSocket(here.url) });
    assert.equal(await client.getChainId(), CHAIN_ID);
    const seen: number[] = [];
    const first = await height();
    const { promise: done, resolve, reject } = Promise.withResolvers<void>();
    const stop = client.watchBlocks({
      onBlock: (block) => {
        seen.push(Number(block.number));
        if (seen.length === 3) resolve();
      },
      onError: reject,
    });
    // viem subscribes without a promise: its subscription is there when a later call is answered in order.
    await untilSubscribed(1);
    for (let i = 0; i < 3; i++) await dev("evm_mine");
    await done;
    // viem asks for each block by a call of its own, and the answers may overtake each other.
    assert.deepEqual(
      seen.sort((a, b) => a - b),
      range(first + 1, first + 3),
    );
    stop();
    const rpc = await client.transport.getRpcClient();
    rpc.close();
    await untilSubscribed(0);
  });

  test("ethers reads and watches blocks", async () => {
    const provider = new WebSocketProvider(here.url);
    assert.equal(Number((await provider.getNetwork()).chainId), CHAIN_ID);
    const first = await height();
    const { promise: done, resolve } = Promise.withResolvers<number>();
    await provider.on("block", (number: number) => resolve(number));
    await untilSubscribed(1);
    await dev("evm_mine");
    assert.equal(await done, first + 1);
    await provider.destroy();
    await untilSubscribed(0);
  });

  test("the supplier is cut again and again in 200 heads: each of 20 clients sees each head once, in order", async () => {
    const first = await height();
    const clients = await Promise.all(Array.from({ length: 20 }, () => openSocket(here.url)));
    for (const [at, client] of clients.entries()) {
      const answer = await client.call(at, "eth_subscribe", ["newHeads"]);
      assert.match(String(answer.result), /^0x[0-9a-f]{32}$/);
    }
    const all = await here.metrics();
    assert.match(all, /turnpike_relay_upstream_subscriptions\{service="eth"\} 1\n/);
    assert.match(all, /turnpike_gateway_websocket_subscriptions\{service="eth"\} 20\n/);
    for (let i = 1; i <= 200; i++) {
      await dev("evm_mine");
      if (i % 40 === 20) for (const wire of wires) wire.cut();
    }
    await Promise.all(clients.map((client) => client.until(201)));
    for (const client of clients) {
      const own = (JSON.parse(client.texts[0] ?? "") as { result: string }).result;
      const events = client.texts.slice(1).map((text) => JSON.parse(text) as Event);
      assert.ok(events.every((event) => event.params.subscription === own && event.method === "eth_subscription"));
      assert.deepEqual(
        events.map((event) => Number(event.params.result.number)),
        range(first + 1, first + 200),
      );
      assert.equal(new Set(events.map((event) => event.params.result.hash)).size, 200);
      await client[Symbol.asyncDispose]();
    }
  });

  test("logs of transactions mined while no supplier is there are delivered once", async () => {
    const client = await openSocket(here.url);
    const [from] = (await dev("eth_accounts")) as string[];
    assert.ok(from);
    // Emits one log without topics: PUSH0 PUSH0 LOG0 STOP.
    const address = "0x00000000000000000000000000000000000000cc";
    await dev("anvil_setCode", [address, "0x5f5fa000"]);
    const emit = async (): Promise<void> => {
      await dev("eth_sendTransaction", [{ from, to: address }]);
      await dev("evm_mine");
    };
    assert.equal(typeof (await client.call(1, "eth_subscribe", ["logs", { address }])).result, "string");
    const first = await height();
    await emit();
    await client.until(2);
    for (const wire of wires) {
      wire.isDown = true;
      wire.cut();
    }
    for (let i = 0; i < 5; i++) await emit();
    for (const wire of wires) wire.isDown = false;
    await client.until(7);
    await emit();
    await client.until(8);
    const numbers = client.texts.slice(1).map((text) => Number((JSON.parse(text) as Event).params.result.blockNumber));
    assert.deepEqual(numbers, range(first + 1, first + 7));
    await client[Symbol.asyncDispose]();
  });
});

interface Event {
  readonly method: string;
  readonly params: {
    readonly subscription: string;
    readonly result: { readonly number: string; readonly hash: string; readonly blockNumber: string };
  };
}

/** Waits until there are as many subscriptions, of clients and at suppliers. */
async function untilSubscribed(count: number): Promise<void> {
  const names = ["turnpike_relay_upstream_subscriptions", "turnpike_gateway_websocket_subscriptions"];
  await eventually(`${count} subscriptions`, async () => {
    const text = await here.metrics();
    const found = names.map((name) => Number(new RegExp(`${name}\\{service="eth"\\} (\\d+)`).exec(text)?.[1] ?? 0));
    return found.every((value) => value === count);
  });
}
