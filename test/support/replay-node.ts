import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { readRecorded, recordedText } from "@turnpike/testkit";
import { findMembers, replaceSpan } from "../../packages/relay/src/members.ts";

/** One question of a network, and the text that answers it. */
export interface Replay {
  readonly name: string;
  /** JSON-RPC: the method and its parameters. By path: verb and path with its query, and the body. */
  readonly question: string;
  readonly status: number;
  readonly answer: string;
}

/** A stand-in for a network's node: it says what is in its list, and nothing else. */
export interface ReplayNode extends AsyncDisposable {
  readonly url: string;
  /** Questions that were answered, in order. */
  readonly asked: string[];
  /** Questions that the list does not have; a test asserts that there are none. */
  readonly unknown: string[];
  /** Forgets what was asked; after the relay's probes. */
  forget(): void;
}

/** Members in one order, so that equal values have equal texts. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

/** The text of a JSON-RPC question. */
export function rpcQuestion(method: string, params: unknown): string {
  return `${method} ${canonical(params ?? [])}`;
}

function pathQuestion(verb: string, path: string, body: unknown): string {
  // Decoded: the recorder sent `"` and its like as they are, and a client may not.
  return [verb, decodeURIComponent(path), ...(body === undefined ? [] : [canonical(body)])].join(" ");
}

/** A member's value as it stands in the text. */
function rawMember(object: string, name: string): string {
  const bytes = Buffer.from(object);
  const span = findMembers(bytes)?.get(name);
  assert.ok(span !== undefined, `no ${name} in ${object.slice(0, 80)}`);
  return bytes.toString("utf8", span.start, span.end);
}

/** The answer with another id; every other byte stays. */
export function withId(answer: string, id: unknown): string {
  const bytes = Buffer.from(answer);
  const span = findMembers(bytes)?.get("id");
  assert.ok(span !== undefined, `no id in ${answer.slice(0, 80)}`);
  return Buffer.from(replaceSpan(bytes, span, JSON.stringify(id))).toString();
}

interface DocumentedRow {
  readonly rpc?: { readonly method: string; readonly params: unknown };
  readonly path?: { readonly verb: string; readonly path: string; readonly body?: unknown };
  readonly status?: number;
}

/** Documented answers of a network; see the README in `test/spec/documented`. Numbers of any size keep their digits. */
export function readDocumented(network: string): readonly Replay[] {
  const source = readFileSync(new URL(`../spec/documented/${network}.json`, import.meta.url), "utf8");
  return Object.entries(JSON.parse(source) as Readonly<Record<string, DocumentedRow>>).map(([name, row]) => {
    const { rpc, path, status = 200 } = row;
    const answer = rawMember(rawMember(source, name), "answer");
    const question =
      rpc === undefined
        ? pathQuestion(path?.verb ?? "", path?.path ?? "", path?.body)
        : rpcQuestion(rpc.method, rpc.params);
    return { name, question, status, answer };
  });
}

/** What the recorded Cosmos-style node was asked over POST and GET, and said. */
export function readRecordedCosmos(): readonly Replay[] {
  return [...readRecorded("rpc"), ...readRecorded("rest")].flatMap((one) => {
    const { method: verb, path, body, headers } = one.request;
    if (headers !== undefined || typeof body === "string") return [];
    const asked = (body ?? {}) as { readonly method?: string; readonly params?: unknown };
    const isRpc = verb === "POST" && asked.params !== undefined;
    if (verb === "POST" && !isRpc) return [];
    const question = isRpc ? rpcQuestion(asked.method ?? "", asked.params) : pathQuestion(verb, path, undefined);
    return [{ name: one.name, question, status: one.status, answer: recordedText(one) }];
  });
}

interface RecordedGrpc {
  readonly name: string;
  readonly method: string;
  readonly request_hex: string;
  readonly response_hex: string;
  readonly headers: { readonly "x-cosmos-block-height": string };
}

/**
 * The same node's recorded gRPC answers, in the envelope that its `abci_query` has for them: the bytes of the query and
 * of its value are the recorded ones.
 */
export function readRecordedAbci(): readonly Replay[] {
  const file = new URL("../spec/recorded-cosmos/grpc/bank.json", import.meta.url);
  const list = JSON.parse(readFileSync(file, "utf8")) as readonly RecordedGrpc[];
  return list.map((one) => {
    const value = Buffer.from(one.response_hex, "hex").toString("base64");
    const height = one.headers["x-cosmos-block-height"];
    const rest = `"log":"","info":"","index":"0","key":null,"value":"${value}","proofOps":null,"height":"${height}"`;
    return {
      name: one.name,
      question: rpcQuestion("abci_query", { path: one.method, data: one.request_hex, prove: false }),
      status: 200,
      answer: `{"jsonrpc":"2.0","id":1,"result":{"response":{"code":0,${rest},"codespace":""}}}`,
    };
  });
}

/** Starts a stand-in that answers from a list. */
export async function startReplayNode(replays: readonly Replay[]): Promise<ReplayNode> {
  const answers = new Map<string, Replay>();
  for (const one of replays) if (!answers.has(one.question)) answers.set(one.question, one);
  const asked: string[] = [];
  const unknown: string[] = [];

  const look = (question: string): Replay | undefined => {
    const found = answers.get(question);
    (found === undefined ? unknown : asked).push(question);
    return found;
  };
  const rpcAnswer = (call: Readonly<Record<string, unknown>>): Pick<Replay, "status" | "answer"> | undefined => {
    const found = look(rpcQuestion(String(call.method), call.params));
    if (found === undefined || call.id === undefined) return undefined;
    return { status: found.status, answer: withId(found.answer, call.id) };
  };
  const handle = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const body = await text(req);
    const { method: verb = "", url: path = "" } = req;
    const value = body === "" ? undefined : (JSON.parse(body) as unknown);
    const calls = (Array.isArray(value) ? value : [value]) as readonly Readonly<Record<string, unknown>>[];
    const isRpc = verb === "POST" && path === "/" && calls.length > 0;
    const made: readonly (Pick<Replay, "status" | "answer"> | undefined)[] = isRpc
      ? calls.map(rpcAnswer)
      : [look(pathQuestion(verb, path, value))];
    const known = made.filter((one) => one !== undefined);
    const [first] = known;
    if (first === undefined || known.length < made.length) {
      res.writeHead(501, { "content-type": "text/plain" }).end("this stand-in has no answer to that");
      return;
    }
    const out = Array.isArray(value) ? `[${known.map(({ answer }) => answer).join(",")}]` : first.answer;
    res.writeHead(first.status, { "content-type": "application/json" }).end(out);
  };
  const server = createServer((req, res) => void handle(req, res));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    unknown,
    forget() {
      asked.length = 0;
      unknown.length = 0;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** What a client throws, in a form that can be compared: name, message and the stated code, whatever class it is. */
export function outcomeOf(error: unknown): Readonly<Record<string, unknown>> {
  if (!(error instanceof Error)) return { thrown: error };
  const { name, message } = error;
  const { code, data, context, cause } = error as {
    code?: unknown;
    data?: unknown;
    context?: unknown;
    cause?: unknown;
  };
  return { name, message, code, data, context, cause: cause instanceof Error ? outcomeOf(cause) : undefined };
}
