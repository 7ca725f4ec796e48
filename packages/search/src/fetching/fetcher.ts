import { AppError, isAppError } from "@turnpike/base";
import type { Agent, Dispatcher } from "undici";
import { createSafeAgent, PRIVATE_ADDRESS, UNRESOLVED } from "./connecting.ts";
import { ACCEPT_ENCODING, codingsOf, decode } from "./decoding.ts";
import { checkTarget } from "./targets.ts";
import type {
  FetchAnswer,
  FetchFailure,
  FetchFault,
  FetchRequest,
  FetchResult,
  SafeFetcher,
  SafeFetcherModules,
  SafeFetcherOptions,
} from "./types.ts";

const MAX_HEADER_BYTES = 32_768;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const NO_BYTES = new Uint8Array(0);

/** Ends the reading of a body. */
const broken = (mark: FetchFault): AppError => new AppError("SOURCE_REFUSED", { detail: { mark } });

const FAULT_OF_CODE: Readonly<Record<string, FetchFault>> = {
  UND_ERR_CONNECT_TIMEOUT: "timeout",
  UND_ERR_HEADERS_TIMEOUT: "timeout",
  UND_ERR_BODY_TIMEOUT: "timeout",
  UND_ERR_HEADERS_OVERFLOW: "headers_too_large",
  UND_ERR_SOCKET: "reset",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "reset",
  ECONNRESET: "reset",
  EPIPE: "reset",
  ECONNREFUSED: "connect",
  EHOSTUNREACH: "connect",
  ENETUNREACH: "connect",
  EADDRNOTAVAIL: "connect",
  EACCES: "connect",
  EPROTO: "tls",
  ETIMEDOUT: "timeout",
};

function faultOf(error: unknown): FetchFault {
  if (isAppError(error)) {
    const { mark } = error.detail;
    if (mark === PRIVATE_ADDRESS) return "private_address";
    return mark === UNRESOLVED ? "unresolved" : (mark as FetchFault);
  }
  if (error instanceof AggregateError) return faultOf(error.errors[0]);
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const known = FAULT_OF_CODE[code];
  if (known !== undefined) return known;
  if (code.startsWith("HPE_")) return code === "HPE_HEADER_OVERFLOW" ? "headers_too_large" : "protocol";
  if (/^(Z_|ERR_BROTLI|ERR__ERROR_FORMAT|ERR_ZLIB|ZSTD_|ERR_PADDING|ERR_STREAM_PREMATURE_CLOSE)/.test(code))
    return "encoding";
  if (/CERT|SSL|TLS|ISSUER|SELF_SIGNED/.test(code)) return "tls";
  return "protocol";
}

function one(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === "string" ? value : value?.[0];
}

function all(value: string | readonly string[] | undefined): readonly string[] {
  return value === undefined ? [] : typeof value === "string" ? [value] : value;
}

