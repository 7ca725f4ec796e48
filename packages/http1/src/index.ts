export type { ChunkedBody, ChunkedBodyEvents } from "./chunked-body.ts";
export {
  FastListener,
  type FastListenerCounts,
  type FastListenerModules,
  type FastListenerOptions,
  fastListenerDefaults,
} from "./fast-listener.ts";
export type { FastRequest, FastResponse } from "./fast-request.ts";
export { FieldTable } from "./field-table.ts";
export { contentLength, Head, type HeadLimits, HeadParser, INCOMPLETE, isWord, REFUSED } from "./head.ts";
export type { PlainFormOptions } from "./plain-form.ts";
export type { ResponseOptions } from "./response-writer.ts";
