import { PLACEHOLDER_RING_KEY, Rings } from "@turnpike/crypto";
import { encodeHttpRequestPayload, RelayRequestWriter, type SessionHeader } from "@turnpike/protocol";
import { chainParty } from "./test-chain.ts";

/** Who asks for a relay, and whom. Names are those of {@link chainParty}. */
export interface RelayRequestOptions {
  readonly supplierOperatorAddress: string;
  /** `app` by default. */
  readonly application?: string;
  /** Gateways that it delegates to; `gateway` by default. */
  readonly gateways?: readonly string[];
  /** The first gateway by default, or the application where there is none. */
  readonly signer?: string;
}

const rings = new Rings();

/** A RelayRequest, signed by a member of the application's ring. A signer that is no member makes itself one. */
export function signRelayRequest(header: SessionHeader, payload: Uint8Array, options: RelayRequestOptions): Uint8Array {
  const { supplierOperatorAddress, application = "app", gateways = ["gateway"] } = options;
  const writer = new RelayRequestWriter(header, supplierOperatorAddress);
  const { publicKey, privateKey } = chainParty(options.signer ?? gateways[0] ?? application);
  const members = [application, ...gateways].map((name) => chainParty(name).publicKey);
  if (gateways.length === 0) members.push(PLACEHOLDER_RING_KEY);
  if (!members.some((key) => Buffer.compare(key, publicKey) === 0)) members.push(publicKey);
  return writer.finish(payload, rings.sign(writer.digest(payload), members, privateKey));
}

/** The payload of a JSON-RPC call over HTTP, as gateways send it. */
export function jsonRpcPayload(body: string, url = "http://supplier.example:8549/"): Uint8Array {
  return encodeHttpRequestPayload({
    method: "POST",
    url,
    headers: [["Content-Type", ["application/json"]]],
    body: Buffer.from(body),
  });
}
