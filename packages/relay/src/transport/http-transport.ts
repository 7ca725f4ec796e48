import { createHash } from "node:crypto";
import { isIP, type LookupFunction } from "node:net";
import { AppError, type Clock, Deadlines, hostOf, isPrivateHost, type Metrics, type ResolveHost } from "@turnpike/base";
import { HttpPool, RequestHead } from "@turnpike/http1";
import { StreamSlots } from "./answer-pipe.ts";
import { basicAuth, pathBelow } from "./backend-url.ts";
import { ByteBudget } from "./byte-budget.ts";
import { exchange } from "./http-exchange.ts";
import { openWebSocket } from "./http-socket.ts";
import { publicLookup } from "./public-lookup.ts";
import type {
  SocketRequest,
  SupplierEndpoint,
  SupplierTransport,
  TransportFailure,
  TransportSocket,
  UpstreamRequest,
  UpstreamResponse,
} from "./transport.ts";

export interface HttpTransportOptions {
  readonly connectTimeoutMs: number;
  /** Connections to one origin; more calls wait for one. Half of them may pass answers on while they arrive. */
  readonly maxConnectionsPerOrigin: number;
  /** Bytes of answers that are held while they are received, over all calls; more are OVERLOADED. */
  readonly maxInFlightBytes: number;
  /** True: private addresses are not reached, for URLs that others chose; false by default. */
  readonly isPublicOnly?: boolean;
}

interface HttpTransportModules {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Resolves names where only public addresses are reached; the system's by default. */
  readonly resolve?: ResolveHost;
  /** Bounds the bytes in place of `maxInFlightBytes`, where transports share it. */
  readonly budget?: ByteBudget;
}

/** The connections to one origin. */
interface HttpOrigin {
  readonly pool: HttpPool;
  /** Of answers that are passed on while they arrive. */
  readonly streams: StreamSlots;
  readonly name: string;
  /** Origin and `Host` header: one origin may serve several hosts. */
  readonly key: string;
  /** Back-ends at it. */
  users: number;
}

/** Share of an origin's connections that answers may take which are passed on while they arrive. */
const STREAM_SHARE = 0.5;
/** Time-outs come so late at most. */
const DEADLINE_STEP_MS = 10;
/** Requests that wait for an origin's connections, for each of these; more fail without being sent, and may go to another supplier. */
const QUEUED_PER_CONNECTION = 256;
/** What the engine reads of responses' heads. */
const RESPONSE_FIELDS = ["content-type", "retry-after", "eth-consensus-version"];

/** A back-end by its URL: the handle of an endpoint that {@link HttpTransport} reaches. */
export class HttpBackend {
  /** See `SupplierEndpoint`. */
  readonly backendKey: string;
  /** Host of its URL: paths and queries may hold keys. */
  readonly label: string;
  /** As given, with all that it holds. */
  readonly url: string;
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined for a `ws` URL. */
  readonly origin: HttpOrigin | undefined;
  /** Resolves its host; undefined: as the system does. */
  readonly lookup: LookupFunction | undefined;
  readonly getHeaders: Readonly<Record<string, string>>;
  readonly postHeaders: Readonly<Record<string, string>>;
  readonly #url: URL;
  /** Keeps the spelling of the given URL, with or without a slash at its end. */
  readonly #root: string;
  /** Most requests are like the one before. */
  #lastHead: (HeadParts & { readonly head: RequestHead | undefined }) | undefined;

