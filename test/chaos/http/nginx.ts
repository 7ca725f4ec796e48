import { once } from "node:events";
import type { IncomingMessage, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { freePort } from "@turnpike/localnet";
import { exchange } from "../../../packages/http1/test/exchange.ts";
import { createReference, handleFast, startListener } from "../../../packages/http1/test/reference.ts";
import { createStream, type Stream } from "../../../packages/http1/test/streams.ts";
import { startNginx, withoutNginx } from "../../support/nginx.ts";
import type { ChaosPart } from "../chaos.ts";

const REQUESTS = { short: 4_000, full: 100_000 };
/** Streams under way at once, each with servers of its own: what a server saw is of one stream. */
const LANES = 4;
/** Most faults that are reported. */
const MAX_FAULTS = 10;
/** Kept connections do not end between two streams. */
const KEEP_ALIVE_MS = 600_000;

/** What one server saw of a stream: each whole request's method, target and body. */
type Seen = string[];

const requestText = (method: string, target: string, body: Buffer): string =>
  `${method} ${target} ${body.toString("latin1")}`;

/** A server of `node:http` that records whole requests. */
function recordingServer(seen: Seen): Server {
  const server = createReference({ keepAliveTimeout: KEEP_ALIVE_MS });
  server.prependListener("request", (request: IncomingMessage) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => seen.push(requestText(request.method ?? "", request.url ?? "", Buffer.concat(parts))));
  });
  return server;
}

/** Servers of one lane. */
interface Lane {
  /** Ours without nginx; `seen` has what the fast way alone handled. */
  readonly direct: { readonly port: number; readonly seen: Seen };
  /** nginx in front of `node:http` alone: `seen` is what nginx forwards. */
  readonly recorder: { readonly port: number; readonly seen: Seen };
  /** nginx in front of ours. */
  readonly proxied: { readonly port: number; readonly seen: Seen };
}

/** Our listener; `seen` gets what it handles on the fast way, and with `isWhole` what its server handles as well. */
async function startOurs(stack: AsyncDisposableStack, seen: Seen, isWhole: boolean): Promise<number> {
  const server = isWhole ? recordingServer(seen) : createReference();
  const { port } = stack.use(
    await startListener(
      {},
      {
        server,
        handle: (request) => {
          const text = requestText("POST", request.target(), request.body());
          const isHandled = handleFast(request);
          if (isHandled) seen.push(text);
          return isHandled;
        },
      },
    ),
  );
  return port;
}

