import type { LookupFunction } from "node:net";
import { AppError, type Clock, Deadlines, isPrivateHost, type ResolveHost } from "@turnpike/base";
import { basicAuth, pathBelow } from "./backend-url.ts";
import type { ByteBudget } from "./byte-budget.ts";
import { grpcExchange } from "./grpc-exchange.ts";
import { GrpcOrigin } from "./grpc-origin.ts";
import { publicLookup } from "./public-lookup.ts";
import type {
  SupplierEndpoint,
  SupplierTransport,
  TransportFailure,
  TransportSocket,
  UpstreamRequest,
  UpstreamResponse,
} from "./transport.ts";

export interface GrpcTransportOptions {
  /** The unary method that every request calls: `/package.Service/Method`. */
  readonly method: string;
  readonly connectTimeoutMs: number;
  /** Calls to one origin at once, over few connections; more wait. */
  readonly maxCallsPerOrigin: number;
  /** True: private addresses are not reached, for URLs that others chose; false by default. */
  readonly isPublicOnly?: boolean;
  /** Time after which a connection without a call is closed; 30,000 by default. */
  readonly idleTimeoutMs?: number;
}

interface GrpcTransportModules {
  readonly clock: Clock;
  /** Bounds the bytes of answers that are held while they arrive, with those of other transports. */
  readonly budget: ByteBudget;
  /** Resolves names where only public addresses are reached; the system's by default. */
  readonly resolve?: ResolveHost;
}

const IDLE_TIMEOUT_MS = 30_000;
/** Time-outs come so late at most. */
const DEADLINE_STEP_MS = 10;

/** A server by its URL: the handle of an endpoint that {@link GrpcTransport} reaches. */
export class GrpcBackend {
  /** As given. */
  readonly url: string;
  readonly origin: GrpcOrigin;
  /** Resolves its host; undefined: as the system does. */
  readonly lookup: LookupFunction | undefined;
  /** Sent with every call; names in lower case. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly #url: URL;

  constructor(url: string, { origin, lookup }: Pick<GrpcBackend, "origin" | "lookup">) {
    this.url = url;
    this.origin = origin;
    this.lookup = lookup;
    this.#url = new URL(url);
    this.metadata = { "user-agent": "turnpike", ...basicAuth(this.#url) };
  }

  /** The path and query of its URL with what is appended. A call goes to its method, not there. */
  pathOf(appended: string): string {
    return pathBelow(this.#url, appended);
  }
}

/** Reaches servers by their URLs over gRPC: each request is one unary call. Those at one origin share their connections. */
export class GrpcTransport implements SupplierTransport, AsyncDisposable {
  readonly #options: GrpcTransportOptions;
  readonly #origins = new Map<string, GrpcOrigin>();
  readonly #modules: { readonly budget: ByteBudget; readonly deadlines: Deadlines };
  readonly #lookup: LookupFunction | undefined;

  constructor(options: GrpcTransportOptions, { clock, budget, resolve }: GrpcTransportModules) {
    this.#options = options;
    this.#lookup = options.isPublicOnly === true ? publicLookup(resolve) : undefined;
    this.#modules = { budget, deadlines: new Deadlines({ stepMs: DEADLINE_STEP_MS }, { clock }) };
  }

  /**
   * The server of a URL, until it is released: with TLS for https, without for http. Undefined when it is neither, or has
   * a private address and only public ones are reached.
   */
  backend(url: string): GrpcBackend | undefined {
    if (!URL.canParse(url)) return undefined;
    const { protocol, origin, hostname } = new URL(url);
    const lookup = this.#lookup;
    if (lookup !== undefined && isPrivateHost(hostname)) return undefined;
    if (!/^https?:$/.test(protocol)) return undefined;
    return new GrpcBackend(url, { origin: this.#originOf(origin), lookup });
  }

  #originOf(name: string): GrpcOrigin {
    const known = this.#origins.get(name);
    if (known !== undefined) {
      known.users++;
      return known;
    }
    const { maxCallsPerOrigin: maxCalls, connectTimeoutMs, idleTimeoutMs = IDLE_TIMEOUT_MS } = this.#options;
    const made = new GrpcOrigin(
      { name, maxCalls, connectTimeoutMs, idleTimeoutMs },
      { deadlines: this.#modules.deadlines, lookup: this.#lookup },
    );
    this.#origins.set(name, made);
    return made;
  }

  /** The server is not used any more: connections that no other one shares are closed when what runs on them has ended. */
  release({ origin }: GrpcBackend): void {
    if (--origin.users > 0) return;
    this.#origins.delete(origin.name);
    origin.close();
  }

  /**
   * Calls the method with the request's body as its message and its headers as metadata. A status other than success comes
   * back as the HTTP status that says the same, with its text as the body.
   */
  send(
    { handle }: Pick<SupplierEndpoint, "handle">,
    request: UpstreamRequest,
  ): Promise<UpstreamResponse | TransportFailure> {
    if (!(handle instanceof GrpcBackend)) {
      throw new AppError("INTERNAL", { message: "An endpoint of another transport." });
    }
    const { origin } = handle;
    const metadata = { ...handle.metadata, ...request.headers };
    return grpcExchange({ origin, path: this.#options.method, metadata }, request, this.#modules);
  }

  /** There are no WebSockets over gRPC. */
  openSocket(): Promise<TransportSocket | TransportFailure> {
    return Promise.resolve({ ok: false, blame: "wire", reason: "connection", isNotSent: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const origin of this.#origins.values()) origin.destroy();
  }
}
