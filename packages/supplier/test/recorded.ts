import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { BlockMark, ChainAnswer, ChainHead, PocketQueries } from "@turnpike/chain-client";
import { fromApiJson, session, shared } from "@turnpike/proto";
import type { SessionHeader } from "@turnpike/protocol";

const FOLDER = join(import.meta.dirname, "../../../test/spec");

/** Reads a JSON file of test/spec. */
export function readSpec<T>(name: string): T {
  return JSON.parse(readFileSync(join(FOLDER, name), "utf8")) as T;
}

/** Bytes of base64. */
export const base64 = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, "base64"));

/** One exchange of a relay, recorded between a real gateway and a real supplier. */
export interface Exchange {
  readonly request: { readonly method: string; readonly rawHeaders: readonly string[]; readonly body: string };
  readonly response: { readonly status: number; readonly body: string };
}

/** A claim of a recording. */
export interface RecordedClaim {
  readonly supplier_operator_address: string;
  readonly session_header: { readonly session_id: string };
  readonly root_hash: string;
}

/** One recorded session end, from its relays to the settlement. */
export interface Recording {
  readonly exchanges: readonly Exchange[];
  readonly sessions: readonly session.Session[];
  readonly claims: readonly RecordedClaim[];
  readonly params: shared.Params;
  /** Bytes of proofs, by session id and supplier. */
  readonly proofs: ReadonlyMap<string, Uint8Array>;
  readonly blockHashes: Readonly<Record<string, string>>;
}

interface RecordedFile {
  readonly sessions: readonly unknown[];
  readonly claims: readonly RecordedClaim[];
  readonly params_at_session_start: { readonly shared: unknown };
  readonly block_hashes: Readonly<Record<string, string>>;
  readonly txs: readonly { readonly tx: { readonly tx: { readonly body: { readonly messages: readonly Proof[] } } } }[];
}

interface Proof {
  readonly supplier_operator_address: string;
  readonly session_header: { readonly session_id: string };
  readonly proof?: string;
}

const read = <T>(found: { readonly ok: true; readonly message: T } | { readonly ok: false }): T =>
  found.ok ? found.message : assert.fail("the recording cannot be read");

/** Reads a recording: `e2e-1` or `e2e-7`. */
export function readRecording(name: string): Recording {
  const file = readSpec<RecordedFile>(`protocol/${name}.json`);
  const messages = file.txs.flatMap(({ tx }) => tx.tx.body.messages);
  return {
    exchanges: readSpec<Exchange[]>(`protocol/${name}-wire.json`),
    sessions: file.sessions.map((json) => read(fromApiJson(session.SessionSchema, json))),
    claims: file.claims,
    params: read(fromApiJson(shared.ParamsSchema, file.params_at_session_start.shared)),
    proofs: new Map(
      messages.flatMap(({ proof, session_header: { session_id: id }, supplier_operator_address: supplier }) =>
        proof === undefined ? [] : [[`${id} ${supplier}`, base64(proof)] as const],
      ),
    ),
    blockHashes: file.block_hashes,
  };
}

/** Private keys of the recorded suppliers, by address. */
export function supplierKeys(): ReadonlyMap<string, Uint8Array> {
  const keys = readSpec<Record<string, string>>("protocol/supplier-keys.json");
  return new Map(Object.entries(keys).map(([address, key]) => [address, Uint8Array.from(Buffer.from(key, "hex"))]));
}

const known = <T>(value: T | undefined): Promise<ChainAnswer<T>> =>
  Promise.resolve(value === undefined ? { ok: false, fault: "refused", text: "not recorded" } : { ok: true, value });

/** Answers of a chain as they were recorded, in the place of a node: the sessions are gone there. */
export function recordedQueries({ sessions, params }: Pick<Recording, "sessions" | "params">): PocketQueries {
  const keys = readSpec<Record<string, string>>("protocol/public-keys.json");
  const find = (application: string) => sessions.find(({ header }) => header?.applicationAddress === application);
  const queries = {
    sharedParamsAt: () => known(params),
    peekSharedParamsAt: () => params,
    session: (application: string) => known(find(application)),
    application: (address: string) => known(find(address)?.application),
    applicationState: async (address: string) => {
      const found = await known(find(address)?.application);
      return found.ok ? known({ application: found.value, heightBlocks: 1_000_000n }) : found;
    },
    publicKey: (address: string) => {
      const key = keys[address];
      return known(key === undefined ? undefined : base64(key));
    },
    computeUnitsAt: () => known(100n),
    difficultyAt: () => known(new Uint8Array(32).fill(255)),
  };
  return queries as unknown as PocketQueries;
}

/** A chain that stands at a height. */
export function standingHead(heightBlocks: bigint): ChainHead {
  const newest: BlockMark = { heightBlocks, hash: "", timeMs: 0 } as unknown as BlockMark;
  return {
    newest,
    isStale: false,
    waitFor: () => Promise.resolve(undefined),
    onBlock: () => ({ [Symbol.dispose]() {} }),
  } as unknown as ChainHead;
}

/** The header of a recorded session. */
export function headerOf({ header }: session.Session): SessionHeader {
  assert.ok(header);
  const { $typeName: _, ...fields } = header;
  return fields;
}
