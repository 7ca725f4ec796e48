import { utf8ToBytes } from "@turnpike/base";
import type { SchemaCheck } from "@turnpike/protocol";

const CLOSE = utf8ToBytes("}");

/**
 * The success envelope of spec §2.3. `data` is the supplier's JSON, spliced in as it is: its numbers, its key order and
 * its white space stay what they were.
 */
export function sealEnvelope(serviceId: string, schemaCheck: SchemaCheck, data: Uint8Array): Uint8Array {
  const portal = JSON.stringify({ provenance: "third-party-supplier", serviceId, schemaCheck });
  return Buffer.concat([utf8ToBytes(`{"portal":${portal},"data":`), data, CLOSE]);
}
