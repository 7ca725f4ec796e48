import { isJSONRPCRequest, type RequestId, type Transport } from "@modelcontextprotocol/server";

/** Refusal of a request whose id is in flight. */
export const ID_IN_FLIGHT = "A request with this id is in flight in this session: use another id for each request.";

/**
 * Ids of one session's requests in flight. The SDK routes answers by id alone: of two requests in flight with one id, one
 * would have the answer of the other.
 */
export class RequestIds {
  /** True for an id whose request was handed to the server, which answers it or has it cancelled. */
  readonly #inFlight = new Map<RequestId, boolean>();

  /** Watches a transport that a server is connected to: an id is free again when its answer was sent, or it was cancelled. */
  watch(transport: Transport): void {
    const send = transport.send.bind(transport);
    transport.send = (message, options) => {
      if (("result" in message || "error" in message) && message.id !== undefined) this.#inFlight.delete(message.id);
      return send(message, options);
    };
    const dispatch = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if (isJSONRPCRequest(message)) this.#inFlight.set(message.id, true);
      // The SDK sends no answer to a request that was cancelled.
      else if ("method" in message && message.method === "notifications/cancelled") {
        this.#inFlight.delete(message.params?.requestId as RequestId);
      }
      dispatch?.(message, extra);
    };
  }

  isInFlight(id: RequestId): boolean {
    return this.#inFlight.has(id);
  }

  /** Acquires the id of a message where it is a request; false where that id is in flight. */
  begin(message: unknown): boolean {
    if (!isJSONRPCRequest(message)) return true;
    if (this.#inFlight.has(message.id)) return false;
    this.#inFlight.set(message.id, false);
    return true;
  }

  /** Releases the id of a message that was refused before the server had it, and is not answered. */
  end(message: unknown): void {
    if (isJSONRPCRequest(message) && this.#inFlight.get(message.id) === false) this.#inFlight.delete(message.id);
  }
}
