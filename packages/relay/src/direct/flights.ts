import { jsonMemberSpans } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";
import { type Finding, withOwnId } from "./found.ts";

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
  readonly finding: Promise<Finding>;
}

/** Equal reads that are in flight at the same time are sent once, and each gets the answer with its own id. */
export class Flights {
  readonly #flights = new Map<string, Flight>();

  /**
   * Joins the read of this key that is in flight, or begins it. `id` is the asker's own, undefined for calls without
   * one. Those who may be given up at different times do not wait for each other.
   */
  async join(
    key: string,
    id: string | undefined,
    signal: AbortSignal | undefined,
    run: () => Promise<Finding>,
  ): Promise<Finding> {
    const known = this.#flights.get(key);
    if (known !== undefined && known.signal === signal) {
      const finding = await known.finding;
      if (!finding.ok) return finding;
      if (id === undefined) return finding.found.stream === undefined ? finding : run();
      const found = withOwnId(finding.found, id);
      return found === undefined ? run() : { ok: true, found };
    }
    const flight: Flight = { signal, finding: run() };
    this.#flights.set(key, flight);
    try {
      return await flight.finding;
    } finally {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    }
  }

  /** Something was written: a read that begins now must not get an answer from before. */
  forget(): void {
    this.#flights.clear();
  }
}
