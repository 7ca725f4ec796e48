import {
  type Attributes,
  type Context,
  DiagLogLevel,
  diag,
  type Span as OtelSpan,
  type Tracer as OtelTracer,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { AlwaysOnSampler, BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { FaultLogThrottle, type Log, noSpan, type Span, type Tracer, trimEndOf } from "@turnpike/base";

export interface OtlpTracerOptions {
  /** Base URL of a collector; `/v1/traces` is added. */
  readonly endpoint: string;
  /** Share of requests that are traced. */
  readonly sample: number;
  readonly serviceName: string;
  readonly version: string;
  /** Time between two exports; 2,000 by default. */
  readonly exportEveryMs?: number;
}

/** Version, trace id, parent id, flags (W3C Trace Context §3.2). Later versions may have more behind. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-|$)/;
const EXPORT_TIMEOUT_MS = 5_000;
const MAX_QUEUED_SPANS = 4_096;
const KINDS = { internal: SpanKind.INTERNAL, client: SpanKind.CLIENT } as const;

/** The client's trace as a parent. Its sampling flag is ignored: clients do not decide what is recorded. */
function parentOf(traceparent: string | undefined): Context {
  const [, traceId, spanId] = TRACEPARENT.exec(traceparent ?? "") ?? [];
  if (traceId === undefined || spanId === undefined) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true });
}

class RecordedSpan implements Span {
  readonly #span: OtelSpan;
  readonly #tracer: OtelTracer;

  constructor(span: OtelSpan, tracer: OtelTracer) {
    this.#span = span;
    this.#tracer = tracer;
  }

  get traceId(): string {
    return this.#span.spanContext().traceId;
  }

  child(name: string, kind: keyof typeof KINDS, attributes: Attributes = {}): Span {
    const parent = trace.setSpan(ROOT_CONTEXT, this.#span);
    return new RecordedSpan(this.#tracer.startSpan(name, { kind: KINDS[kind], attributes }, parent), this.#tracer);
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(attributes);
  }

  fail(code: string): void {
    this.#span.setStatus({ code: SpanStatusCode.ERROR, message: code });
  }

  end(): void {
    if (this.#span.isRecording()) this.#span.end();
  }
}

/**
 * Sends spans to an OpenTelemetry collector, in batches and in the background. What the collector does not take is lost,
 * and a line is logged at most once a minute. Disposing it sends what is left.
 */
export function createOtlpTracer(
  opts: OtlpTracerOptions,
  modules: { readonly log: Log; readonly random: () => number },
): Tracer & AsyncDisposable {
  const { log, random } = modules;
  const faultLog = new FaultLogThrottle();
  const warn = (): void => {
    if (faultLog.onFailure()) log.warn({}, "spans could not be sent to the collector of tracing.endpoint");
  };
  const ignore = (): void => {};
  // The texts are not logged: they may hold the collector's URL.
  diag.setLogger(
    { error: warn, warn, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  const exporter = new OTLPTraceExporter({
    url: `${trimEndOf(opts.endpoint, "/")}/v1/traces`,
    timeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ "service.name": opts.serviceName, "service.version": opts.version }),
    sampler: new AlwaysOnSampler(),
    spanProcessors: [
      new BatchSpanProcessor(exporter, {
        maxQueueSize: MAX_QUEUED_SPANS,
        scheduledDelayMillis: opts.exportEveryMs ?? 2_000,
        exportTimeoutMillis: EXPORT_TIMEOUT_MS,
      }),
    ],
  });
  const tracer = provider.getTracer("turnpike", opts.version);

  return {
    start(name, traceparent, attributes = {}) {
      // Rolled before anything is made: a request that is not traced costs nothing.
      if (random() >= opts.sample) return noSpan;
      const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parentOf(traceparent));
      return new RecordedSpan(span, tracer);
    },
    async [Symbol.asyncDispose]() {
      await provider.shutdown().catch(warn);
      diag.disable();
    },
  };
}
