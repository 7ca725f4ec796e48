/** Attributes of a span. Values come from small, fixed sets: never payloads, keys, tokens or paths of upstream URLs. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

/** One piece of work with a beginning and an end, per OpenTelemetry. */
export interface Span {
  /** 32 hex digits, for logs. Undefined: the span is not recorded. */
  readonly traceId: string | undefined;
  /** Begins a piece of work within this one. `client` is work that another machine does. */
  child(name: string, kind: "internal" | "client", attributes?: SpanAttributes): Span;
  /** Adds attributes. */
  set(attributes: SpanAttributes): void;
  /** Says that it has failed, by an error's code. It is still to be ended. */
  fail(code: string): void;
  /** Ends it; only the first call counts. */
  end(): void;
}

/** Where spans go. */
export interface Tracer {
  /** Begins a request's span. `traceparent` is the client's header (W3C Trace Context), as it came. */
  start(name: string, traceparent: string | undefined, attributes?: SpanAttributes): Span;
}

/** A span that goes nowhere. */
export const noSpan: Span = { traceId: undefined, child: () => noSpan, set() {}, fail() {}, end() {} };

/** Traces nothing. */
export const noTracer: Tracer = { start: () => noSpan };
