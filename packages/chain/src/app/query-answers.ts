import type { Bytes } from "@turnpike/chain-store";
import { type FaultKind, SDK } from "../state/outcome.ts";
import type { AppAnswer, GrpcAnswer } from "./types.ts";

const NOTHING: Bytes = new Uint8Array(0);
const INVALID_HEIGHT: FaultKind = { codespace: "sdk", code: 26, text: "invalid height" };
const KEY_NOT_FOUND: FaultKind = { codespace: "sdk", code: 22, text: "key not found" };
/** What an unforeseen fault is called. */
export const PANIC: FaultKind = { codespace: "sdk", code: 111_222, text: "panic" };

/** Why no state is read: an error of the SDK with a text before its own. */
export interface HeightFault {
  readonly kind: FaultKind;
  readonly text: string;
}

/** Heights that can be asked for. */
export interface KnownHeights {
  /** 0 before the first block. */
  readonly latestBlocks: bigint;
  readonly earliestBlocks: bigint;
}

const notKept = (heightBlocks: bigint, latestBlocks: bigint): HeightFault => ({
  kind: SDK.invalidRequest,
  text: `failed to load state at height ${heightBlocks}; version mismatch on immutable IAVL tree; version does not exist. Version has either been pruned, or is for a future block height (latest height: ${latestBlocks})`,
});

/** The fault of a height that was pruned. */
export const prunedFault = notKept;

/** Why a height cannot be read (recorded answers, and the SDK's `CreateQueryContext`); undefined: it can. */
export function heightFault(
  heightBlocks: bigint,
  { latestBlocks, earliestBlocks }: KnownHeights,
): HeightFault | undefined {
  if (heightBlocks < 0n) {
    return { kind: SDK.invalidRequest, text: "cannot query with height < 0; please provide a valid height" };
  }
  if (latestBlocks === 0n) return { kind: INVALID_HEIGHT, text: "pocket is not ready; please wait for first block" };
  if (heightBlocks > latestBlocks) {
    return {
      kind: INVALID_HEIGHT,
      text: "cannot query with height in the future; please provide a valid height",
    };
  }
  return heightBlocks < earliestBlocks ? notKept(heightBlocks, latestBlocks) : undefined;
}

/** How gRPC shows a fault of the height (recorded through REST). */
export function grpcFault({ kind, text }: HeightFault): GrpcAnswer {
  const whole = `codespace ${kind.codespace} code ${kind.code}: ${kind.text}: ${text}`;
  return { ok: false, status: 2, text: whole, heightBlocks: 0n };
}

/** An error of codespace `sdk` as `abci_query` shows it. */
export function abciFault(kind: FaultKind, text: string, heightBlocks = 0n): AppAnswer {
  const { codespace, code } = kind;
  const log = text === "" ? kind.text : `${text}: ${kind.text}`;
  return { code, codespace, log, value: NOTHING, heightBlocks };
}

const GO_STATUS = [
  "OK",
  "Canceled",
  "Unknown",
  "InvalidArgument",
  "DeadlineExceeded",
  "NotFound",
  "AlreadyExists",
  "PermissionDenied",
  "ResourceExhausted",
  "FailedPrecondition",
  "Aborted",
  "OutOfRange",
  "Unimplemented",
  "Internal",
  "Unavailable",
  "DataLoss",
  "Unauthenticated",
];

function kindOfStatus(status: number): FaultKind {
  if (status === 5) return KEY_NOT_FOUND;
  if (status === 3 || status === 9) return SDK.invalidRequest;
  return status === 16 ? SDK.unauthorized : SDK.unknownRequest;
}

// A registered error of the SDK, as gRPC shows it.
const REGISTERED = /^codespace \S+ code \d+: ([^:]+): (.*)$/s;

/**
 * A gRPC answer of a query service as `abci_query` shows it, with the SDK's codes. What the SDK gives as no gRPC status
 * stands here as status 2: an invalid request, or an error of the SDK by its own text.
 */
export function abciOfGrpc(answer: GrpcAnswer): AppAnswer {
  const { heightBlocks } = answer;
  if (answer.ok) return { code: 0, codespace: "", log: "", value: answer.value, heightBlocks };
  if (answer.status !== 2) return abciOfStatus(answer);
  const [, name, text] = REGISTERED.exec(answer.text) ?? [];
  if (name === undefined) return abciFault(SDK.invalidRequest, answer.text, heightBlocks);
  return abciFault(SDK.unknownRequest, `${text}: ${name}`, heightBlocks);
}

/** A gRPC status as `abci_query` shows it, with the SDK's codes. */
export function abciOfStatus({ status, text, heightBlocks }: GrpcAnswer & { readonly ok: false }): AppAnswer {
  const desc = `rpc error: code = ${GO_STATUS[status] ?? "Unknown"} desc = ${text}`;
  return abciFault(kindOfStatus(status), desc, heightBlocks);
}

/** Go's text for bytes that are no message; recorded. */
export function goDecodeFault(fault: string): string {
  return fault === "premature EOF" ? "unexpected EOF" : fault;
}
