import { AppError, isEngineLimit } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { type Any, baseAbci, createMessage, encodeMessage, packAny } from "@turnpike/proto";
import { stopsNode } from "../state/block-parts.ts";
import {
  addEvents,
  type BlockInfo,
  type ChainEvent,
  type Context,
  chainEvent,
  type ExecutionMode,
  withAttribute,
} from "../state/context.ts";
import { sumOfEventBytes } from "../state/event-bytes.ts";
import { GasMeter, OutOfGas } from "../state/gas.ts";
import type { MessageHandler } from "../state/module.ts";
import { done, fail, faultIn, type Outcome, SDK, type TxFault, type TxResult } from "../state/outcome.ts";
import { Overlay, type StateView } from "../state/overlay.ts";
import { type AnteOptions, runAnte } from "./ante.ts";
import { type DecodedTx, decodeTx, type RoutedMessage } from "./decode.ts";
import type { DecodedTxs } from "./decoded-txs.ts";
import { MAX_TX_EVENT_BYTES, MAX_TX_EVENTS, txSizeFault } from "./tx-bounds.ts";

/** How transactions are run. */
export interface TxOptions extends AnteOptions {
  /** By type URL. */
  readonly handlers: ReadonlyMap<string, MessageHandler>;
  /** What was read of transactions before, by the same handlers. */
  readonly decoded: DecodedTxs;
  /** Most gas of a simulation, which names none itself; undefined: any. */
  readonly simulationGas?: bigint | undefined;
}

const NOTHING = new Uint8Array(0);

/**
 * Out of gas is the transaction's own fault. Another error of the program is the same on every node, and is recovered from as
 * the SDK recovers from a panic: it must not stop the chain. One that comes of this machine is not: in a block the node stops,
 * or it would keep a result that others do not have. A damaged store stops it, too.
 */
function guarded<T>(gas: GasMeter, mode: ExecutionMode, step: () => Outcome<T>): Outcome<T> {
  try {
    return step();
  } catch (error) {
    if (error instanceof OutOfGas) {
      return fail(SDK.outOfGas, `${error.message}; gasWanted: ${gas.limit ?? 0n}, gasUsed: ${gas.used}`);
    }
    if (stopsNode(error)) throw error;
    if (mode === "deliver" && isEngineLimit(error)) throw new AppError("CHAIN_ENGINE_LIMIT", { cause: error });
    return fail({ codespace: "sdk", code: 111_222, text: "panic" }, "recovered");
  }
}

function checkedForm(
  bytes: Bytes,
  mode: ExecutionMode,
  { handlers, decoded: kept }: Pick<TxOptions, "handlers" | "decoded">,
): Outcome<DecodedTx> {
  const known = kept.find(bytes, mode);
  if (known !== undefined) return done(known);
  const decoded = decodeTx(bytes, handlers);
  if (!decoded.ok) return decoded;
  for (const { handler, message } of decoded.value.messages) {
    const fault = handler.validate(message);
    if (fault !== undefined) return { ok: false, fault };
  }
  kept.keep(bytes, mode, decoded.value);
  return decoded;
}

function moduleOf(typeUrl: string): string | undefined {
  return typeUrl.split(".")[1];
}

/** Answer of a message, and the bytes of its events. */
interface MessageAnswer {
  readonly response: Any;
  readonly eventBytes: number;
}

