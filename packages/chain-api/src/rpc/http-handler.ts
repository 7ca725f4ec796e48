import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import {
  type AnswerReader,
  asBuffer,
  type Clock,
  type ConnectionGuard,
  type Log,
  type ReleaseBytes,
  utf8ToBytes,
  type WriteBufferBudget,
} from "@turnpike/base";
import type { EventLoopQueue } from "@turnpike/chain-node";
import { LARGE_ANSWER_BYTES, limitWriteTime, WRITE_BUFFER_FULL } from "../write-buffer.ts";
import { errorText, outcomeText, type RpcOutcome, URI_ID } from "./answers.ts";
import { type ArgumentValue, argumentFromBody, argumentFromText } from "./arguments.ts";
import type { RpcBounds } from "./bounds.ts";
import { argumentsFromParams, callMethod, mayBeCached, type ReadArguments, TOO_FEW_ARGUMENTS } from "./dispatch.ts";
import { bytesToRaw, kindOf, membersOf, type RawJson, scanWhole } from "./go-json.ts";
import { BodyReader } from "./http-body.ts";
import type { RpcCaller, RpcMethod, RpcMethods } from "./method.ts";
import { type RpcRequest, readRequests } from "./requests.ts";

const CACHED = "public, max-age=86400";
/** How long a client whose body was refused may go on sending before it is cut off. */
const LINGER_MS = 500;

/** An answer to an HTTP request. */
export interface HttpAnswer {
  readonly status: number;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
  /** Releases the bytes that the answer has of the write buffer; its sender calls this when it is sent or dropped. */
  readonly release?: ReleaseBytes;
}

const json = (status: number, body: string, cached = false): HttpAnswer => ({
  status,
  type: "application/json",
  body,
  ...(cached ? { headers: { "Cache-Control": CACHED } } : {}),
});
const plain = (status: number, body: string): HttpAnswer => ({
  status,
  type: "text/plain; charset=utf-8",
  headers: { "X-Content-Type-Options": "nosniff" },
  body,
});

/** Answer to a request that breaks the real server's code. */
const BROKEN: HttpAnswer = json(500, errorText(URI_ID, "internal", TOO_FEW_ARGUMENTS));
/** Answer in place of one for which the write buffer has no room. */
const WRITE_BUFFER_FULL_ANSWER: HttpAnswer = {
  ...json(503, errorText(undefined, "server", WRITE_BUFFER_FULL)),
  headers: { "Retry-After": "1" },
};

/** The body as it is written: a long text is not held beside its bytes. */
export function bodyBytes(body: string): string | Buffer {
  return body.length < LARGE_ANSWER_BYTES ? body : asBuffer(utf8ToBytes(body));
}

export interface RpcHttpHandlerModules {
  readonly methods: RpcMethods;
  readonly guard: ConnectionGuard;
  readonly log: Log;
  readonly clock: Clock;
  readonly queue: EventLoopQueue;
  readonly writeBuffer: WriteBufferBudget;
}

/** Caller over HTTP, and the connection that its answer is written to. */
export interface Asker extends Pick<RpcCaller, "client" | "clientKey" | "signal"> {
  readonly reader: AnswerReader;
}

/** Answers HTTP requests: JSON-RPC at `/`, and every method at an address of its own. */
export class RpcHttpHandler {
  readonly #bounds: RpcBounds;
  readonly #methods: RpcMethods;
  readonly #guard: ConnectionGuard;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #calls: Pick<RpcHttpHandlerModules, "log" | "queue">;
  readonly #bodies: BodyReader;
  readonly #writeBuffer: WriteBufferBudget;

  constructor(bounds: RpcBounds, { methods, guard, log, clock, queue, writeBuffer }: RpcHttpHandlerModules) {
    this.#bounds = bounds;
    this.#methods = methods;
    this.#guard = guard;
    this.#log = log;
    this.#clock = clock;
    this.#calls = { log, queue };
    this.#bodies = new BodyReader(bounds);
    this.#writeBuffer = writeBuffer;
  }

