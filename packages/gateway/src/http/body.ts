import type { ClientBytes, Deadlines, MaybePromise } from "@turnpike/base";
import { type AnyRequest, PlainRequest } from "./request.ts";

interface BodyLimits {
  readonly maxBytes: number;
  readonly timeoutMs: number;
  /** Called when the client waits for `100 Continue` and the body is wanted. */
  readonly wanted?: () => void;
}

/** A whole body, or why there is none. `gone`: the client left before its request was complete. */
export type BodyResult =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | {
      readonly ok: false;
      readonly reason:
        | "BODY_TOO_LARGE"
        | "REQUEST_TIMEOUT"
        | "UNSUPPORTED_MEDIA_TYPE"
        | "OVERLOADED"
        | "PAYMENT_RATE_LIMITED"
        | "gone";
    };

interface BodyModules {
  readonly budget: Pick<ClientBytes, "acquire" | "release">;
  readonly deadlines: Deadlines;
}

/**
 * Reads a body of at most `maxBytes` within `timeoutMs`. Bytes beyond a bound are never stored; the caller must close
 * the connection after any failure, since the rest of the body is still to come. What a failure held is released to
 * the budget here; after a success the caller releases `bytes.length` when it no longer holds the body.
 */
export function readBody(req: AnyRequest, limits: BodyLimits, modules: BodyModules): MaybePromise<BodyResult> {
  const encoding = req.headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    return { ok: false, reason: "UNSUPPORTED_MEDIA_TYPE" };
  }
  if (Number(req.headers["content-length"] ?? 0) > limits.maxBytes) {
    return { ok: false, reason: "BODY_TOO_LARGE" };
  }
  if (req instanceof PlainRequest) return wholeBody(req, modules);
  if (req.destroyed && !req.readableEnded) return { ok: false, reason: "gone" };
  const { budget, deadlines } = modules;
  return new Promise((resolve) => {
    let first: Buffer | undefined;
    let more: Buffer[] | undefined;
    let size = 0;
    let isDone = false;
    const finish = (result: BodyResult): void => {
      if (isDone) return;
      isDone = true;
      deadlines.cancel(deadline);
      if (!result.ok) budget.release(size);
      resolve(result);
    };
    const onData = (part: Buffer): void => {
      // What comes after a failure is not stored: the connection is closed, and the rest read away.
      if (isDone) return;
      if (size + part.length > limits.maxBytes) finish({ ok: false, reason: "BODY_TOO_LARGE" });
      else if (!budget.acquire(part.length)) finish({ ok: false, reason: "OVERLOADED" });
      else {
        size += part.length;
        if (first === undefined) first = part;
        else if (more === undefined) more = [first, part];
        else more.push(part);
      }
    };
    const deadline = deadlines.after(limits.timeoutMs, () => finish({ ok: false, reason: "REQUEST_TIMEOUT" }));
    // A broken upload is `gone`, which `close` reports; the error itself says nothing more.
    req.on("error", ignore);
    req.on("data", onData);
    req.on("end", () => finish({ ok: true, bytes: more === undefined ? (first ?? NOTHING) : Buffer.concat(more) }));
    req.on("close", () => finish({ ok: false, reason: "gone" }));
    limits.wanted?.();
  });
}

/** The body of a plain request, which is here already. */
function wholeBody({ body }: PlainRequest, { budget }: BodyModules): BodyResult {
  return budget.acquire(body.length) ? { ok: true, bytes: body } : { ok: false, reason: "OVERLOADED" };
}

const NOTHING = Buffer.alloc(0);

function ignore(): void {}
