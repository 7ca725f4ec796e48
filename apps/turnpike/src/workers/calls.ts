import { AppError, ERRORS, type ErrorCode, isAppError, isRecord } from "@turnpike/base";
import type { Port } from "@turnpike/gateway";

/** What one end does when the other calls it. What it throws reaches the caller. */
export type CallHandler = (body: unknown) => unknown;

/** Calls with answers over a port. */
export interface Calls {
  /**
   * Calls the other end.
   * @throws AppError what it threw; PART_FAILED when it does not answer in time, or is gone.
   */
  call(name: string, body: unknown, timeoutMs: number): Promise<unknown>;
  /** Rejects all calls that wait: the other end is gone. */
  close(): void;
}

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: AppError) => void;
  readonly timer: NodeJS.Timeout;
}

function errorToWire(error: unknown): Readonly<Record<string, unknown>> {
  if (!isAppError(error)) return { code: "INTERNAL", message: String(error) };
  const { faults } = error.detail;
  return { code: error.code, message: error.message, ...(Array.isArray(faults) ? { faults } : {}) };
}

function wireToError(wire: unknown): AppError {
  const { code, message, faults } = isRecord(wire) ? wire : {};
  const known = typeof code === "string" && Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : "INTERNAL";
  return new AppError(known, {
    message: typeof message === "string" ? message : "A part failed.",
    ...(Array.isArray(faults) ? { detail: { faults } } : {}),
  });
}

/** Calls over one port, in both directions. */
export function createCalls(port: Port, handlers: Readonly<Record<string, CallHandler>>): Calls {
  const pending = new Map<number, Pending>();
  let nextId = 1;

  const settle = (id: number): Pending | undefined => {
    const found = pending.get(id);
    pending.delete(id);
    clearTimeout(found?.timer);
    return found;
  };

  const serve = async (id: number, name: string, body: unknown): Promise<void> => {
    const handler = Object.hasOwn(handlers, name) ? handlers[name] : undefined;
    try {
      if (handler === undefined) throw new AppError("INTERNAL", { message: `There is no call ${name}.` });
      port.send({ to: "answer", id, value: (await handler(body)) ?? null });
    } catch (error) {
      port.send({ to: "answer", id, error: errorToWire(error) });
    }
  };

  port.subscribe((message) => {
    if (!isRecord(message) || typeof message.id !== "number") return;
    const { to, id, name, body, value, error } = message;
    if (to === "call" && typeof name === "string") void serve(id, name, body);
    else if (to === "answer" && error !== undefined) settle(id)?.reject(wireToError(error));
    else if (to === "answer") settle(id)?.resolve(value);
  });

  return {
    call(name, body, timeoutMs) {
      const id = nextId++;
      const { promise, resolve, reject } = Promise.withResolvers<unknown>();
      const fail = (message: string): void => settle(id)?.reject(new AppError("PART_FAILED", { message }));
      const timer = setTimeout(fail, timeoutMs, `A worker did not answer ${name} within ${timeoutMs} ms.`);
      pending.set(id, { resolve, reject, timer });
      if (!port.send({ to: "call", id, name, body })) fail(`A worker cannot be reached for ${name}.`);
      return promise;
    },
    close() {
      for (const id of pending.keys()) {
        settle(id)?.reject(new AppError("PART_FAILED", { message: "A worker ended before it answered." }));
      }
    },
  };
}
