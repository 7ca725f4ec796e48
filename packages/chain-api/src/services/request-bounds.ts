import type { DescMessage } from "@bufbuild/protobuf";
import { GRPC_STATUS, MAX_TX_BYTES } from "@turnpike/chain";
import type { Bytes } from "@turnpike/chain-store";
import { maxPartsOf, WireScanner } from "@turnpike/proto";

/** Reason a request is not decoded. */
export interface RequestExcess {
  readonly status: number;
  readonly text: string;
}

/**
 * Maximum bytes of a request that no transaction is in: names, addresses, a filter and a page key. It is read on the thread that
 * makes blocks, which 10 MB of plain numbers would hold for 0.4 s.
 */
const MAX_QUERY_BYTES = 65_536;
/** Maximum bytes of a request with a transaction. One that is a bit too large is still answered with its own code. */
export const MAX_TX_REQUEST_BYTES = MAX_TX_BYTES + MAX_QUERY_BYTES;
const TX_SERVICE = "/cosmos.tx.v1beta1.Service/";
/** Its data may be a transaction that is to be simulated. */
const ABCI_QUERY_PATH = "/cosmos.base.tendermint.v1beta1.Service/ABCIQuery";
/** Maximum parts of a request. */
const MAX_REQUEST_PARTS = 20_000;
/** Bounds of what a request makes in memory; how long its texts and lists may be is for each method to say. */
const SCANNER = new WireScanner({
  maxParts: (sizeBytes) => Math.min(MAX_REQUEST_PARTS, maxPartsOf(sizeBytes)),
  maxDepth: 32,
  maxItems: () => Number.POSITIVE_INFINITY,
  maxTextBytes: () => Number.POSITIVE_INFINITY,
});

/** The fault of a request that is too large for its method, in the words of Go's gRPC server; undefined when it is not. */
export function sizeExcess(path: string, { length }: Bytes): RequestExcess | undefined {
  const maxBytes = path.startsWith(TX_SERVICE) || path === ABCI_QUERY_PATH ? MAX_TX_REQUEST_BYTES : MAX_QUERY_BYTES;
  if (length <= maxBytes) return undefined;
  const text = `grpc: received message larger than max (${length} vs. ${maxBytes})`;
  return { status: GRPC_STATUS.ResourceExhausted, text };
}

/** The excess of a request's parts, in time linear in its length; undefined when it may be decoded. */
export function partsExcess(input: DescMessage, bytes: Bytes): string | undefined {
  return SCANNER.excess(input, bytes);
}

/** True for the excess of bytes that are not protobuf at all: within the bounds up to there, so that decoding them may name the fault. */
export function isMalformed(excess: string): boolean {
  return excess.includes("not protobuf");
}
