import { jsonMemberSpans } from "@turnpike/base";
import { type BackendCall, type FreeRequest, mintRelayed } from "@turnpike/protocol";
import { scanObject } from "../free-answer.ts";
import { replaceSpan } from "../members.ts";
import type { RelayResult } from "../types.ts";

/** Longer bodies are not compared. */
const MAX_KEY_BYTES = 4_096;

/**
 * What makes two calls of one service the same: all their bytes but the id's. Numbers are not read, so that two big
 * integers that a float cannot tell apart stay two calls. Undefined for what is not shared.
 */
export function flightKey(call: BackendCall): string | undefined {
  const { body, id } = call;
  if (body === undefined || id === undefined || body.length > MAX_KEY_BYTES) return undefined;
  const span = jsonMemberSpans(body, 0)?.members.find(({ key }) => key === "id");
  if (span === undefined) return undefined;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return `${call.rpcType} ${bytes.toString("latin1", 0, span.start)} ${bytes.toString("latin1", span.end)}`;
}

interface Flight {
  readonly signal: AbortSignal | undefined;
  readonly result: Promise<RelayResult>;
}

/** Equal reads that are in flight at the same time are sent once, and each gets the answer with its own id. */
export class Flights {
  readonly #flights = new Map<string, Flight>();

  async join(
    key: string,
    request: FreeRequest,
    signal: AbortSignal | undefined,
    run: () => Promise<RelayResult>,
  ): Promise<RelayResult> {
    const known = this.#flights.get(key);
    if (known !== undefined && known.signal === signal) return withOwnId(await known.result, request);
    const flight: Flight = { signal, result: run() };
    this.#flights.set(key, flight);
    try {
      return await flight.result;
    } finally {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    }
  }

  /** Something was written: a read that begins now must not get an answer from before. */
  forget(): void {
    this.#flights.clear();
  }
}

function withOwnId(result: RelayResult, request: FreeRequest): RelayResult {
  if (!result.ok) return result;
  const { body } = result.relayed;
  const { call } = request.request;
  const id = scanObject(body)?.members.find(({ key }) => key === "id");
  const own = call.clientId ?? call.id;
  if (id === undefined || own === undefined) return { ok: false, code: "INTERNAL", attempts: 0 };
  const { status, contentType, schemaCheck, operator } = result.relayed;
  const fields = { status, contentType, schemaCheck, operator, body: replaceSpan(body, id, own) };
  return { ok: true, relayed: mintRelayed({ request, ...fields }) };
}