/** The media type of a `Content-Type`, in lower case without parameters. */
function mediaTypeOf(contentType: string | undefined): string {
  return (contentType ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
}

/** `Retry-After` in milliseconds from now: seconds, or a date. */
function retryAfterMs(value: string | undefined, nowMs: number): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1_000;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

/** A valid and short header value, else undefined: these values come from untrusted servers and are sent back to them. */
const headerValue = (value: string): string | undefined =>
  /^[\x20-\x7e\x80-\xff]{1,512}$/.test(value) ? value : undefined;

/** One GET after the other, each within all the bounds. */
class Fetcher implements SafeFetcher {
  readonly #options: SafeFetcherOptions;
  readonly #modules: SafeFetcherModules;
  readonly #agent: Agent;

  constructor(options: SafeFetcherOptions, modules: SafeFetcherModules) {
    const { timeoutMs, allowPrivate, maxHeaderBytes = MAX_HEADER_BYTES } = options;
    this.#options = options;
    this.#modules = modules;
    this.#agent = createSafeAgent({ timeoutMs: timeoutMs * 4, maxHeaderBytes, allowPrivate }, modules.resolve);
  }

  async fetch(request: FetchRequest): Promise<FetchResult> {
    const over = new AbortController();
    const timer = setTimeout(() => over.abort(broken("timeout")), request.timeoutMs ?? this.#options.timeoutMs);
    const stop = (): void => over.abort(broken("aborted"));
    request.signal?.addEventListener("abort", stop, { once: true });
    if (request.signal?.aborted === true) stop();
    try {
      return await this.#follow(request, over.signal);
    } finally {
      clearTimeout(timer);
      request.signal?.removeEventListener("abort", stop);
    }
  }

  async #follow(request: FetchRequest, signal: AbortSignal): Promise<FetchResult> {
    const limit = request.maxRedirects ?? this.#options.maxRedirects;
    const asked = new Set<string>();
    let text = request.url;
    let base: string | undefined;
    for (let redirects = 0; ; redirects++) {
      const target = checkTarget(text, base, this.#options.allowPrivate);
      if (!target.ok) return { ok: false, reason: target.reason, url: text.slice(0, 2_048) };
      const { href } = target.url;
      if (asked.has(href)) return { ok: false, reason: "redirect_loop", url: href };
      asked.add(href);
      const result = await this.#ask(request, target.url, redirects, signal);
      if (!result.ok || !REDIRECTS.has(result.status) || limit === 0) return result;
      if (redirects >= limit) return { ok: false, reason: "too_many_redirects", url: href };
      text = result.location ?? "";
      base = href;
    }
  }

  async #ask(request: FetchRequest, url: URL, redirects: number, signal: AbortSignal): Promise<FetchResult> {
    let answer: Dispatcher.ResponseData | undefined;
    try {
      answer = await this.#agent.request({
        origin: url.origin,
        path: `${url.pathname}${url.search}`,
        method: "GET",
        headers: this.#headers(request),
        signal,
      });
      // Whatever comes after the end of interest is of no interest.
      answer.body.on("error", () => {});
      return await this.#read(request, url, redirects, answer);
    } catch (error) {
      const reason = signal.aborted ? faultOf(signal.reason) : faultOf(error);
      return { ok: false, reason, url: url.href };
    } finally {
      answer?.body.destroy();
    }
  }

  #headers(request: FetchRequest): Record<string, string> {
    const etag = request.etag === undefined ? undefined : headerValue(request.etag);
    const modified = request.modified === undefined ? undefined : headerValue(request.modified);
    return {
      "user-agent": this.#options.userAgent,
      accept: request.types === undefined ? "*/*" : [...request.types, "*/*;q=0.1"].join(", "),
      "accept-encoding": ACCEPT_ENCODING,
      ...(etag === undefined ? {} : { "if-none-match": etag }),
      ...(modified === undefined ? {} : { "if-modified-since": modified }),
    };
  }

  async #read(
    request: FetchRequest,
    url: URL,
    redirects: number,
    { statusCode: status, headers, body }: Dispatcher.ResponseData,
  ): Promise<FetchResult> {
    const failed = (reason: FetchFault): FetchFailure => ({ ok: false, reason, url: url.href, status });
    const contentType = one(headers["content-type"]);
    const facts = {
      ok: true,
      status,
      url: url.href,
      redirects,
      body: NO_BYTES,
      contentType,
      etag: one(headers.etag),
      modified: one(headers["last-modified"]),
      robotsTags: all(headers["x-robots-tag"]),
      location: undefined,
    } as const satisfies FetchAnswer;
    if (REDIRECTS.has(status)) {
      const location = one(headers.location);
      const to = location === undefined ? null : URL.parse(location, url.href);
      return to === null ? failed("bad_redirect") : { ...facts, location: to.href };
    }
    if (status === 304) return facts;
    if (status !== 200) {
      const waitMs = retryAfterMs(one(headers["retry-after"]), this.#modules.clock.nowMs());
      return { ...failed("status"), ...(waitMs === undefined ? {} : { retryAfterMs: waitMs }) };
    }
    const type = mediaTypeOf(contentType);
    if (type !== "" && request.types !== undefined && !request.types.includes(type)) return failed("type");
    const maxBytes = request.maxBytes ?? this.#options.maxBytes;
    const length = Number(one(headers["content-length"]) ?? 0);
    if (length > maxBytes && request.sink === undefined) return failed("too_large");
    const codings = codingsOf(all(headers["content-encoding"]).join(","));
    if (codings === undefined) return failed("encoding");
    let pieces: AsyncIterable<Uint8Array> = bounded(body, maxBytes);
    for (const coding of codings) pieces = bounded(decode(pieces, coding), maxBytes);
    return { ...facts, body: await collect(pieces, request.sink) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy();
  }
}

async function* bounded(source: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of source) {
    bytes += piece.length;
    if (bytes > maxBytes) throw broken("too_large");
    yield piece;
  }
}

async function collect(pieces: AsyncIterable<Uint8Array>, sink: FetchRequest["sink"]): Promise<Uint8Array> {
  const kept: Uint8Array[] = [];
  for await (const piece of pieces) {
    if (sink === undefined) kept.push(piece);
    else if (sink(piece)) return NO_BYTES;
  }
  return sink === undefined ? new Uint8Array(Buffer.concat(kept)) : NO_BYTES;
}

/**
 * Makes a fetcher for untrusted addresses: GET only; http and https only; no credentials, cookies or
 * private addresses, at any hop; time and size bounded, compressed and decompressed.
 */
export function createSafeFetcher(options: SafeFetcherOptions, modules: SafeFetcherModules): SafeFetcher {
  return new Fetcher(options, modules);
}
