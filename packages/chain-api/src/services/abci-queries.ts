import timers from "node:timers/promises";
import type { ClientKey } from "@turnpike/base";
import {
  type AbciQuerier,
  type AppAnswer,
  abciFault,
  abciOfGrpc,
  abciOfStatus,
  goDecodeFault,
  heightFault,
  type QueryAnswer,
  refuse,
  SDK,
  simulationJson,
} from "@turnpike/chain";
import { EventLoopQueue, type RunStep } from "@turnpike/chain-node";
import type { Bytes } from "@turnpike/chain-store";
import { decodeMessage, type tx as txs } from "@turnpike/proto";
import { type ApiMethod, callApiMethod } from "./api-method.ts";
import { baseServices, type ChainApiOptions } from "./base-services.ts";
import { type ChainApiModules, faultOf } from "./chain-api.ts";
import { isMalformed, partsExcess, sizeExcess } from "./request-bounds.ts";
import { encodedSimulation, SIMULATE_PATH, TOO_MANY_SIMULATIONS } from "./simulation.ts";
import { BROADCAST_PATH } from "./tx-service.ts";

export interface AbciQueriesOptions extends ChainApiOptions {
  /** Calls of the base services at one time; 16 by default. What is more is refused. */
  readonly maxCalls?: number;
  /** How long one of them may take; 3 s by default. The start of a simulation's thread does not count. */
  readonly timeoutMs?: number;
}

type ServiceAnswer = QueryAnswer<Bytes>;

interface ServiceQuery {
  readonly path: string;
  readonly data: Bytes;
  /** 0: the newest height. */
  readonly asked: bigint;
  readonly client: ClientKey;
}

/**
 * `abci_query` of a whole node: the application's state, and the base services over blocks and transactions. Under CometBFT
 * all clients' queries share one connection, on which answers keep their order, and these services ask CometBFT itself: so
 * they are bounded in number and in time.
 */
export class AbciQueries implements AbciQuerier {
  readonly #opts: { readonly maxCalls: number; readonly timeoutMs: number };
  readonly #modules: ChainApiModules;
  readonly #services: ReadonlyMap<string, ApiMethod>;
  readonly #queue: EventLoopQueue;
  #calls = 0;

  constructor({ maxCalls = 16, timeoutMs = 3_000, ...api }: AbciQueriesOptions, modules: ChainApiModules) {
    this.#opts = { maxCalls, timeoutMs };
    this.#modules = modules;
    this.#services = baseServices(api, modules);
    this.#queue = modules.queue ?? new EventLoopQueue();
  }

  /** Asks as `abci_query` does. @param heightBlocks 0: the newest */
  abciQuery(path: string, data: Bytes, heightBlocks = 0n, client?: ClientKey): AppAnswer | Promise<AppAnswer> {
    if (path === BROADCAST_PATH) return abciFault(SDK.invalidRequest, "can't route a broadcast tx message");
    const method = this.#services.get(path);
    if (method !== undefined) return this.#askService(method, { path, data, asked: heightBlocks, client });
    const [, root, what] = path.split("/");
    if (root === "app" && what === "simulate") return this.#simulate(data, heightBlocks, client);
    return this.#modules.application.abciQuery(path, data, heightBlocks, client);
  }

  async #askService(method: ApiMethod, { path, data, asked, client }: ServiceQuery): Promise<AppAnswer> {
    const latestBlocks = this.#modules.application.latestHeightBlocks();
    const fault = heightFault(asked, { latestBlocks, earliestBlocks: 0n });
    if (fault !== undefined) return abciFault(fault.kind, fault.text);
    const heightBlocks = asked === 0n ? latestBlocks : asked;
    const large = sizeExcess(path, data);
    if (large !== undefined) return abciOfGrpc({ ok: false, ...large, heightBlocks });
    const excess = partsExcess(method.input, data);
    if (excess !== undefined && !isMalformed(excess)) return abciFault(SDK.invalidRequest, excess, heightBlocks);
    const decoded = decodeMessage(method.input, data);
    if (!decoded.ok) return abciFault(SDK.invalidRequest, goDecodeFault(decoded.fault), heightBlocks);
    const ask = async (): Promise<ServiceAnswer> => {
      try {
        const encoded =
          path === SIMULATE_PATH
            ? await encodedSimulation(this.#modules.application, decoded.message as txs.SimulateRequest, client)
            : undefined;
        if (encoded !== undefined) return encoded;
        const run: RunStep = (work) => this.#queue.run(work, client);
        return await callApiMethod(method, decoded.message, { heightBlocks, client, run });
      } catch (error) {
        return faultOf(path, error, this.#modules.log);
      }
    };
    // Simulations have bounds of their own.
    if (path === SIMULATE_PATH) await this.#modules.application.simulationsReady?.();
    const answer = await (path === SIMULATE_PATH ? this.#timed(ask()) : this.#bounded(ask, client));
    if (answer.ok) return abciOfGrpc({ ...answer, heightBlocks });
    // The only one whose plain error the SDK gives as a status.
    return path === SIMULATE_PATH ? abciOfStatus({ ...answer, heightBlocks }) : abciOfGrpc({ ...answer, heightBlocks });
  }

  async #simulate(tx: Bytes, asked: bigint, client: ClientKey): Promise<AppAnswer> {
    const { application } = this.#modules;
    const encoded = await application.simulateEncoded?.(tx, "json", client);
    const result = application.simulateEncoded === undefined ? await application.simulate(tx, client) : encoded?.result;
    if (result === undefined) return abciFault(SDK.unknownRequest, TOO_MANY_SIMULATIONS);
    if (result.code === 0) {
      const heightBlocks = asked === 0n ? application.latestHeightBlocks() : asked;
      return { code: 0, codespace: "sdk", log: "", value: encoded?.encoded ?? simulationJson(result), heightBlocks };
    }
    const { code, codespace } = result;
    const log = `failed to simulate tx: ${result.log}`;
    return { code, codespace, log, value: new Uint8Array(0), heightBlocks: 0n };
  }

  // One that is late keeps its place until it ends: it still asks.
  async #bounded(work: () => Promise<ServiceAnswer>, client: ClientKey): Promise<ServiceAnswer> {
    const busy = refuse("ResourceExhausted", "too many requests wait");
    if (this.#calls >= this.#opts.maxCalls) return busy;
    this.#calls++;
    const answer = this.#queue.run(work, client).finally(() => this.#calls--);
    return this.#timed(answer.then((value) => value ?? busy));
  }

  async #timed(asked: Promise<ServiceAnswer>): Promise<ServiceAnswer> {
    const timer = new AbortController();
    const late = timers.setTimeout(this.#opts.timeoutMs, undefined, { signal: timer.signal }).then(
      () => refuse("DeadlineExceeded", "the node did not answer in time"),
      // Answered before.
      () => asked,
    );
    try {
      return await Promise.race([asked, late]);
    } finally {
      timer.abort();
    }
  }
}
