import { AppError } from "@turnpike/base";
import { type Answer, readAnswer } from "./answers.ts";

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

/** Holds that a text can be a service's id. @throws AppError USAGE. */
export function assertService(service: string): void {
  if (SERVICE.test(service)) return;
  throw new AppError("USAGE", { message: `${JSON.stringify(service)} is no service id; nothing was signed.` });
}

/** The error of a gateway that does not answer, while nothing was signed. */
export function unreachable(gateway: string, cause: unknown): AppError {
  return new AppError("GATEWAY_UNREACHABLE", {
    message: `The gateway at ${gateway} cannot be reached; nothing was signed.`,
    cause,
  });
}

/** Makes the {@link Send} of a gateway. No redirect is followed: a payment goes to whom it was meant for. */
export function createSend(
  opts: { readonly gateway: string; readonly requestTimeoutMs: number },
  modules: { readonly fetch: typeof globalThis.fetch },
): Send {
  return async ({ service, body, signal }, payment) => {
    const signals = [AbortSignal.timeout(opts.requestTimeoutMs)];
    if (signal !== undefined) signals.push(signal);
    const response = await modules.fetch(`${opts.gateway}/v1/${service}`, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        accept: "application/json",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(payment === undefined ? {} : { "payment-signature": payment }),
      },
      body: body ?? null,
      redirect: "error",
      signal: AbortSignal.any(signals),
    });
    return readAnswer(response);
  };
}