  /** Answers one request; never rejects. */
  async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    try {
      const gone = new AbortController();
      // An answer that was sent needs no signal, and an abort costs as much as a small answer.
      const aborted = (): void => {
        if (!res.writableFinished) gone.abort();
      };
      res.on("close", aborted);
      res.on("error", aborted);
      const read = await this.#bodies.read(req);
      if (!read.ok) {
        if (read.reason !== "gone") this.#refuseBody(req, res, read.reason);
        return;
      }
      const asker = this.askerOf(req.socket, gone.signal);
      this.#send(res, this.#bounded(await this.#answer(req, read.body, asker), asker));
    } catch (error) {
      this.#log.error({ error }, "RPC request failed");
      res.destroy();
    }
  }

  /** Client of a connection. @param signal aborts when nothing waits for the answer any more */
  askerOf(socket: Socket, signal: AbortSignal): Asker {
    const { remoteAddress = "", remotePort = 0 } = socket;
    const clientKey = this.#guard.clientOf(socket);
    const reader = { client: clientKey, connection: socket, close: () => void socket.destroy() };
    return { client: `${remoteAddress}:${remotePort}`, clientKey, signal, reader };
  }

  /** Answers what was posted to `/`, which is not empty. */
  async answerPost(body: Buffer, asker: Asker): Promise<HttpAnswer> {
    return this.#bounded(await this.#answerBody(bytesToRaw(body), asker), asker);
  }

  /** Reserves the bytes of an answer, or gives one that says that there is no room. */
  #bounded(answer: HttpAnswer, { reader }: Asker): HttpAnswer {
    const { body, release } = answer;
    if (release !== undefined || body.length < LARGE_ANSWER_BYTES) return answer;
    const reserved = this.#writeBuffer.reserve(Buffer.byteLength(body), reader);
    return reserved === undefined ? WRITE_BUFFER_FULL_ANSWER : { ...answer, release: reserved };
  }

  /** The field lines of an answer, each with its CR LF, as {@link handle} sends them. */
  fieldLines({ type, headers = {} }: HttpAnswer): string {
    let lines = `X-Server-Time: ${this.#serverTime()}\r\n`;
    if (type !== undefined) lines += `Content-Type: ${type}\r\n`;
    for (const [name, value] of Object.entries(headers)) lines += `${name}: ${value}\r\n`;
    return lines;
  }

  #serverTime(): string {
    return Math.floor(this.#clock.nowMs() / 1000).toString();
  }

  #send(res: ServerResponse, { status, type, headers = {}, body, release }: HttpAnswer): void {
    if (release !== undefined) this.#writeBuffer.releaseAfter(res, release);
    if (res.destroyed) return;
    res.statusCode = status;
    res.setHeader("X-Server-Time", this.#serverTime());
    if (type !== undefined) res.setHeader("Content-Type", type);
    for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
    res.end(bodyBytes(body));
    limitWriteTime(res, this.#bounds.writeTimeoutMs);
  }

  #refuseBody(req: IncomingMessage, res: ServerResponse, reason: "too_long" | "busy"): void {
    const fault = "error reading request body: http: request body too large";
    const answer =
      reason === "too_long" ? json(400, errorText(undefined, "request", fault)) : plain(503, "too many requests\n");
    this.#send(res, { ...answer, headers: { ...answer.headers, Connection: "close" } });
    const cut = setTimeout(() => req.socket.destroy(), LINGER_MS);
    req.socket.on("close", () => clearTimeout(cut));
  }

  #answer(req: IncomingMessage, body: Buffer, asker: Asker): HttpAnswer | Promise<HttpAnswer> {
    const url = req.url ?? "/";
    const mark = url.indexOf("?");
    const path = mark < 0 ? url : url.slice(0, mark);
    const query = mark < 0 ? "" : url.slice(mark + 1);
    if (path === "/") {
      if (body.length > 0) return this.answerPost(body, asker);
      const page = endpointPage(this.#methods, req.headers.host ?? "");
      return { status: 200, type: "text/html", body: page };
    }
    if (path === "/websocket") return { ...plain(400, "Bad Request\n"), headers: { "Sec-Websocket-Version": "13" } };
    const name = path.slice(1);
    const method = Object.hasOwn(this.#methods, name) ? this.#methods[name] : undefined;
    if (method === undefined) return plain(404, "404 page not found\n");
    if (method.socketOnly === true) return json(404, errorText(URI_ID, "method"));
    return this.#answerAddress(method, this.#argumentsOf(method, req, query, body), asker);
  }

  #argumentsOf(method: RpcMethod, req: IncomingMessage, query: string, body: Buffer): ReadArguments {
    const fromQuery = new URLSearchParams(query);
    const posted = req.method === "POST" || req.method === "PUT" || req.method === "PATCH";
    const type = req.headers["content-type"] ?? "";
    const isForm = posted && type.startsWith("application/x-www-form-urlencoded");
    const fromForm = new URLSearchParams(isForm ? body.toString("utf8") : "");
    const fromBody = posted && !isForm ? this.#membersOfBody(body) : undefined;
    const values: ArgumentValue[] = [];
    for (const { name, kind } of method.args) {
      const text = fromQuery.get(name) || fromForm.get(name) || "";
      const raw = fromBody?.get(name);
      if (text === "" && raw === undefined) {
        values.push(undefined);
        continue;
      }
      const read = text === "" ? argumentFromBody(kind, raw ?? "null") : argumentFromText(kind, text);
      if (!read.ok) return read;
      values.push(read.value);
    }
    return { ok: true, values };
  }

  // Beyond what CometBFT reads: a JSON object that is sent to a method's own address names its arguments.
  #membersOfBody(body: Buffer): ReadonlyMap<string, RawJson> | undefined {
    const scanned = scanWhole(bytesToRaw(body), this.#bounds.maxJsonDepth);
    if (!scanned.ok || kindOf(scanned.raw) !== "object") return undefined;
    return membersOf(scanned.raw, this.#bounds.maxJsonDepth);
  }

  async #answerAddress(method: RpcMethod, read: ReadArguments, asker: Asker): Promise<HttpAnswer> {
    if (!read.ok) {
      return json(500, errorText(URI_ID, "params", `error converting http params to arguments: ${read.fault}`));
    }
    const outcome = await callMethod(method, read.values, { ...asker, id: URI_ID }, this.#calls);
    return json(outcome.ok ? 200 : 500, outcomeText(URI_ID, outcome), outcome.ok && mayBeCached(method, read.values));
  }

  async #answerBody(text: string, asker: Asker): Promise<HttpAnswer> {
    const { maxJsonDepth, maxBatch } = this.#bounds;
    const read = readRequests(text, maxJsonDepth, maxBatch);
    if (!read.ok) return json(500, errorText(undefined, "parse", `error unmarshaling request: ${read.fault}`));
    if (read.batch && read.requests.length > maxBatch) {
      const fault = `batch request exceeds maximum (${maxBatch}) allowed number of requests`;
      return json(200, errorText(undefined, "request", fault));
    }
    if (read.batch && read.requests.length > 1) return this.#answerBatch(read.requests, asker);
    const [request] = read.requests;
    if (request === undefined) return { status: 200, body: "" };
    const answer = await this.#answerRequest(request, asker);
    return answer === "broken" ? BROKEN : json(200, answer.text, answer.cached);
  }

  /** Answers a batch. Its answers wait for each other, so that each one needs room as soon as it is made. */
  async #answerBatch(requests: readonly (RpcRequest | undefined)[], asker: Asker): Promise<HttpAnswer> {
    const answers: string[] = [];
    const reserved: ReleaseBytes[] = [];
    const release = (): void => {
      for (const each of reserved) each();
    };
    let cached = true;
    let answered: HttpAnswer | undefined;
    try {
      for (const request of requests) {
        if (request === undefined) continue;
        const answer = await this.#answerRequest(request, asker);
        // There the real server's code breaks: nothing else of the batch is answered.
        if (answer === "broken") return BROKEN;
        const releaseAnswer = this.#writeBuffer.reserve(Buffer.byteLength(answer.text), asker.reader);
        if (releaseAnswer === undefined) return WRITE_BUFFER_FULL_ANSWER;
        reserved.push(releaseAnswer);
        answers.push(answer.text);
        cached &&= answer.cached;
      }
      if (answers.length === 0) return { status: 200, body: "" };
      const [only = ""] = answers;
      answered = { ...json(200, answers.length === 1 ? only : `[${answers.join(",")}]`, cached), release };
      return answered;
    } finally {
      // Texts may be too long to be joined.
      if (answered === undefined) release();
    }
  }

  async #answerRequest(
    { id, method: name, params }: RpcRequest,
    asker: Asker,
  ): Promise<"broken" | { readonly text: string; readonly cached: boolean }> {
    const method = Object.hasOwn(this.#methods, name) ? this.#methods[name] : undefined;
    if (method === undefined || method.socketOnly === true) return { text: errorText(id, "method"), cached: false };
    if (params === undefined && method.args.length > 0) return "broken";
    const read = argumentsFromParams(method, params ?? "null", this.#bounds.maxJsonDepth);
    if (!read.ok) {
      const fault = `error converting json params to arguments: ${read.fault}`;
      return { text: errorText(id, "params", fault), cached: false };
    }
    const outcome: RpcOutcome = await callMethod(method, read.values, { ...asker, id }, this.#calls);
    return { text: outcomeText(id, outcome), cached: outcome.ok && mayBeCached(method, read.values) };
  }
}

/** The page that lists all methods as links, as CometBFT shows it to browsers. @param host of the request */
function endpointPage(methods: RpcMethods, host: string): string {
  const safeHost = host.replace(/[^\w.:[\]-]/g, "");
  const links = Object.keys(methods)
    .sort()
    .map((name) => {
      const query = (methods[name]?.args ?? []).map((arg) => `${arg.name}=_`).join("&");
      const link = `//${safeHost}/${name}?${query}`;
      return `<a href="${link}">${link}</a></br>`;
    });
  const head = "<br>Available endpoints:<br><br>Endpoints that require arguments:<br>";
  return `<html><body>${head}${links.join("")}</body></html>`;
}
