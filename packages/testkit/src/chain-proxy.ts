import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { isRecord } from "@turnpike/base";
import { type RawData, WebSocket, WebSocketServer } from "ws";

/** A call of a node's RPC. */
export interface ChainQuestion {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/** Answers a call in place of the node; `ask` has the node's own answer, to this question or to another one. */
export type ChainAnswerer = (
  asked: ChainQuestion,
  ask: (other?: ChainQuestion) => Promise<Record<string, unknown>>,
) => Promise<Record<string, unknown>>;

/** A node of the relay protocol's chain behind a proxy that delays, withholds or changes its answers. */
export interface ChainProxy extends AsyncDisposable {
  readonly url: string;
  /** Answers and events of new blocks that are held back now. */
  readonly held: number;
  /** Calls that were passed on or changed, by method. */
  readonly asked: ReadonlyMap<string, number>;
  /** Holds back each answer, or those of some calls, and each event of a new block where all are held, until {@link release}. */
  hold(isHeld?: (asked: ChainQuestion) => boolean): void;
  release(): void;
  /** Answers in place of the node from now on; undefined: no more. */
  answerWith(answerer: ChainAnswerer | undefined): void;
  /** Puts another node behind the proxy, and ends the subscriptions to the one before. */
  moveTo(nodeUrl: string): void;
}

const textOf = (data: RawData): string => (Buffer.isBuffer(data) ? data.toString("utf8") : "");

/** Starts a {@link ChainProxy} on loopback in front of a node's RPC. */
export async function startChainProxy(nodeUrl: string): Promise<ChainProxy> {
  const agent = new Agent({ keepAlive: true });
  const asked = new Map<string, number>();
  let target = nodeUrl;
  let answerer: ChainAnswerer | undefined;
  let isHeld: ((question: ChainQuestion) => boolean) | undefined;
  let gate = Promise.withResolvers<void>();
  let held = 0;

  const wait = async (): Promise<void> => {
    held++;
    await gate.promise;
    held--;
  };
  const forward = async (body: string): Promise<Record<string, unknown>> => {
    const sent = request(target, { agent, method: "POST", headers: { "content-type": "application/json" } });
    sent.end(body);
    const [answer] = (await once(sent, "response")) as [IncomingMessage];
    return JSON.parse(await text(answer));
  };
  const answer = async (body: string): Promise<string> => {
    const call: unknown = JSON.parse(body);
    if (!isRecord(call)) throw new TypeError("the proxy passes single calls on");
    const question = { method: String(call.method), params: isRecord(call.params) ? call.params : {} };
    const ask = (other = question) => forward(JSON.stringify({ ...call, ...other }));
    const reply = await (answerer === undefined ? ask() : answerer(question, ask));
    asked.set(question.method, (asked.get(question.method) ?? 0) + 1);
    if (isHeld?.(question) === true) await wait();
    return JSON.stringify({ ...reply, id: call.id });
  };

  const server = createServer((req, res) => {
    text(req)
      .then(answer)
      .then(
        (reply) => res.writeHead(200, { "content-type": "application/json" }).end(reply),
        () => res.destroy(),
      );
  });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (client) => {
    const node = new WebSocket(`${target.replace(/^http/, "ws")}/websocket`);
    const waiting: string[] = [];
    client.on("message", (data) => {
      if (node.readyState === WebSocket.OPEN) node.send(textOf(data));
      else waiting.push(textOf(data));
    });
    node.on("open", () => {
      for (const message of waiting.splice(0)) node.send(message);
    });
    let last = Promise.resolve();
    node.on("message", (data) => {
      last = last.then(async () => {
        // Heights of blocks are questions to no one node: they are held where everything is.
        if (isHeld?.({ method: "event", params: {} }) === true) await wait();
        client.send(textOf(data));
      });
    });
    node.on("error", () => client.terminate());
    node.on("close", () => client.terminate());
    client.on("close", () => node.terminate());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const release = (): void => {
    isHeld = undefined;
    gate.resolve();
    gate = Promise.withResolvers();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get held() {
      return held;
    },
    asked,
    hold(which = () => true) {
      isHeld = which;
    },
    release,
    answerWith(next) {
      answerer = next;
    },
    moveTo(next) {
      target = next;
      for (const client of sockets.clients) client.terminate();
    },
    async [Symbol.asyncDispose]() {
      release();
      for (const client of sockets.clients) client.terminate();
      sockets.close();
      server.closeAllConnections();
      server.close();
      agent.destroy();
    },
  };
}