function runMessage(ctx: Context, routed: RoutedMessage, index: number): Outcome<MessageAnswer> {
  const events: ChainEvent[] = [];
  const ran = routed.handler.run({ ...ctx, events }, routed.message);
  if (!ran.ok) {
    return { ok: false, fault: faultIn(`failed to execute message; message index: ${index}`, ran.fault) };
  }
  const [sender] = routed.signers;
  const named = events.some(({ type, attributes }) => type === "message" && attributes.some((a) => a.key === "module"));
  const owner = named ? undefined : moduleOf(routed.typeUrl);
  const action = chainEvent("message", {
    action: routed.typeUrl,
    ...(sender === undefined ? {} : { sender }),
    ...(owner === undefined ? {} : { module: owner }),
  });
  const added = withAttribute([action, ...events], "msg_index", index.toString());
  addEvents(ctx, added);
  if (ctx.events.length > MAX_TX_EVENTS) {
    return fail(SDK.invalidRequest, `the messages have more than ${MAX_TX_EVENTS} events`);
  }
  return done({ response: packAny(routed.handler.response, ran.value), eventBytes: sumOfEventBytes(added) });
}

function runMessages(ctx: Context, tx: DecodedTx): Outcome<Bytes> {
  const msgResponses: Any[] = [];
  let eventBytes = 0;
  for (const [i, routed] of tx.messages.entries()) {
    const answer = runMessage(ctx, routed, i);
    if (!answer.ok) return answer;
    eventBytes += answer.value.eventBytes;
    if (eventBytes > MAX_TX_EVENT_BYTES) {
      return fail(SDK.invalidRequest, `the events of the messages have more than ${MAX_TX_EVENT_BYTES} bytes`);
    }
    msgResponses.push(answer.value.response);
  }
  const data = createMessage(baseAbci.TxMsgDataSchema, { msgResponses });
  return done(encodeMessage(baseAbci.TxMsgDataSchema, data));
}

function refused(fault: TxFault, gas: GasMeter | undefined, events: readonly ChainEvent[] = []): TxResult {
  const { code, codespace, text: log } = fault;
  // Refused for its gas, it may want any 64 bits: cast as Go casts them, or no answer could hold it.
  const gasWanted = BigInt.asIntN(64, gas?.limit ?? 0n);
  return { code, codespace, log, data: NOTHING, gasWanted, gasUsed: gas?.used ?? 0n, events };
}

/**
 * Runs a transaction on a state. What the checks before the messages write (fee, sequence, key) stays when a message
 * fails; the messages' writes and events stay only when all of them succeed. The mempool's modes stop before the messages.
 * @throws AppError CHAIN_ENGINE_LIMIT in a block, when this machine cannot compute the result
 */
export function runTx(
  state: StateView,
  block: BlockInfo,
  mode: Extract<ExecutionMode, "check" | "recheck" | "deliver" | "simulate">,
  bytes: Bytes,
  { simulationGas, ...options }: TxOptions,
): TxResult {
  const tooLarge = txSizeFault(bytes);
  if (tooLarge !== undefined) return refused(tooLarge, undefined);
  const decoded = guarded(new GasMeter(), mode, () => checkedForm(bytes, mode, options));
  if (!decoded.ok) return refused(decoded.fault, undefined);
  const tx = decoded.value;
  const isGenesis = block.heightBlocks === 0n;
  const gas = new GasMeter(mode === "simulate" ? simulationGas : isGenesis ? undefined : tx.fee.gasLimit);
  const anteState = new Overlay(state);
  const anteEvents: ChainEvent[] = [];
  const ante = guarded(gas, mode, () =>
    runAnte({ block, mode, state: anteState, gas, events: anteEvents }, tx, options),
  );
  if (!ante.ok) return refused(ante.fault, gas);
  anteState.commitTo(state);
  const passed = { code: 0, codespace: "", log: "", gasWanted: tx.fee.gasLimit };
  if (mode === "check" || mode === "recheck") {
    return { ...passed, data: NOTHING, gasUsed: gas.used, events: anteEvents };
  }
  const messageState = new Overlay(state);
  const events: ChainEvent[] = [];
  const ran = guarded(gas, mode, () => runMessages({ block, mode, state: messageState, gas, events }, tx));
  if (!ran.ok) return refused(ran.fault, gas, anteEvents);
  messageState.commitTo(state);
  return { ...passed, data: ran.value, gasUsed: gas.used, events: anteEvents.concat(events) };
}
