import type { Socket } from "node:net";
import type { ReadHeaders } from "./request.ts";

/**
 * A plain request that came the fast way: a POST whose whole body is here. It has what doors read of a request of
 * `node:http`, and none of its events.
 */
export class PlainRequest {
  readonly method = "POST";
  readonly httpVersion = "1.1";
  readonly complete = true;
  readonly url: string;
  readonly headers: ReadHeaders;
  /** Its one Host: how many lines there are, the listener has checked. */
  readonly rawHeaders: readonly string[];
  readonly body: Uint8Array;
  readonly socket: Socket;

  constructor(url: string, headers: ReadHeaders, body: Uint8Array, socket: Socket) {
    this.url = url;
    this.headers = headers;
    this.rawHeaders = ["Host", headers.host ?? ""];
    this.body = body;
    this.socket = socket;
  }
}
