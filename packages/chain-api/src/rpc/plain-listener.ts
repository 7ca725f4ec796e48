import type { Server } from "node:http";
import type { Clock, ConnectionGuard, HostCheck, Log } from "@turnpike/base";
import { FastListener, type FastRequest, type FastResponse, fastListenerDefaults } from "@turnpike/http1";
import type { RpcBounds } from "./bounds.ts";
import { bodyBytes, type HttpAnswer, type RpcHttpHandler } from "./http-handler.ts";

/** The RPC server whose requests the listener shortens: its `node:http` server, its handler, and its checks. */
export interface PlainRpcListenerModules {
  /** Gets every request that is not plain JSON-RPC by POST, and its connection with it. */
  readonly server: Server;
  readonly guard: ConnectionGuard;
  readonly handler: RpcHttpHandler;
  readonly hosts: HostCheck;
  readonly log: Log;
  readonly clock: Clock;
}

/** The part of the bound of bodies that are being received that plain requests have; the server has the rest. */
export function plainHeldBytes({ maxBufferedBodyBytes }: RpcBounds): number {
  return Math.min(fastListenerDefaults.maxHeldBytes, Math.floor(maxBufferedBodyBytes / 2));
}

function send(response: FastResponse, answer: HttpAnswer, fields: string, writeTimeoutMs: number): void {
  const { status, body, release } = answer;
  const { socket } = response;
  const tooSlow = setTimeout(() => socket?.destroy(), writeTimeoutMs);
  const onSent = (): void => {
    clearTimeout(tooSlow);
    release?.();
  };
  response.send(status, fields, bodyBytes(body), { onSent });
}

/**
 * Listens in the place of a `node:http` server, and answers plain JSON-RPC by a shorter way: what clients send most. A request
 * for another address, of a foreign host or page, of another form or too large meets the server as if this were not there.
 */
export function createPlainRpcListener(
  bounds: RpcBounds,
  { server, guard, handler, hosts, log, clock }: PlainRpcListenerModules,
): FastListener {
  const handle = (request: FastRequest): boolean => {
    const { response } = request;
    const { socket } = response;
    if (socket === undefined || request.target() !== "/" || request.bodyEnd === request.bodyStart) return false;
    const origin = request.field("origin");
    const host = request.field("host") ?? "";
    if (hosts.fault(origin === undefined ? { host } : { host, origin }) !== undefined) return false;
    const gone = new AbortController();
    response.onAbort = () => gone.abort();
    handler.answerPost(request.body(), handler.askerOf(socket, gone.signal)).then(
      (answer) => {
        if (!response.isOpen) answer.release?.();
        else send(response, answer, handler.fieldLines(answer), bounds.writeTimeoutMs);
      },
      (error: unknown) => {
        log.error({ error }, "RPC request failed");
        socket.destroy();
      },
    );
    return true;
  };
  return new FastListener(
    {
      ...fastListenerDefaults,
      maxHeadBytes: Math.min(fastListenerDefaults.maxHeadBytes, bounds.maxHeadBytes),
      maxBodyBytes: Math.min(fastListenerDefaults.maxBodyBytes, bounds.maxBodyBytes),
      maxHeldBytes: plainHeldBytes(bounds),
      fields: ["origin"],
    },
    { server, handle, admit: (socket, idleMs) => guard.admit(socket, idleMs), clock },
  );
}
