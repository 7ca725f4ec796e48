import type { DescMessage, Message, MessageInitShape } from "@bufbuild/protobuf";
import { AppError } from "@turnpike/base";
import { createMessage, encodeMessage, typeUrlOf } from "@turnpike/proto";
import type { StateMachine } from "../src/app/state-machine.ts";
import type { BlockInfo, ChainEvent, Context } from "../src/state/context.ts";
import { GasMeter } from "../src/state/gas.ts";
import type { MessageHandler } from "../src/state/module.ts";
import { fail, type Outcome, SDK } from "../src/state/outcome.ts";
import { Overlay } from "../src/state/overlay.ts";
import { readMessage } from "../src/state/read-message.ts";

const EMPTY = { get: () => undefined, range: () => [] };

/** A state that a test moves on block by block, without transactions: messages are run as if they were signed. */
export class TestChain {
  readonly machine: StateMachine;
  readonly handlers: ReadonlyMap<string, MessageHandler>;
  readonly state: Overlay = new Overlay(EMPTY);
  /** Gas of the message that was sent last, without that of a transaction. */
  lastGas = 0n;
  readonly #secondsPerBlock: bigint;
  #height: bigint;

  constructor(
    opts: {
      readonly heightBlocks: bigint;
      readonly appState?: Record<string, unknown>;
      /** 1 by default. */
      readonly secondsPerBlock?: bigint;
    },
    modules: { readonly machine: StateMachine; readonly handlers: ReadonlyMap<string, MessageHandler> },
  ) {
    this.#height = opts.heightBlocks;
    this.#secondsPerBlock = opts.secondsPerBlock ?? 1n;
    this.machine = modules.machine;
    this.handlers = modules.handlers;
    const { changes } = this.machine.initGenesis(EMPTY, this.block, opts.appState ?? {});
    for (const [key, value] of changes) if (value !== undefined) this.state.set(key, value);
  }

  /** The block that messages are run in. */
  get block(): BlockInfo {
    return {
      chainId: "pocket",
      heightBlocks: this.#height,
      timeNanos: 1_800_000_000_000_000_000n + this.#height * this.#secondsPerBlock * 1_000_000_000n,
      hash: new Uint8Array(32),
      proposer: new Uint8Array(0),
    };
  }

  /** A context that writes to the state. */
  get ctx(): Context {
    return { block: this.block, mode: "block", state: this.state, gas: new GasMeter(), events: [] };
  }

  /** Runs a message; on a fault nothing stays of it. */
  send<Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): Outcome<Message> {
    return this.sendMessage(typeUrlOf(schema), createMessage(schema, init));
  }

  /** Runs a message that is already made. */
  sendMessage(typeUrl: string, message: Message): Outcome<Message> {
    const handler = this.handlers.get(typeUrl);
    if (handler === undefined) throw new AppError("INTERNAL", { detail: { unknown: typeUrl } });
    // As a transaction's decoder reads it.
    const read = readMessage(handler.schema, encodeMessage(handler.schema, message));
    if (!read.ok) return fail(SDK.txDecode, read.fault);
    return this.#run(handler, read.message);
  }

  #run(handler: MessageHandler, message: Message): Outcome<Message> {
    const fault = handler.validate(message);
    if (fault !== undefined) return { ok: false, fault };
    const state = new Overlay(this.state);
    const gas = new GasMeter();
    const ran = handler.run({ ...this.ctx, state, gas }, message);
    this.lastGas = gas.used;
    if (ran.ok) state.commitTo(this.state);
    return ran;
  }

  /** Ends the block, and gives its events. */
  endBlock(): readonly ChainEvent[] {
    const { changes, events } = this.machine.runBlock(this.state, this.block, []);
    for (const [key, value] of changes) {
      if (value === undefined) this.state.delete(key);
      else this.state.set(key, value);
    }
    this.#height++;
    return events;
  }

  /** Ends blocks up to and with one, and gives the events of each that had some. */
  endBlocksTo(heightBlocks: bigint): Map<bigint, readonly ChainEvent[]> {
    const all = new Map<bigint, readonly ChainEvent[]>();
    while (this.#height <= heightBlocks) {
      const at = this.#height;
      const events = this.endBlock();
      if (events.length > 0) all.set(at, events);
    }
    return all;
  }
}
