import { createHash } from "node:crypto";
import type { Operation } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import type { MethodTraits } from "../families/method-traits.ts";

/**
 * A filter lives at the supplier that made it, and belongs to the client that asked for it. Its id as the client sees it
 * names both, so that every process and every restart knows them without shared state: `0x1`, eight hex digits of the
 * supplier's tag, sixteen of the owner's mark, the digits of the supplier's own id. The leading 1 keeps it a hex quantity
 * that no client shortens. Suppliers' own ids may be counted up, so that an id without an owner could be any client's.
 */
const TAGGED = /^0x1([0-9a-f]{8})([0-9a-f]{16})([0-9a-f]{1,39})$/i;
const HEX_ID = /^0x[0-9a-fA-F]{1,39}$/;

/**
 * Tag of a supplier: the same wherever the service, the operator's name and its endpoint's label are the same. No more of
 * where it leads: paths and queries hold API keys, which are rotated while filters live.
 */
export function supplierTag(serviceId: string, operator: string, label: string): string {
  return hexOf([serviceId, operator, label], 8);
}

/** Mark of a filter's owner: a client of the free relay, an application by its key, or a payer. */
function ownerMark(client: string): string {
  return hexOf(["filter", client], 16);
}

function hexOf(parts: readonly string[], digits: number): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, digits);
}

/** The id that a client gets; undefined when the supplier's is not a hex id. */
export function tagFilterId(tag: string, client: string, id: unknown): string | undefined {
  return typeof id === "string" && HEX_ID.test(id) ? `0x1${tag}${ownerMark(client)}${id.slice(2)}` : undefined;
}

/** The supplier's tag and its own id; undefined when the client never got this id. */
export function untagFilterId(client: string, id: unknown): { readonly tag: string; readonly id: string } | undefined {
  const found = typeof id === "string" ? TAGGED.exec(id) : null;
  if (found === null) return undefined;
  const [, tag = "", mark = "", digits = ""] = found;
  return mark.toLowerCase() === ownerMark(client) ? { tag: tag.toLowerCase(), id: `0x${digits}` } : undefined;
}

/** What a call does with a filter, by the catalogue or by its family's table; undefined: nothing. */
export function filterRole(
  { method = "" }: Pick<BackendCall, "method">,
  operation: Operation | undefined,
  traits: MethodTraits | undefined,
): "create" | "use" | undefined {
  if (operation?.filter !== undefined) return operation.filter;
  if (traits?.kind !== "filter") return undefined;
  return method.startsWith("eth_new") ? "create" : "use";
}

/** The filter id of a call that uses one. */
export function firstParam(call: BackendCall): unknown {
  return Array.isArray(call.params) ? (call.params as readonly unknown[])[0] : undefined;
}

/** The body of a call that uses a filter, with the id by which its maker knows it. */
export function bodyForCreator(call: BackendCall, client: string): Uint8Array | undefined {
  const tagged = untagFilterId(client, firstParam(call));
  if (tagged === undefined) return call.body;
  const id = call.id === undefined ? "" : `"id":${call.id},`;
  const params = JSON.stringify([tagged.id, ...(call.params as readonly unknown[]).slice(1)]);
  const method = JSON.stringify(call.method ?? call.operation);
  return Buffer.from(`{"jsonrpc":"2.0",${id}"method":${method},"params":${params}}`);
}
