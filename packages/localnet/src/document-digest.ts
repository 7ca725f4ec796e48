import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  AppError,
  bytesToHex,
  ConnectionGuard,
  createGuardedServer,
  createHostCheck,
  type ErrorCode,
  errorRow,
  isRecord,
  parseJson,
  utf8ToBytes,
} from "@turnpike/base";

/** Digests that can be asked for, by the names of `node:crypto`. */
export const DIGEST_ALGORITHMS = ["sha256", "sha512", "sha3-256", "blake2b512"] as const;
/** One of {@link DIGEST_ALGORITHMS}. */
export type DigestAlgorithm = (typeof DIGEST_ALGORITHMS)[number];

/** What the service answers. */
export interface DocumentDigest {
  /** Length in UTF-8. */
  readonly bytes: number;
  /** Unicode code points. */
  readonly characters: number;
  /** Runs of anything but white space. */
  readonly words: number;
  /** Line feeds, and one more when the text does not end with one. */
  readonly lines: number;
  /** Lower-case hex. */
  readonly digests: Readonly<Partial<Record<DigestAlgorithm, string>>>;
}

/** A running document-digest service. */
export interface DocumentDigestServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
}

const MAX_TEXT_CHARACTERS = 65_536;
// JSON may spell one character as twelve bytes: 😀
const MAX_BODY_BYTES = MAX_TEXT_CHARACTERS * 12 + 1_024;
const TIMEOUT_MS = 10_000;

const codePoints = (text: string): number => Array.from(text).length;

/** Counts and digests of a text. */
export function digestDocument(text: string, algorithms: readonly DigestAlgorithm[]): DocumentDigest {
  const bytes = utf8ToBytes(text);
  const feeds = text.split("\n").length - 1;
  return {
    bytes: bytes.length,
    characters: codePoints(text),
    words: text.match(/\S+/gu)?.length ?? 0,
    lines: feeds + (text === "" || text.endsWith("\n") ? 0 : 1),
    digests: Object.fromEntries(algorithms.map((name) => [name, bytesToHex(createHash(name).update(bytes).digest())])),
  };
}

function isAlgorithm(value: unknown): value is DigestAlgorithm {
  return DIGEST_ALGORITHMS.some((name) => name === value);
}

/** Reads a request's body; a string says what is wrong with it. */
function readRequest(body: Uint8Array): { text: string; algorithms: readonly DigestAlgorithm[] } | string {
  const parsed = parseJson(body);
  if (!parsed.ok || !isRecord(parsed.value)) return "Send one JSON object.";
  const { text, algorithms = ["sha256"], ...rest } = parsed.value;
  const unknown = Object.keys(rest)[0];
  if (unknown !== undefined) return `Unknown key ${JSON.stringify(unknown)}.`;
  if (typeof text !== "string" || text === "" || !text.isWellFormed())
    return "`text` must be a text that is not empty.";
  if (codePoints(text) > MAX_TEXT_CHARACTERS) return `\`text\` may have ${MAX_TEXT_CHARACTERS} characters at most.`;
  if (!Array.isArray(algorithms) || algorithms.length === 0 || !algorithms.every(isAlgorithm)) {
    return `\`algorithms\` must be a list of ${DIGEST_ALGORITHMS.join(", ")}.`;
  }
  return { text, algorithms: [...new Set(algorithms)] };
}

async function readBody(request: IncomingMessage): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function answer(response: ServerResponse, status: number, value: unknown): void {
  const body = JSON.stringify(value);
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

function refuse(response: ServerResponse, code: ErrorCode, message?: string): void {
  const row = errorRow(code);
  if (row.http === 413) response.setHeader("connection", "close");
  answer(response, row.http, { code, message: message ?? `${row.message} ${row.advice}` });
}

/** All are of this machine. */
const CONNECTIONS = { maxConnections: 256, maxConnectionsPerClient: 256 };

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = request.url?.split("?")[0];
  if (request.method === "GET" && path === "/health") return answer(response, 200, { status: "ok" });
  if (path !== "/" && path !== "/health") return refuse(response, "NOT_FOUND");
  if (path === "/health" || request.method !== "POST") {
    response.setHeader("allow", path === "/health" ? "GET" : "POST");
    return refuse(response, "VERB_NOT_ALLOWED");
  }
  const body = await readBody(request);
  if (body === undefined) return refuse(response, "BODY_TOO_LARGE");
  const wanted = readRequest(body);
  if (typeof wanted === "string") return refuse(response, "INVALID_PARAMS", wanted);
  answer(response, 200, digestDocument(wanted.text, wanted.algorithms));
}

/**
 * Starts the document-digest service on loopback: `POST /` with `{text, algorithms?}`. It is the back-end of the
 * service of that name under `up`, so that something other than a chain really answers.
 */
export async function createDocumentDigest(options: { readonly port?: number } = {}): Promise<DocumentDigestServer> {
  const hosts = createHostCheck({ host: "127.0.0.1" });
  const server = createGuardedServer(
    new ConnectionGuard(CONNECTIONS),
    { requestTimeout: TIMEOUT_MS, keepAliveTimeout: 30_000, maxHeaderSize: 16_384 },
    (request, response) => {
      const foreign = hosts.fault(request.headers);
      if (foreign !== undefined) return refuse(response, foreign);
      serve(request, response).catch(() => {
        if (response.headersSent) response.destroy();
        else refuse(response, "INTERNAL");
      });
    },
  );
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      reject(cause.code === "EADDRINUSE" ? new AppError("PORT_IN_USE", { cause }) : cause);
    });
    server.listen(options.port ?? 0, "127.0.0.1", resolve);
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
