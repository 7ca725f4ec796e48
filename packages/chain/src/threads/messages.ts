import type { Bytes, StateChange } from "@turnpike/chain-store";
import type { AppAnswer, EncodedMessage, GrpcAnswer } from "../app/types.ts";
import type { BlockInfo } from "../state/context.ts";
import type { TxResult } from "../state/outcome.ts";
import type { GasPrice } from "../tx/fees.ts";

/** What a thread opens: the store that the node has open in the same process, and the state machine on it. */
export interface ThreadData {
  readonly folder: string;
  readonly mapSizeBytes: number;
  readonly version: string;
  readonly gasPrices: readonly GasPrice[];
  /** Most time that one query or simulation may take in the thread. */
  readonly maxRunMs: number;
  /** What the thread is for. Simulations have a lower priority, where the system can give a thread one. */
  readonly name: "query" | "simulation";
}

/** One query, by gRPC path or in the form of `abci_query`. */
export interface QueryWork {
  readonly kind: "grpc" | "abci";
  readonly path: string;
  readonly data: Bytes;
  readonly heightBlocks: bigint;
}

/** One simulation on the mempool's state, which {@link ThreadRequest} of kind `state` brings. */
export interface SimulationWork {
  readonly kind: "simulate";
  readonly tx: Bytes;
  readonly maxGas: bigint;
  /** Answers of thousands of events are encoded where they are made: as `Simulate` has them, or as `/app/simulate`. */
  readonly form: "result" | "response" | "json";
}

/** A large message as the API's JSON. */
export interface JsonWork {
  readonly kind: "json";
  readonly typeName: string;
  readonly bytes: Bytes;
}

/** A large message to be read from the API's JSON. */
export interface ReadJsonWork {
  readonly kind: "read-json";
  readonly typeName: string;
  readonly json: Bytes;
}

/** Work of a thread, and the answer to it. */
export type ThreadWork = QueryWork | SimulationWork | JsonWork | ReadJsonWork;

/** What the node's thread sends. Requests are answered in their order. */
export type ThreadRequest =
  | { readonly kind: "work"; readonly id: number; readonly work: ThreadWork }
  /** Writes of the mempool's checks over the state after a block. `isNew`: earlier ones are dropped. */
  | {
      readonly kind: "state";
      readonly isNew: boolean;
      readonly stateHeightBlocks: bigint;
      readonly block: BlockInfo;
      readonly writes: readonly StateChange[];
    };

/** Answers by the kind of their work. */
export type ThreadAnswer =
  | { readonly kind: "grpc"; readonly answer: GrpcAnswer }
  | { readonly kind: "abci"; readonly answer: AppAnswer }
  /** Without events and data where `encoded` has them. */
  | { readonly kind: "simulate"; readonly result: TxResult; readonly encoded: Bytes | undefined }
  | { readonly kind: "json"; readonly text: string }
  | { readonly kind: "read-json"; readonly message: EncodedMessage }
  /** The work took too long, and was broken off. */
  | { readonly kind: "late" }
  /** A fault of the store or of the program, by its code of `packages/base`. */
  | { readonly kind: "fault"; readonly code: string; readonly message: string };

/** What a thread sends. */
export type ThreadReply =
  | { readonly kind: "ready" }
  /** `runMs`: what the work took. */
  | ({ readonly id: number; readonly runMs?: number } & ThreadAnswer);
