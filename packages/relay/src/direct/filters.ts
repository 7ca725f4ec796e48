import { createHash } from "node:crypto";
import { hostOf } from "@turnpike/base";
import type { BackendCall } from "@turnpike/protocol";

/**
 * A filter lives at the supplier that made it. Its id as the client sees it names that supplier, so that every process
 * and every restart finds it again without shared state: `0x1`, eight hex digits of the supplier's tag, the digits of
 * the supplier's own id. The leading 1 keeps it a hex quantity that no client shortens.
 */
const TAGGED = /^0x1([0-9a-f]{8})([0-9a-f]{1,48})$/i;
const HEX_ID = /^0x[0-9a-fA-F]{1,48}$/;

/**
 * Tag of a supplier: the same wherever the service, the operator's name and its URL's host are the same. Paths and
 * queries hold API keys, which are rotated while filters live.
 */
export function supplierTag(serviceId: string, operator: string, url: string): string {
  return createHash("sha256")
    .update(JSON.stringify([serviceId, operator, hostOf(url)]))
    .digest("hex")
    .slice(0, 8);
}

/** The id that a client gets; undefined when the supplier's is not a hex id. */
export function tagFilterId(tag: string, id: unknown): string | undefined {
  return typeof id === "string" && HEX_ID.test(id) ? `0x1${tag}${id.slice(2)}` : undefined;
}

/** The supplier's tag and its own id; undefined when the client's id was never one of ours. */
export function untagFilterId(id: unknown): { readonly tag: string; readonly id: string } | undefined {
  const found = typeof id === "string" ? TAGGED.exec(id) : null;
  if (found === null) return undefined;
  const [, tag = "", digits = ""] = found;
  return { tag: tag.toLowerCase(), id: `0x${digits}` };
}

/** A number from a filter id, so that an id without a tag always goes to the same supplier. */
export function filterIdHash(id: unknown): number {
  return createHash("sha256")
    .update(typeof id === "string" ? id : "")
    .digest()
    .readUInt32BE(0);
}

/** The filter id of a call that uses one. */
export function firstParam(call: BackendCall): unknown {
  return Array.isArray(call.params) ? (call.params as readonly unknown[])[0] : undefined;
}

/** The body of a call that uses a filter, with the id by which its maker knows it. */
export function bodyForMaker(call: BackendCall): Uint8Array | undefined {
  const tagged = untagFilterId(firstParam(call));
  if (tagged === undefined) return call.body;
  const id = call.id === undefined ? "" : `"id":${call.id},`;
  const params = JSON.stringify([tagged.id, ...(call.params as readonly unknown[]).slice(1)]);
  const method = JSON.stringify(call.operation);
  return Buffer.from(`{"jsonrpc":"2.0",${id}"method":${method},"params":${params}}`);
}
