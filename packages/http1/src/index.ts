export type { ChunkedBody, ChunkedBodyEvents, ChunkedResponseOptions } from "./chunked-body.ts";
export {
  FastListener,
  type FastListenerCounts,
  type FastListenerModules,
  type FastListenerOptions,
  fastListenerDefaults,
  type HeldBytes,
} from "./fast-listener.ts";
export type { FastRequest, FastResponse } from "./fast-request.ts";
export { type AnyServerResponse, checkFieldValue, FastServerResponse, whenWritable } from "./fast-server-response.ts";
export { HttpPool, type HttpPoolModules, type HttpPoolOptions } from "./http-pool.ts";
export type { PlainFormOptions } from "./plain-form.ts";
export type { PoolRequest, RequestError, ResponseHandler } from "./pool-request.ts";
export { RequestHead, type RequestHeadParts } from "./request-head.ts";
export type { ResponseHead, ResponseSink } from "./response-reader.ts";
export type { ResponseOptions } from "./response-writer.ts";
