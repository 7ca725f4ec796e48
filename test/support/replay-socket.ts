import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { type Replay, rpcQuestion, withId } from "./replay-node.ts";

/** A stand-in for the WebSocket of a Cosmos-style node: its list, and recorded events of a subscription. */
export interface ReplaySocket extends AsyncDisposable {
  readonly url: string;
  /** Questions that the list does not have. */
  readonly unknown: string[];
  /** Resolves with the first subscription. */
  readonly subscription: Promise<void>;
  /** Sends the next recorded event to every subscription. */
  push(): void;
}

interface Said {
  readonly dir: "<" | ">";
  readonly msg: { readonly method?: string; readonly params?: unknown; readonly result?: { readonly query?: string } };
}

const FILE = new URL("../spec/recorded-cosmos/websocket/new-blocks.json", import.meta.url);

/** Starts a stand-in that knows one subscription, and answers everything else from a list. */
export async function startReplaySocket(replays: readonly Replay[]): Promise<ReplaySocket> {
  const said = JSON.parse(readFileSync(FILE, "utf8")) as readonly Said[];
  const asked = said.find(({ dir }) => dir === ">");
  const subscribe = rpcQuestion(asked?.msg.method ?? "", asked?.msg.params);
  const events = said.filter(({ dir, msg }) => dir === "<" && msg.result?.query !== undefined);
  const answers = new Map(replays.map((one) => [one.question, one]));
  const subscriptions = new Map<WebSocket, unknown>();
  const unknown: string[] = [];
  const subscribed = Promise.withResolvers<void>();
  let next = 0;

  const server = new WebSocketServer({ port: 0, host: "127.0.0.1", path: "/websocket" });
  server.on("connection", (socket) => {
    socket.on("close", () => subscriptions.delete(socket));
    socket.on("message", (data: Buffer) => {
      const { method, params, id } = JSON.parse(data.toString("utf8")) as Readonly<Record<string, unknown>>;
      const question = rpcQuestion(String(method), params);
      const found = answers.get(question);
      const isSubscribe = question === subscribe;
      if (isSubscribe) subscriptions.set(socket, id);
      else if (question === subscribe.replace("subscribe", "unsubscribe")) subscriptions.delete(socket);
      else if (found === undefined) unknown.push(question);
      else {
        socket.send(withId(found.answer, id));
        return;
      }
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: {} }));
      if (isSubscribe) subscribed.resolve();
    });
  });
  await once(server, "listening");
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/websocket`,
    unknown,
    subscription: subscribed.promise,
    push() {
      const event = events[next++];
      if (event === undefined) return;
      for (const [socket, id] of subscriptions) socket.send(withId(JSON.stringify(event.msg), id));
    },
    async [Symbol.asyncDispose]() {
      for (const client of server.clients) client.terminate();
      server.close();
      await once(server, "close");
    },
  };
}
