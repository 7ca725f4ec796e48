import { isAppError, type Log } from "@turnpike/base";
import type { Bytes, ChainStore, StateReader } from "@turnpike/chain-store";
import { decodeMessage, methodAt } from "@turnpike/proto";
import type { QueryAnswer } from "../state/module.ts";
import { SDK } from "../state/outcome.ts";
import { readBlockInfo } from "./block-infos.ts";
import {
  abciFault,
  abciOfGrpc,
  goDecodeFault,
  grpcFault,
  type HeightFault,
  heightFault,
  PANIC,
  prunedFault,
} from "./query-answers.ts";
import type { StateMachine } from "./state-machine.ts";
import type { AppAnswer, GrpcAnswer } from "./types.ts";

/** The application that is asked. */
export interface QueriedApp {
  readonly version: string;
  readonly chainId: string;
  /** 0 before there is a genesis. */
  readonly initialHeightBlocks: bigint;
  latestHeightBlocks(): bigint;
}

export interface AppQueriesModules {
  readonly app: QueriedApp;
  readonly machine: StateMachine;
  /** Stays the caller's. */
  readonly store: Pick<ChainStore, "at" | "earliestHeightBlocks">;
  readonly log: Log;
}

/** What the SDK's store says of itself, in a codespace of its own. */
const NO_KEY = { codespace: "store", code: 3, text: "tx parse error" };
const NOTHING: Bytes = new Uint8Array(0);

function toGrpc(answer: QueryAnswer<Bytes>, heightBlocks: bigint): GrpcAnswer {
  return { ...answer, heightBlocks };
}

/** Queries of the application: by gRPC, and by ABCI's paths. They read, and stop nothing. */
export class AppQueries {
  readonly #app: QueriedApp;
  readonly #machine: StateMachine;
  readonly #store: AppQueriesModules["store"];
  readonly #log: Log;

  constructor({ app, machine, store, log }: AppQueriesModules) {
    this.#app = app;
    this.#machine = machine;
    this.#store = store;
    this.#log = log;
  }

  /** Asks a query service. @param heightBlocks 0: the newest */
  grpcQuery(path: string, request: Bytes, heightBlocks = 0n): GrpcAnswer {
    const at = this.#readAt(heightBlocks);
    return at.ok ? this.#query(at.reader, path, request) : grpcFault(at.fault);
  }

  /** Asks as `abci_query` does. @param heightBlocks 0: the newest */
  abciQuery(path: string, data: Bytes, heightBlocks = 0n): AppAnswer {
    const latest = this.#app.latestHeightBlocks();
    const asked = heightBlocks === 0n ? latest : heightBlocks;
    if (this.#machine.answers(path)) return this.#abciGrpc(path, data, heightBlocks);
    const [, first, second, third] = path.split("/");
    if (first === "app") {
      if (second !== "version") return unknownAppQuery(path);
      return { code: 0, codespace: "sdk", log: "", value: Buffer.from(this.#app.version), heightBlocks: asked };
    }
    if (first === "store" && second !== undefined && third !== undefined) {
      return this.#abciStore(second, third, data, heightBlocks);
    }
    if (path === "" || path === "/") return abciFault(SDK.unknownRequest, "no query path provided");
    return abciFault(SDK.unknownRequest, "unknown query path");
  }

  #abciGrpc(path: string, data: Bytes, heightBlocks: bigint): AppAnswer {
    const at = this.#readAt(heightBlocks);
    if (!at.ok) return abciFault(at.fault.kind, at.fault.text);
    const answer = this.#query(at.reader, path, data);
    const malformed = answer.ok || answer.status !== 3 ? undefined : decodeFault(path, data);
    if (malformed !== undefined) return abciFault(SDK.invalidRequest, malformed, answer.heightBlocks);
    return abciOfGrpc(answer);
  }

  #abciStore(name: string, way: string, key: Bytes, heightBlocks: bigint): AppAnswer {
    const at = this.#readAt(heightBlocks);
    if (!at.ok) return abciFault(at.fault.kind, at.fault.text);
    const space = Buffer.from(`${name}/`);
    const [known] = at.reader.range({ prefix: space });
    if (known === undefined) return abciFault(SDK.unknownRequest, `no such store: ${name}`);
    if (way !== "key") return abciFault(SDK.unknownRequest, `unexpected query path: /${way}`);
    if (key.length === 0) return abciFault(NO_KEY, "query cannot be zero length");
    const isPossible = key.length + space.length <= 512;
    const value = isPossible ? (at.reader.get(Buffer.concat([space, key])) ?? NOTHING) : NOTHING;
    return { code: 0, codespace: "", log: "", key, value, heightBlocks: at.reader.heightBlocks };
  }

  #readAt(
    heightBlocks: bigint,
  ): { readonly ok: true; readonly reader: StateReader } | { readonly ok: false; readonly fault: HeightFault } {
    const latestBlocks = this.#app.latestHeightBlocks();
    const [initial, kept] = [this.#app.initialHeightBlocks, this.#store.earliestHeightBlocks()];
    const isPruned = kept > initial;
    const earliestBlocks = isPruned ? kept : initial;
    const fault = heightFault(heightBlocks, {
      latestBlocks,
      earliestBlocks: heightBlocks === 0n ? 0n : earliestBlocks,
    });
    if (fault !== undefined) return { ok: false, fault };
    return { ok: true, reader: this.#store.at(heightBlocks === 0n ? latestBlocks : heightBlocks) };
  }

  #query(reader: StateReader, path: string, request: Bytes): GrpcAnswer {
    const { heightBlocks } = reader;
    try {
      const block = readBlockInfo(reader, this.#app.chainId);
      return toGrpc(this.#machine.query(reader, block, path, request), heightBlocks);
    } catch (cause) {
      // Pruned while it was read.
      if (isAppError(cause, "HEIGHT_UNAVAILABLE")) {
        return grpcFault(prunedFault(heightBlocks, this.#app.latestHeightBlocks()));
      }
      if (isAppError(cause) && cause.code !== "INTERNAL") throw cause;
      // A query that was not foreseen must not stop the node.
      this.#log.error({ path, cause }, "query failed");
      return { ok: false, status: 13, text: PANIC.text, heightBlocks };
    }
  }
}

function decodeFault(path: string, data: Bytes): string | undefined {
  const method = methodAt(path);
  const decoded = method === undefined ? undefined : decodeMessage(method.input, data);
  return decoded === undefined || decoded.ok ? undefined : goDecodeFault(decoded.fault);
}

function unknownAppQuery(path: string): AppAnswer {
  const parts = path.split("/").slice(1);
  if (parts.length >= 2) return abciFault(SDK.unknownRequest, `unknown query: [${parts.join(" ")}]`);
  const text = "expected second parameter to be either 'simulate' or 'version', neither was present";
  return abciFault(SDK.unknownRequest, text);
}
