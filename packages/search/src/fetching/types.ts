import type { ResolveHost } from "@turnpike/base";

/** Why nothing was fetched. Each is a plain outcome, never an exception. */
export type FetchFault =
  /** No absolute URL, or longer than is taken. */
  | "bad_url"
  /** Neither http nor https. */
  | "scheme"
  /** The URL holds a user name or a password. */
  | "credentials"
  /** A port that other protocols use, such as mail. */
  | "port"
  /** It leads to an address that is not of the public internet. */
  | "private_address"
  /** The name has no address. */
  | "unresolved"
  /** The connection was refused, or the network does not route to it. */
  | "connect"
  /** The certificate or the handshake is bad. */
  | "tls"
  /** Not whole within the time. */
  | "timeout"
  /** The connection broke before the end. */
  | "reset"
  /** What came is not HTTP. */
  | "protocol"
  /** The head is larger than is taken. */
  | "headers_too_large"
  /** Larger than is taken, compressed or decompressed. */
  | "too_large"
  /** The content coding is unknown or broken. */
  | "encoding"
  /** A media type that was not asked for. */
  | "type"
  /** A redirect without a readable target. */
  | "bad_redirect"
  /** A redirect to an address that was already asked. */
  | "redirect_loop"
  | "too_many_redirects"
  /** Neither 200 nor 304 nor a redirect; see `status`. */
  | "status"
  /** The caller's signal. */
  | "aborted";

/** What is fetched, and what is taken of it. */
export interface FetchRequest {
  readonly url: string;
  /** Media types that are taken, in lower case without parameters; undefined takes all. An answer without a type is taken. */
  readonly types?: readonly string[] | undefined;
  /** Instead of the fetcher's own: largest body, decompressed and compressed, in bytes. */
  readonly maxBytes?: number | undefined;
  /** Instead of the fetcher's own: longest time in all, redirects and body too, in milliseconds. */
  readonly timeoutMs?: number | undefined;
  /** Instead of the fetcher's own. 0 hands redirects back as answers (`location`). */
  readonly maxRedirects?: number | undefined;
  /** `ETag` of the copy that is held. */
  readonly etag?: string | undefined;
  /** `Last-Modified` of the copy that is held, as it was sent. */
  readonly modified?: string | undefined;
  /** Takes the decompressed body piece by piece instead of `body`; true ends the reading. */
  readonly sink?: ((piece: Uint8Array) => boolean) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An answer: 200, 304, or a redirect that was not followed. */
export interface FetchAnswer {
  readonly ok: true;
  readonly status: number;
  /** Where it came from in the end. */
  readonly url: string;
  /** Redirects that were followed. */
  readonly redirects: number;
  /** Decompressed; empty unless the status is 200, and with a sink. */
  readonly body: Uint8Array;
  /** As sent, with parameters. */
  readonly contentType: string | undefined;
  readonly etag: string | undefined;
  readonly modified: string | undefined;
  /** Values of `X-Robots-Tag`, one a header line. */
  readonly robotsTags: readonly string[];
  /** Where a redirect that was not followed leads, absolute. */
  readonly location: string | undefined;
}

/** No answer that can be used. */
export interface FetchFailure {
  readonly ok: false;
  readonly reason: FetchFault;
  /** The address that failed: the redirect's target when a redirect led there. */
  readonly url: string;
  /** HTTP status, where there was one. */
  readonly status?: number;
  /** What `Retry-After` asks for, in milliseconds. */
  readonly retryAfterMs?: number;
}

/** What a fetch came to. */
export type FetchResult = FetchAnswer | FetchFailure;

/** Fetches from untrusted servers; never rejects. */
export interface SafeFetcher extends AsyncDisposable {
  fetch(request: FetchRequest): Promise<FetchResult>;
}

/** Bounds of a fetcher. */
export interface SafeFetcherOptions {
  readonly userAgent: string;
  /** Longest time of one fetch in all: names, connections, redirects and body. */
  readonly timeoutMs: number;
  /** Largest body, compressed and decompressed each, in bytes. */
  readonly maxBytes: number;
  readonly maxRedirects: number;
  /** True: private addresses are fetched too. A list: those origins only, such as `http://127.0.0.1:8000`. */
  readonly allowPrivate: boolean | readonly string[];
  /** Largest head of an answer, in bytes. Default: 32,768. */
  readonly maxHeaderBytes?: number;
}

export interface SafeFetcherModules {
  /** Default: the system's resolver. */
  readonly resolve?: ResolveHost;
  /** Milliseconds since the Unix epoch, for `Retry-After` dates. */
  readonly clock: { nowMs(): number };
}
