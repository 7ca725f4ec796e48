import type { McpServer, RequestId, Transport } from "@modelcontextprotocol/server";

/** Calls back when the result of a request has been handed over to its server's transport. */
export class Deliveries {
  readonly #callbacks = new Map<RequestId, () => void>();

  /** Watches what the server sends over transports that it is connected to from now on. */
  constructor(server: McpServer) {
    const connect = server.connect.bind(server);
    server.connect = (transport) => {
      this.#watch(transport);
      return connect(transport);
    };
  }

  /** Calls back when the result of this request is handed over: never where it is cancelled, or its connection is gone. */
  onDelivered(id: RequestId, signal: AbortSignal, callback: () => void): void {
    if (signal.aborted) return;
    this.#callbacks.set(id, callback);
    signal.addEventListener("abort", () => void this.#callbacks.delete(id), { once: true });
  }

  #watch(transport: Transport): void {
    const { onerror } = transport;
    const send = transport.send.bind(transport);
    // A transport reports what it cannot deliver as an error of its own: sending resolves nevertheless.
    let errors = 0;
    transport.onerror = (error) => {
      errors += 1;
      onerror?.(error);
    };
    transport.send = async (message, options) => {
      const errorsBefore = errors;
      const isAnswer = "result" in message || "error" in message;
      const id = isAnswer ? message.id : undefined;
      const callback = id === undefined ? undefined : this.#callbacks.get(id);
      // Taken out first: a connection of one request ends, and aborts it, as soon as the answer is handed over.
      if (id !== undefined) this.#callbacks.delete(id);
      await send(message, options);
      if ("result" in message && errors === errorsBefore) callback?.();
    };
  }
}