  constructor(
    url: string,
    headers: Readonly<Record<string, string>>,
    { origin, lookup }: Pick<HttpBackend, "origin" | "lookup">,
  ) {
    this.lookup = lookup;
    this.url = url;
    this.headers = headers;
    this.origin = origin;
    this.label = hostOf(url);
    this.backendKey = keyOf(url, headers);
    this.#url = new URL(url);
    this.#root = `${this.#url.pathname}${this.#url.search}`;
    this.getHeaders = {
      accept: "application/json",
      "accept-encoding": "identity",
      "user-agent": "turnpike",
      ...basicAuth(this.#url),
      ...headers,
    };
    this.postHeaders = { ...this.getHeaders, "content-type": "application/json" };
  }

  /** True for a `ws` URL. */
  get isSocket(): boolean {
    return this.origin === undefined;
  }

  /** The whole path and query of a request below its root. */
  pathOf(appended: string): string {
    return appended === "" ? this.#root : pathBelow(this.#url, appended);
  }

  /** The head of a request; undefined when its path or headers cannot be sent. */
  headOf({ method, path, headers, body }: UpstreamRequest): RequestHead | undefined {
    const hasBody = body !== undefined;
    const last = this.#lastHead;
    if (last?.path === path && last.headers === headers && last.method === method && last.hasBody === hasBody) {
      return last.head;
    }
    const base = hasBody ? this.postHeaders : this.getHeaders;
    const all = headers === undefined ? base : { ...base, ...headers };
    const head = RequestHead.of({ method, path: this.pathOf(path), host: this.#url.host, headers: all });
    this.#lastHead = { method, path, headers, hasBody, head };
    return head;
  }
}

/** What a head is made of, beside what its back-end adds. */
type HeadParts = Pick<UpstreamRequest, "method" | "path" | "headers"> & { readonly hasBody: boolean };

/** Reaches back-ends by their URLs over HTTP and WebSocket. Those at one origin share their connections. */
export class HttpTransport implements SupplierTransport, AsyncDisposable {
  readonly #options: HttpTransportOptions;
  readonly #origins = new Map<string, HttpOrigin>();
  readonly #modules: { readonly budget: ByteBudget; readonly deadlines: Deadlines };
  readonly #lookup: LookupFunction | undefined;
  readonly #clock: Clock;

  constructor(options: HttpTransportOptions, { clock, metrics, resolve, budget }: HttpTransportModules) {
    this.#options = options;
    this.#clock = clock;
    this.#lookup = options.isPublicOnly === true ? publicLookup(resolve) : undefined;
    this.#modules = {
      budget: budget ?? new ByteBudget({ maxBytes: options.maxInFlightBytes }, { metrics }),
      deadlines: new Deadlines({ stepMs: DEADLINE_STEP_MS }, { clock }),
    };
  }

  /**
   * The back-end of a URL, until it is released; undefined when that is no http, https, ws or wss URL, or has a private
   * address and only public ones are reached.
   */
  backend(url: string, headers: Readonly<Record<string, string>> = {}): HttpBackend | undefined {
    if (!URL.canParse(url)) return undefined;
    const { protocol, origin, hostname } = new URL(url);
    const lookup = this.#lookup;
    if (lookup !== undefined && isPrivateHost(hostname)) return undefined;
    if (/^wss?:$/.test(protocol)) return new HttpBackend(url, headers, { origin: undefined, lookup });
    if (!/^https?:$/.test(protocol)) return undefined;
    return new HttpBackend(url, headers, { origin: this.#originOf(origin, hostHeaderOf(headers)), lookup });
  }

  /** @param host what the back-end's own `Host` header says, for whose name its certificate must be */
  #originOf(name: string, host: string | undefined): HttpOrigin {
    const key = host === undefined ? name : `${name} ${host}`;
    const known = this.#origins.get(key);
    if (known !== undefined) {
      known.users++;
      return known;
    }
    const { maxConnectionsPerOrigin: connections, connectTimeoutMs } = this.#options;
    const made: HttpOrigin = {
      name,
      key,
      users: 1,
      pool: new HttpPool(
        {
          origin: name,
          connections,
          maxQueued: connections * QUEUED_PER_CONNECTION,
          connectTimeoutMs,
          fields: RESPONSE_FIELDS,
          lookup: this.#lookup,
          servername: host === undefined ? undefined : servernameOf(host),
        },
        { clock: this.#clock },
      ),
      streams: new StreamSlots(Math.max(1, Math.floor(connections * STREAM_SHARE))),
    };
    this.#origins.set(key, made);
    return made;
  }

  /** The back-end is not used any more: connections that no other one shares are closed when what runs on them has ended. */
  release({ origin }: HttpBackend): void {
    if (origin === undefined || --origin.users > 0) return;
    this.#origins.delete(origin.key);
    origin.pool.close();
  }

  /** @inheritdoc */
  send(
    endpoint: Pick<SupplierEndpoint, "handle">,
    request: UpstreamRequest,
  ): Promise<UpstreamResponse | TransportFailure> {
    const backend = backendOf(endpoint);
    const { origin } = backend;
    if (origin === undefined) throw new AppError("INTERNAL", { message: "An HTTP request to a WebSocket's URL." });
    const { pool, streams } = origin;
    return exchange({ pool, streams, head: backend.headOf(request) }, request, this.#modules);
  }

  /** @inheritdoc */
  openSocket(
    endpoint: Pick<SupplierEndpoint, "handle">,
    request: SocketRequest,
  ): Promise<TransportSocket | TransportFailure> {
    return openWebSocket(backendOf(endpoint), request);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { pool } of this.#origins.values()) pool.destroy();
  }
}

function backendOf({ handle }: Pick<SupplierEndpoint, "handle">): HttpBackend {
  if (handle instanceof HttpBackend) return handle;
  throw new AppError("INTERNAL", { message: "An endpoint of another transport." });
}

/** The `Host` header among a back-end's own. */
function hostHeaderOf(headers: Readonly<Record<string, string>>): string | undefined {
  return Object.entries(headers).find(([name]) => name.toLowerCase() === "host")?.[1];
}

/** The name that a certificate must be for, of a `Host` header; empty for an address: the connection's own. */
function servernameOf(host: string): string {
  const name = host.replace(/:[0-9]*$/, "");
  return isIP(name) === 0 && !name.startsWith("[") ? name : "";
}

/** One text for equal origins, paths and headers. A hash, because URLs and headers hold keys. */
function keyOf(url: string, headers: Readonly<Record<string, string>>): string {
  const { origin, username, password, pathname, search } = new URL(url);
  const path = pathname.endsWith("/") ? pathname.slice(0, -1) : pathname;
  const sorted = Object.entries(headers)
    .map(([name, value]) => [name.toLowerCase(), value])
    .sort(([a = ""], [b = ""]) => (a < b ? -1 : 1));
  const text = JSON.stringify([origin, username, password, path, search, sorted]);
  return createHash("sha256").update(text).digest("base64url");
}
