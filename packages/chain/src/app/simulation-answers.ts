import type { Bytes } from "@turnpike/chain-store";
import { type Any, baseAbci, cometAbci, createMessage, decodeMessage, toApiJsonText, tx as txs } from "@turnpike/proto";
import type { ChainEvent } from "../state/context.ts";
import { refuse } from "../state/grpc-status.ts";
import type { QueryAnswer } from "../state/module.ts";
import type { TxResult } from "../state/outcome.ts";

// What the real chain shows where there is no limit.
const NO_GAS_LIMIT = (1n << 64n) - 1n;

/** Events as protobuf has them. */
export function eventMessages(events: readonly ChainEvent[], indexed?: false): cometAbci.Event[] {
  return events.map(({ type, attributes }) =>
    createMessage(cometAbci.EventSchema, {
      type,
      attributes: attributes.map(({ key, value, index }) => ({ key, value, index: indexed ?? index })),
    }),
  );
}

/** Responses of the messages of a transaction, from its data. */
function messageResponses(data: Bytes): Any[] {
  const decoded = decodeMessage(baseAbci.TxMsgDataSchema, data);
  return decoded.ok ? decoded.message.msgResponses : [];
}

function partsOf(result: TxResult): { gasInfo: baseAbci.GasInfo; result: baseAbci.Result } {
  return {
    gasInfo: createMessage(baseAbci.GasInfoSchema, { gasWanted: NO_GAS_LIMIT, gasUsed: result.gasUsed }),
    result: createMessage(baseAbci.ResultSchema, {
      data: result.data,
      log: result.log,
      events: eventMessages(result.events, false),
      msgResponses: messageResponses(result.data),
    }),
  };
}

/** What `Simulate` answers. */
export function simulateResponse(result: TxResult): QueryAnswer<txs.SimulateResponse> {
  if (result.code !== 0) return refuse("Unknown", `${result.log} with gas used: '${result.gasUsed}'`);
  return { ok: true, value: createMessage(txs.SimulateResponseSchema, partsOf(result)) };
}

/** What `/app/simulate` answers: JSON. */
export function simulationJson(result: TxResult): Bytes {
  const response = createMessage(baseAbci.SimulationResponseSchema, partsOf(result));
  return Buffer.from(toApiJsonText(baseAbci.SimulationResponseSchema, response), "utf8");
}
