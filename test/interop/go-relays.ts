import { bytesToHex } from "@turnpike/base";
import { filesBySymbol } from "@turnpike/proto";
import type { HttpHeader, SessionHeader } from "@turnpike/protocol";
import { buildGo } from "./go-programs.ts";

/** A session's header, as `go/relay` reads and writes it. */
export interface GoHeader {
  readonly application: string;
  readonly service: string;
  readonly session: string;
  readonly start: number;
  readonly end: number;
}

/** What a relay's payload holds: of a request `method` and `url`, of a response `status`. */
export interface GoPayload {
  readonly method: string;
  readonly url: string;
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  /** Hex. */
  readonly body: string;
}

/** What Go found in a RelayRequest or RelayResponse; bytes are hex. */
export interface GoChecked {
  readonly valid: boolean;
  /** The message and its payload, written again. */
  readonly again: string;
  readonly payloadAgain: string;
  readonly digest: string;
  readonly header: GoHeader;
  readonly supplier: string;
  readonly payload: GoPayload;
  /** A response's hash is that of its payload. */
  readonly hashed: boolean;
}

/** A relay that Go makes: ring-go signs the request, decred's ECDSA the response. Bytes are hex. */
export interface GoOrder {
  readonly header: GoHeader;
  readonly supplier: string;
  /** Compressed keys of the ring, in its order. */
  readonly members: readonly string[];
  /** Private key of a member. */
  readonly key: string;
  readonly supplierKey: string;
  readonly request: GoPayload;
  readonly response: GoPayload;
}

/** What `go/relay` is asked: relays to check, and to make. */
export interface GoQuestion {
  /** Bytes of RelayRequests. */
  readonly requests?: readonly string[];
  /** Bytes of RelayResponses, each with its supplier's public key. */
  readonly responses?: readonly { readonly bytes: string; readonly key: string }[];
  readonly make?: readonly GoOrder[];
}

/** What it answers, in the order of the question. */
export interface GoAnswer {
  readonly requests: readonly GoChecked[];
  readonly responses: readonly GoChecked[];
  readonly made: readonly { readonly request: string; readonly response: string }[];
}

/** The built program `go/relay`, and its removal. */
export interface GoRelays extends Disposable {
  ask(question: GoQuestion): Promise<GoAnswer>;
}

const FILES = new Map(
  ["pocket.service.RelayRequest", "sdk.types.POKTHTTPRequest"].flatMap((symbol) =>
    filesBySymbol(symbol).map((file) => [file.name, bytesToHex(file.bytes)] as const),
  ),
);

/** Builds `go/relay`. @throws AppError DEPENDENCY_MISSING with what the toolchain said */
export function buildGoRelays(): GoRelays {
  const program = buildGo("relay");
  return {
    ask: (question) => program.ask<GoAnswer>({ files: [...FILES.values()], ...question }),
    [Symbol.dispose]: () => program[Symbol.dispose](),
  };
}

/** Bytes of hex. */
export function bytesOfHex(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex, "hex"));
}

/** A header as Go has it. */
export function goHeader(header: SessionHeader): GoHeader {
  return {
    application: header.applicationAddress,
    service: header.serviceId,
    session: header.sessionId,
    start: Number(header.sessionStartBlockHeight),
    end: Number(header.sessionEndBlockHeight),
  };
}

/** The payload of a request as Go has it. */
export function goRequest(request: {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly HttpHeader[];
  readonly body: Uint8Array;
}): GoPayload {
  const { method, url, headers, body } = request;
  return { method, url, status: 0, headers: flat(headers), body: bytesToHex(body) };
}

/** The payload of a response as Go has it. */
export function goResponse(response: {
  readonly statusCode: number;
  readonly headers: readonly HttpHeader[];
  readonly body: Uint8Array;
}): GoPayload {
  const { statusCode, headers, body } = response;
  return { method: "", url: "", status: statusCode, headers: flat(headers), body: bytesToHex(body) };
}

const flat = (headers: readonly HttpHeader[]): GoPayload["headers"] =>
  headers.flatMap(([name, values]) => values.map((value) => [name, value] as const));
