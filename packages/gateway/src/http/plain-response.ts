import { type FastResponse, FastServerResponse } from "@turnpike/http1";
import type { PlainRequest } from "./plain-request.ts";
import type { ResponseSink } from "./request.ts";

/** Where the response to a plain request is written to. */
export class PlainResponse extends FastServerResponse implements ResponseSink {
  readonly req: PlainRequest;

  constructor(req: PlainRequest, response: FastResponse) {
    super(response);
    this.req = req;
  }
}
