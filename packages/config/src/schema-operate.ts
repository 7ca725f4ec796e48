import { Type } from "typebox";
import { decimal, flag, oneOf, port, section, text, url } from "./keys.ts";

/** Logs. */
export const LOG = section(
  {
    level: oneOf(["debug", "info", "warn", "error", "silent"], "Lowest level that is logged.", "info"),
    access: section(
      {
        sample: decimal(0.01, 0, 1, "Share of requests that get a line of their own: 0 none, 1 all."),
        errors: flag(true, "True: each answer of 500 and above gets a line too, at most 100 a second."),
      },
      "The access log of the gateway.",
    ),
  },
  "Logs, as JSON lines on the error output.",
);

/** The admin API. */
export const ADMIN = section(
  {
    host: text("127.0.0.1", "Address of the admin API. It is not meant for the public, and has no TLS of its own."),
    port: Type.Optional(port(undefined, "Port of the admin API, such as 9092. No default: without one there is none.")),
    token: Type.Optional(
      Type.String({
        minLength: 16,
        maxLength: 512,
        pattern: "^[!-~]+$",
        description:
          "Token that each request must bear; TURNPIKE_ADMIN_TOKEN sets it too. No default: there is no open admin API.",
        "x-expected": "at least 16 printable characters without spaces, such as of openssl rand -hex 32",
        "x-secret": true,
      }),
    ),
  },
  "What an operator sees and changes while the gateway runs.",
);

/** Traces. */
export const TRACING = section(
  {
    endpoint: Type.Optional(
      url(
        "OpenTelemetry collector, OTLP over HTTP: `/v1/traces` is added. OTEL_EXPORTER_OTLP_ENDPOINT sets it too. No default: without one nothing is traced.",
      ),
    ),
    sample: decimal(0.01, 0, 1, "Share of requests that are traced; what a client says about that does not count."),
    serviceName: text("turnpike-gateway", "`service.name` of the spans."),
  },
  "Traces, as OpenTelemetry spans.",
);
