import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { noMetrics, type ServiceId, silentLog } from "@turnpike/base";
import { createCatalogue } from "@turnpike/catalogue";
import { virtualClock } from "@turnpike/testkit";
import { FakeSupplierSet, FakeTransport } from "../../test/fake-suppliers.ts";
import type { SocketHandlers, TransportSocket } from "../transport/transport.ts";
import { SocketSuppliers } from "./socket-suppliers.ts";
import { createSubscriptions } from "./subscriptions.ts";
import { evmTopic } from "./topics.ts";

const ETH = "eth" as ServiceId;
const { services } = createCatalogue({});
const clock = virtualClock();

/** A node that accepts every subscription, and whose first event comes with the answer. */
class FakeSocket implements TransportSocket {
  readonly ok = true;
  readonly bufferedBytes = 0;
  isOpen = true;
  #handlers: SocketHandlers | undefined;

  listen(handlers: SocketHandlers): void {
    this.#handlers = handlers;
  }

  send(text: string): void {
    const { id, method } = JSON.parse(text) as { readonly id: number; readonly method: string };
    const say = (message: string): void => this.#handlers?.message(Buffer.from(message));
    const result = method === "eth_chainId" ? '"0x1"' : '"0xsub"';
    queueMicrotask(() => {
      say(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
      if (method !== "eth_subscribe") return;
      say('{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0xsub","result":"0xfirst"}}');
    });
  }

  ping(): void {}
  pause(): void {}
  resume(): void {}

  terminate(): void {
    this.isOpen = false;
  }
}

class SocketTransport extends FakeTransport {
  override async openSocket(): Promise<TransportSocket> {
    return new FakeSocket();
  }
}

suite("WebSockets of a set that may change", () => {
  test("are opened by the endpoint's transport, and offered while the set has one", async () => {
    const set = new FakeSupplierSet(new SocketTransport({}));
    await using subscriptions = createSubscriptions(
      { suppliers: {} },
      {
        catalogue: services,
        suppliers: new Map([[ETH, set]]),
        clock,
        log: silentLog,
        metrics: noMetrics,
        random: () => 0,
      },
    );
    assert.equal(subscriptions.offers(ETH), false);
    set.become(["a"]);
    assert.equal(subscriptions.offers(ETH), false, "an endpoint of another way of speaking");
    set.become(["a"], "first", "websocket");
    assert.equal(subscriptions.offers(ETH), true);
    const topic = evmTopic(["newPendingTransactions"]);
    assert.ok(topic !== undefined);
    const event = Promise.withResolvers<string>();
    const subscribed = await subscriptions.subscribe(ETH, topic, {
      event: ({ raw }) => event.resolve(raw),
      ended: (reason) => event.reject(reason),
    });
    assert.ok(subscribed.ok);
    assert.equal(await event.promise, '"0xfirst"');
  });

  test("a supplier that has left the set is given up, one that stays by another session's handle is not", () => {
    const set = new FakeSupplierSet(new FakeTransport({}));
    const suppliers = new SocketSuppliers(set, { clock, random: () => 0, isDrained: () => false });
    set.become(["a", "b"], "first", "websocket");
    const [a, b] = suppliers.order();
    assert.ok(a !== undefined && b !== undefined);
    assert.deepEqual([suppliers.isDrained(a), suppliers.isDrained(b)], [false, false]);
    suppliers.failed(a);
    set.become(["a"], "second", "websocket");
    assert.deepEqual([suppliers.isDrained(a), suppliers.isDrained(b)], [false, true]);
    set.become(["a", "b"], "third", "websocket");
    const order = suppliers.order().map(({ operator }) => operator);
    assert.deepEqual(order, ["b", "a"], "that it failed is remembered");
  });
});
