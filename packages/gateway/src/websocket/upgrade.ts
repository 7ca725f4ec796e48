import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { ErrorCode, RequestId } from "@turnpike/base";
import { trimFieldValue } from "@turnpike/base";
import type { FamilyId, Service } from "@turnpike/catalogue";
import type { SocketDialect } from "@turnpike/relay";
import { NOT_FREE } from "../free/answers.ts";
import { type Answer, CORS } from "../http/answer.ts";
import { headFault } from "../http/request.ts";
import { hostName, parseTarget, type Target } from "../http/target.ts";
import { relayPlace } from "../keys/presented.ts";

/** Where an upgrade request leads. */
export interface UpgradeTarget {
  readonly target: Target;
  /** Undefined when the free relay does not have it. */
  readonly service: Service | undefined;
  /** Raw path after the service. */
  readonly path: string;
  /** An application's key in the path. */
  readonly key?: string | undefined;
}

/** Why an upgrade is refused. */
export interface UpgradeFault {
  readonly code: ErrorCode;
  readonly message?: string;
  readonly headers?: readonly string[];
}

const KEY = /^[+/0-9A-Za-z]{22}==$/;
/** Families whose nodes have WebSockets. */
const CAPABLE: ReadonlySet<FamilyId> = new Set(["evm", "cosmos", "solana", "sui"]);
/** RFC 6455 §4.1: names that are tokens, each only once. */
const PROTOCOL = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const EVM_PATHS = new Set(["", "/", "/ws"]);
const LINGER_MS = 1_000;

/** Finds the service of an upgrade request, at `{id}.<relayDomain>` or below `/relay/`, and checks its head. */
export class UpgradeRouter {
  readonly #hostSuffix: string;
  readonly #maxHeaders: number;
  readonly #takesKeys: boolean;
  readonly #services = new Map<string, Service>();

  constructor(
    opts: { readonly relayDomain: string; readonly maxHeaders: number; readonly takesKeys: boolean },
    services: Iterable<Service>,
  ) {
    this.#hostSuffix = `.${opts.relayDomain.toLowerCase()}`;
    this.#maxHeaders = opts.maxHeaders;
    this.#takesKeys = opts.takesKeys;
    for (const service of services) {
      if (service.free && service.families.length > 0) this.#services.set(service.id, service);
    }
  }

  /** Undefined for a request that is not for the free relay. */
  targetOf(req: IncomingMessage): UpgradeTarget | undefined {
    const target = parseTarget(req.url ?? "");
    if (target === undefined) return undefined;
    const host = hostName(target.authority ?? req.headers.host ?? "");
    if (host.endsWith(this.#hostSuffix)) {
      const id = host.slice(0, -this.#hostSuffix.length);
      return { target, service: this.#services.get(id), path: target.path };
    }
    const place = relayPlace(target.path, this.#takesKeys);
    return place === undefined ? undefined : { ...place, target, service: this.#services.get(place.id) };
  }

  /** What is wrong with the request; undefined when it may be upgraded. `offers`: suppliers of the service have WebSockets. */
  faultOf(
    req: IncomingMessage,
    { target, service, path }: UpgradeTarget,
    offers: (service: Service) => boolean,
  ): UpgradeFault | undefined {
    const code = headFault({ req, target }, this.#maxHeaders);
    if (code !== undefined) return { code };
    if (service === undefined) return { code: "UNKNOWN_SERVICE", message: NOT_FREE };
    const version = req.headers["sec-websocket-version"];
    if (!KEY.test(req.headers["sec-websocket-key"] ?? "") || (version !== "13" && version !== "8")) {
      const headers = ["Sec-WebSocket-Version", "13, 8"];
      return { code: "MALFORMED_REQUEST", message: "This is no upgrade to a WebSocket.", headers };
    }
    const protocols = req.headers["sec-websocket-protocol"];
    if (protocols !== undefined && !isProtocols(protocols)) {
      return { code: "MALFORMED_REQUEST", message: "`Sec-WebSocket-Protocol` cannot be read." };
    }
    if (!service.families.some((family) => CAPABLE.has(family)) && !offers(service)) {
      return { code: "MALFORMED_REQUEST", message: "This service has no WebSocket." };
    }
    return dialectOf(service, path) === undefined ? { code: "NOT_FOUND" } : undefined;
  }
}

/** How the WebSocket at a path of a service is spoken to; undefined where there is none. */
export function dialectOf(service: Service, path: string): SocketDialect | undefined {
  const { families } = service;
  if (families.includes("cosmos") && (path === "/websocket" || (!families.includes("evm") && path.length < 2))) {
    return "comet";
  }
  if (families.includes("evm")) return EVM_PATHS.has(path) ? "evm" : undefined;
  return path.length < 2 && !families.includes("cosmos") ? "pair" : undefined;
}

/** True for a `Sec-WebSocket-Protocol` that can be read. */
function isProtocols(header: string): boolean {
  const names = header.split(",").map(trimFieldValue);
  return names.every((name) => PROTOCOL.test(name)) && new Set(names).size === names.length;
}

/** Answers an upgrade request with an HTTP response, and ends the connection. */
export function refuseUpgrade(socket: Duplex, answer: Answer, requestId: RequestId): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const body = typeof answer.body === "string" ? answer.body : Buffer.from(answer.body).toString("utf8");
  const headers = [...(answer.headers ?? []), ...CORS, "X-Content-Type-Options", "nosniff"];
  const lines = [`HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ""}`];
  for (let at = 0; at + 1 < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`);
  lines.push(
    `X-Request-Id: ${requestId}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  );
  socket.once("finish", () => setTimeout(() => socket.destroy(), LINGER_MS).unref());
  // What the client still sends must be read, or the answer is lost in a reset.
  socket.resume();
  socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`);
}
