import { ACCEPT_GZIP, AppError, redacted, visibleLine } from "@turnpike/base";
import { type Answer, type AnswerLimits, readAnswer } from "./answers.ts";

/** One request of a call. */
export interface Request {
  /** Id of the service, with an appended path and query where it has such. */
  readonly service: string;
  /** JSON text; undefined sends a GET. */
  readonly body: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Sends a request, with a payment where there is one. Rejects when no whole answer comes. */
export type Send = (request: Request, payment?: string) => Promise<Answer>;

const SERVICE = /^[a-z0-9][a-z0-9-]*(?:[/?][\x21-\x7e]*)?$/;
/** Maximum length of a service's id with its path and query: heads of requests are bounded, and so are lines of a journal. */
const MAX_SERVICE_LENGTH = 8_192;
/** Times that a server and its proxies may decode a path, each the other's result. */
const MAX_DECODINGS = 4;
const DOT_SEGMENT = /(?:^|[/\\])\.{1,2}(?:[/\\]|$)/;

/** The path with its escapes decoded once; what is no UTF-8 stays. */
function decodedOnce(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path.replace(/%(2[ef]|5c|25)/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  }
}

/** True when a path leads above where it begins, for one who decodes it or does not. */
function leavesItsService(path: string): boolean {
  let text = path;
  for (let times = 0; times <= MAX_DECODINGS; times++) {
    if (DOT_SEGMENT.test(text)) return true;
    const next = decodedOnce(text);
    if (next === text) return false;
    text = next;
  }
  return true;
}

/** The body of a call: text as it stands, anything else as JSON. @throws AppError USAGE. */
export function bodyOf(request: unknown): string | undefined {
  if (request === undefined || typeof request === "string") return request;
  let text: string | undefined;
  try {
    text = JSON.stringify(request);
  } catch (cause) {
    throw new AppError("USAGE", { message: "The request cannot be written as JSON; nothing was signed.", cause });
  }
  if (text === undefined) throw new AppError("USAGE", { message: "The request is no JSON value; nothing was signed." });
  return text;
}

/** Holds that a text can be a service's id, with a path and query of that service. @throws AppError USAGE. */
export function assertService(service: string): void {
  const refused = (why: string): AppError =>
    new AppError("USAGE", {
      message: `${JSON.stringify(visibleLine(service, 100))} ${why}; nothing was signed.`,
    });
  if (service.length > MAX_SERVICE_LENGTH) throw refused(`is longer than ${MAX_SERVICE_LENGTH} characters`);
  // A fragment is not sent: what was named would not be what is asked.
  if (!SERVICE.test(service) || service.includes("#")) throw refused("is no service id");
  const [path = ""] = service.split("?", 1);
  if (path.includes("\\") || leavesItsService(path)) throw refused("has a path that leaves its service");
}

/** The error of a gateway that does not answer, while nothing was signed. */
export function unreachable(gateway: string, cause: unknown): AppError {
  return new AppError("GATEWAY_UNREACHABLE", {
    message: `The gateway at ${redacted(gateway)} cannot be reached; nothing was signed.`,
    cause,
  });
}

/** Makes the {@link Send} of a gateway. No redirect is followed: a payment goes to whom it was meant for. */
export function createSend(
  opts: { readonly gateway: string; readonly requestTimeoutMs: number; readonly limits: AnswerLimits },
  modules: { readonly fetch: typeof globalThis.fetch },
): Send {
  return async ({ service, body, signal }, payment) => {
    const signals = [AbortSignal.timeout(opts.requestTimeoutMs)];
    if (signal !== undefined) signals.push(signal);
    const response = await modules.fetch(`${opts.gateway}/v1/${service}`, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        accept: "application/json",
        ...ACCEPT_GZIP,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(payment === undefined ? {} : { "payment-signature": payment }),
      },
      body: body ?? null,
      redirect: "error",
      signal: AbortSignal.any(signals),
    });
    return readAnswer(response, opts.limits);
  };
}
