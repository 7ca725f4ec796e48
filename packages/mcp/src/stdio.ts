import type { Readable, Writable } from "node:stream";
import type { RequestId } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Log } from "@turnpike/base";
import { StreamSink } from "./deliveries.ts";
import { INVALID_REQUEST } from "./http-guard.ts";
import { MessageLines } from "./message-lines.ts";
import { ID_IN_FLIGHT, RequestIds } from "./request-ids.ts";
import { createMcpServer } from "./server.ts";
import type { McpServerModules, McpServerOptions } from "./types.ts";

/** Maximum number of bytes of one message. */
const MAX_MESSAGE_BYTES = 2 * 1_048_576;
/** The transport's own bound, above which it ends the session: no line that it gets reaches it. */
const MAX_BUFFER_BYTES = 2 * MAX_MESSAGE_BYTES;

/** A server on a pair of streams. */
export interface McpStdioServer extends AsyncDisposable {
  /** Resolves when the other end has gone. */
  readonly closed: Promise<void>;
}

/** The streams are the process's own by default. */
export interface McpStdioModules extends McpServerModules {
  readonly input?: Readable;
  readonly output?: Writable;
}

const kindOf = (error: Error): string => error.name;

function logged(log: Log): (error: Error) => void {
  return (error) => log.warn({ kind: kindOf(error) }, "a message could not be served");
}

/**
 * Serves one client over standard input and output: the whole process is one session. Nothing else may write to the
 * output.
 */
export function serveMcpStdio(opts: McpServerOptions, modules: McpStdioModules): McpStdioServer {
  const { input = process.stdin, output = process.stdout, log } = modules;
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  const gone = (): void => resolve();
  for (const event of ["end", "close", "error"]) input.once(event, gone);
  for (const event of ["close", "error"]) output.once(event, gone);
  const stopping = new AbortController();
  const signals = [stopping.signal, ...(modules.stopping === undefined ? [] : [modules.stopping])];
  const sink = new StreamSink(output);
  const inner = { ...modules, stopping: AbortSignal.any(signals), sinkOf: () => sink };
  const ids = new RequestIds();
  const refuse = (reason: string, id?: RequestId): void => {
    const error = { code: INVALID_REQUEST, message: reason };
    transport.send({ jsonrpc: "2.0", ...(id === undefined ? {} : { id }), error }).catch(logged(log));
  };
  const lines = new MessageLines(MAX_MESSAGE_BYTES, ({ reason, id }) => {
    refuse(`The message ${reason}; nothing was signed.`, id === undefined || ids.isInFlight(id) ? undefined : id);
  });
  input.pipe(lines);
  // A stream that breaks does not end what it is piped to.
  for (const event of ["close", "error"]) input.once(event, () => lines.end());
  if (input.readableEnded || input.destroyed) lines.end();
  const transport = new StdioServerTransport(lines, output, { maxBufferSize: MAX_BUFFER_BYTES });
  const handle = serveStdio(() => createMcpServer(opts, inner), {
    transport,
    onerror: logged(log),
    maxSubscriptions: 16,
  });
  ids.watch(transport);
  const dispatch = transport.onmessage;
  transport.onmessage = (message) => {
    if (ids.begin(message)) {
      dispatch?.(message);
      return;
    }
    refuse(ID_IN_FLIGHT);
  };
  const close = transport.onclose;
  transport.onclose = () => {
    close?.();
    input.unpipe(lines);
    if (input.listenerCount("data") === 0) input.pause();
    resolve();
  };
  // No answer can be delivered any more; a payment that was signed stays open, in the journal.
  void closed.then(() => stopping.abort());
  return {
    closed,
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await handle.close();
    },
  };
}
