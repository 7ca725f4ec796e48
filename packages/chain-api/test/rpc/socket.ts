import { once } from "node:events";
import { WebSocket } from "ws";

/** A WebSocket client whose messages are taken one by one, as JSON. */
export class TestSocket implements AsyncDisposable {
  readonly socket: WebSocket;
  private readonly messages: unknown[] = [];
  private wake = (): void => {};

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data) => {
      this.messages.push(JSON.parse(Buffer.isBuffer(data) ? data.toString() : "null"));
      this.wake();
    });
    socket.on("close", () => this.wake());
  }

  /** Connects to a server by its HTTP address. */
  static async connect(url: string): Promise<TestSocket> {
    const socket = new WebSocket(`${url.replace(/^http/, "ws")}/websocket`);
    const client = new TestSocket(socket);
    await once(socket, "open");
    return client;
  }

  /** Sends a text, or a value as JSON. */
  send(message: unknown): void {
    this.socket.send(typeof message === "string" ? message : JSON.stringify(message));
  }

  /** True when a message that fits has come already. */
  has(fits: (message: unknown) => boolean): boolean {
    return this.messages.some(fits);
  }

  /** The next message that fits; by default the next one. Undefined: the connection ended before it. */
  async next(fits: (message: unknown) => boolean = () => true): Promise<unknown> {
    for (;;) {
      const found = this.messages.findIndex(fits);
      if (found >= 0) return this.messages.splice(found, 1)[0];
      if (this.socket.readyState !== WebSocket.OPEN) return undefined;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }

  /** Sends a request and takes its answer. */
  async ask(id: number | string, method: string, params?: unknown): Promise<unknown> {
    this.send({ jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) });
    return this.next((message) => (message as { id?: unknown }).id === id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.socket.readyState === WebSocket.CLOSED) return;
    const closed = once(this.socket, "close");
    this.socket.terminate();
    await closed;
  }
}