async function startRecorder(stack: AsyncDisposableStack, seen: Seen): Promise<number> {
  const server = recordingServer(seen);
  stack.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** Forwards bodies whole and each request once; heads as large as our listener takes are no reason to refuse. */
const SETTINGS = `
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_ignore_client_abort on;
  proxy_next_upstream off;
  client_header_buffer_size 32k;
  large_client_header_buffers 4 32k;
  client_max_body_size 0;`;

const serverText = (name: string, listenPort: number, upstreamPort: number): string => `
  upstream ${name} { server 127.0.0.1:${upstreamPort}; keepalive 4; }
  server { listen 127.0.0.1:${listenPort}; location / { proxy_pass http://${name}; } }`;

async function startLanes(stack: AsyncDisposableStack): Promise<readonly Lane[]> {
  const lanes: Lane[] = [];
  const texts = [SETTINGS];
  for (let at = 0; at < LANES; at++) {
    const [direct, recorder, proxied]: [Seen, Seen, Seen] = [[], [], []];
    const directPort = await startOurs(stack, direct, false);
    const [recorderPort, proxiedPort] = [await freePort(), await freePort()];
    texts.push(serverText(`recorder${at}`, recorderPort, await startRecorder(stack, recorder)));
    texts.push(serverText(`ours${at}`, proxiedPort, await startOurs(stack, proxied, true)));
    lanes.push({
      direct: { port: directPort, seen: direct },
      recorder: { port: recorderPort, seen: recorder },
      proxied: { port: proxiedPort, seen: proxied },
    });
  }
  const ports = lanes.flatMap(({ recorder, proxied }) => [recorder.port, proxied.port]);
  stack.use(await startNginx(texts.join("\n"), ports));
  return lanes;
}

/** What one stream led to. */
interface Verdict {
  readonly forwarded: number;
  readonly handled: number;
  /** Status of nginx's refusal of a request that the fast way takes. */
  readonly refusal: string | undefined;
  readonly fault: string | undefined;
}

const shortened = (text: string | undefined): string => JSON.stringify(text?.slice(0, 200) ?? "no request");

/** Sends one stream each way, and compares what was seen of it. */
async function judge({ direct, recorder, proxied }: Lane, { pieces }: Stream): Promise<Verdict> {
  for (const { seen } of [direct, recorder, proxied]) seen.length = 0;
  await exchange(direct.port, pieces);
  const { text } = await exchange(recorder.port, pieces);
  await exchange(proxied.port, pieces);
  const forwarded = recorder.seen.length;
  const handled = direct.seen.length;
  const verdict = { forwarded, handled, refusal: undefined, fault: undefined };
  const behind = Array.from({ length: Math.max(forwarded, proxied.seen.length) }, (_, at) => at).find(
    (at) => proxied.seen[at] !== recorder.seen[at],
  );
  if (behind !== undefined) {
    const [ours, theirs] = [proxied.seen[behind], recorder.seen[behind]].map(shortened);
    return { ...verdict, fault: `behind nginx request ${behind + 1} is ${ours}, but nginx forwarded ${theirs}` };
  }
  const at = direct.seen.findIndex((request, index) => request !== recorder.seen[index]);
  if (at === -1) return verdict;
  const statuses = text.match(/HTTP\/1\.1 \d{3} /g) ?? [];
  const last = statuses.at(-1)?.slice(-4, -1);
  // nginx may refuse what we take, and then ends the connection: no later request is seen by either.
  if (at === forwarded && last !== undefined && last >= "400") return { ...verdict, refusal: last };
  const [ours, theirs] = [direct.seen[at], recorder.seen[at]].map(shortened);
  return { ...verdict, fault: `request ${at + 1} is ${ours}, but nginx forwarded ${theirs}` };
}

/**
 * nginx as a third reader of the streams of {@link createStream}, beside our listener and in front of it: what the fast
 * way takes for requests must be what nginx forwards, in the same order. nginx may refuse more than we do.
 */
export const besideNginx: ChaosPart = async ({ size, seconds, progress }) => {
  if (withoutNginx !== false) return { figures: [], skipped: [withoutNginx] };
  await using stack = new AsyncDisposableStack();
  const lanes = await startLanes(stack);
  const endMs = seconds === undefined ? Number.POSITIVE_INFINITY : performance.now() + seconds * 1_000;
  const most = seconds === undefined ? REQUESTS[size] : Number.POSITIVE_INFINITY;
  const sum = { streams: 0, requests: 0, forwarded: 0, handled: 0 };
  const refusals = new Map<string, number>();
  const faults: string[] = [];
  let seed = Number(process.env.FUZZ_SEED ?? 1) * 1_000_000;
  const run = async (lane: Lane): Promise<void> => {
    while (sum.requests < most && performance.now() < endMs && faults.length < MAX_FAULTS) {
      const own = seed++;
      const stream = createStream(own);
      sum.streams++;
      sum.requests += stream.requests;
      if (sum.streams % 5_000 === 0) progress(`${sum.requests} requests`);
      const { forwarded, handled, refusal, fault } = await judge(lane, stream);
      sum.forwarded += forwarded;
      sum.handled += handled;
      if (refusal !== undefined) refusals.set(refusal, (refusals.get(refusal) ?? 0) + 1);
      if (fault !== undefined) faults.push(`seed ${own}: ${fault}`);
    }
  };
  await Promise.all(lanes.map(run));
  const figures = [
    { what: "streams", value: sum.streams, unit: "" },
    { what: "requests put into them", value: sum.requests, unit: "" },
    { what: "requests that nginx forwarded", value: sum.forwarded, unit: "" },
    { what: "requests answered on the fast way without nginx", value: sum.handled, unit: "" },
    ...[...refusals].map(([status, value]) => ({
      what: `streams in which nginx refused by ${status} a request that the fast way takes`,
      value,
      unit: "",
    })),
    { what: "differences", value: faults.length, unit: "" },
  ];
  return { figures, faults };
};
