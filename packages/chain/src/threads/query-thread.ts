import { setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { isAppError, silentLog } from "@turnpike/base";
import { type Bytes, SharedStates, type StateReader } from "@turnpike/chain-store";
import {
  decodeMessage,
  encodeMessage,
  fromApiJsonText,
  schemaOfTypeUrl,
  toApiJsonText,
  tx as txs,
} from "@turnpike/proto";
import { AppQueries, type QueriedApp } from "../app/app-queries.ts";
import { readStart, type StartRecord } from "../app/chain-start.ts";
import { pocketMachine } from "../app/pocket-machine.ts";
import { simulateResponse, simulationJson } from "../app/simulation-answers.ts";
import type { StateMachine } from "../app/state-machine.ts";
import type { TxResult } from "../state/outcome.ts";
import { Overlay } from "../state/overlay.ts";
import { Deadline, TimedReads } from "./deadline.ts";
import type {
  JsonWork,
  QueryWork,
  ReadJsonWork,
  SimulationWork,
  ThreadAnswer,
  ThreadData,
  ThreadReply,
  ThreadRequest,
  ThreadWork,
} from "./messages.ts";

const SIMULATION_NICE = 10;

class TimedReader extends TimedReads implements StateReader {
  readonly heightBlocks: bigint;

  constructor(reader: StateReader, deadline: Deadline) {
    super(reader, deadline);
    this.heightBlocks = reader.heightBlocks;
  }
}

/** The mempool's state as the node's thread last sent it. */
interface CheckedState {
  readonly overlay: Overlay;
  readonly request: ThreadRequest & { readonly kind: "state" };
}

class QueryThread {
  readonly #data: ThreadData;
  readonly #states: SharedStates;
  readonly #machine: StateMachine;
  #start: StartRecord | undefined;
  #checked: CheckedState | undefined;

  constructor(data: ThreadData) {
    this.#data = data;
    this.#states = new SharedStates(data);
    this.#machine = pocketMachine({ gasPrices: data.gasPrices }).machine;
  }

  answer(work: ThreadWork): ThreadAnswer {
    const deadline = new Deadline(this.#data, { nowMs: () => performance.now() });
    let answer: ThreadAnswer;
    try {
      this.#states.renew();
      answer = this.#answer(work, deadline);
    } catch (error) {
      const code = isAppError(error) ? error.code : "INTERNAL";
      answer = { kind: "fault", code, message: error instanceof Error ? error.message : "unknown" };
    }
    return deadline.passed ? { kind: "late" } : answer;
  }

  #answer(work: ThreadWork, deadline: Deadline): ThreadAnswer {
    switch (work.kind) {
      case "json":
        return jsonOf(work);
      case "read-json":
        return messageOf(work);
      case "simulate":
        return this.#simulate(work, deadline);
      case "grpc":
      case "abci":
        return this.#query(work, deadline);
    }
  }

  /** Takes over what the mempool's checks wrote. */
  keep(request: CheckedState["request"]): void {
    if (request.isNew || this.#checked === undefined) {
      const height = request.stateHeightBlocks;
      const base = {
        get: (key: Uint8Array) => this.#states.at(height).get(key),
        range: (options: Parameters<StateReader["range"]>[0]) => this.#states.at(height).range(options),
      };
      this.#checked = { overlay: new Overlay(base), request };
    }
    const { overlay } = this.#checked;
    for (const [key, value] of request.writes) {
      if (value === undefined) overlay.delete(key);
      else overlay.set(key, value);
    }
  }

  #query({ kind, path, data, heightBlocks }: QueryWork, deadline: Deadline): ThreadAnswer {
    this.#start ??= readStart(this.#states);
    const states = this.#states;
    const start = this.#start;
    const app: QueriedApp = {
      version: this.#data.version,
      chainId: start?.chainId ?? "",
      initialHeightBlocks: start?.initialHeightBlocks ?? 0n,
      latestHeightBlocks() {
        const newest = states.latestHeightBlocks();
        return start === undefined || newest === undefined || newest < start.initialHeightBlocks ? 0n : newest;
      },
    };
    const store = {
      at: (height: bigint) => new TimedReader(states.at(height), deadline),
      earliestHeightBlocks: () => states.earliestHeightBlocks(),
    };
    const queries = new AppQueries({ app, machine: this.#machine, store, log: silentLog });
    if (kind === "grpc") return { kind, answer: queries.grpcQuery(path, data, heightBlocks) };
    return { kind, answer: queries.abciQuery(path, data, heightBlocks) };
  }

  #simulate({ tx, maxGas, form }: SimulationWork, deadline: Deadline): ThreadAnswer {
    const checked = this.#checked;
    if (checked === undefined) return { kind: "fault", code: "INTERNAL", message: "there is no state to simulate on" };
    const state = new Overlay(new TimedReads(checked.overlay, deadline));
    const result = this.#machine.runTx(state, checked.request.block, "simulate", tx, maxGas);
    if (form === "result" || result.code !== 0) return { kind: "simulate", result, encoded: undefined };
    const encoded = form === "json" ? simulationJson(result) : encodedResponse(result);
    return { kind: "simulate", result: { ...result, events: [], data: new Uint8Array(0) }, encoded };
  }
}

function encodedResponse(result: TxResult): Bytes | undefined {
  const response = simulateResponse(result);
  return response.ok ? encodeMessage(txs.SimulateResponseSchema, response.value) : undefined;
}

function jsonOf({ typeName, bytes }: JsonWork): ThreadAnswer {
  const schema = schemaOfTypeUrl(`/${typeName}`);
  const decoded = schema === undefined ? undefined : decodeMessage(schema, bytes);
  if (schema === undefined || decoded?.ok !== true) {
    return { kind: "fault", code: "INTERNAL", message: `the bytes are no ${typeName}` };
  }
  return { kind: "json", text: toApiJsonText(schema, decoded.message) };
}

function messageOf({ typeName, json }: ReadJsonWork): ThreadAnswer {
  const schema = schemaOfTypeUrl(`/${typeName}`);
  if (schema === undefined) return { kind: "fault", code: "INTERNAL", message: `there is no type ${typeName}` };
  const read = fromApiJsonText(schema, json);
  return { kind: "read-json", message: read.ok ? { ok: true, bytes: encodeMessage(schema, read.message) } : read };
}

if (parentPort !== null) {
  const port = parentPort;
  const send = (reply: ThreadReply): void => port.postMessage(reply);
  const data = workerData as ThreadData;
  // On Linux the priority is the thread's own: blocks and queries come before simulations where cores are few.
  if (data.name === "simulation" && process.platform === "linux") setPriority(0, SIMULATION_NICE);
  const thread = new QueryThread(data);
  port.on("message", (request: ThreadRequest) => {
    if (request.kind === "state") thread.keep(request);
    else {
      const startMs = performance.now();
      const answer = thread.answer(request.work);
      send({ id: request.id, runMs: performance.now() - startMs, ...answer });
    }
  });
  send({ kind: "ready" });
}
