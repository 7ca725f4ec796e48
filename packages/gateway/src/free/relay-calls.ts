import { type Clock, type ErrorCode, errorRow } from "@turnpike/base";
import type { Service } from "@turnpike/catalogue";
import { type BackendCall, type FreeRequest, mintFree, mintParsed } from "@turnpike/protocol";
import {
  type FreePath,
  type FreeRpc,
  parseFreePath,
  parseFreeRpc,
  type Relay,
  type RelayResult,
} from "@turnpike/relay";
import type { Answer } from "../http/answer.ts";
import type { Exchange } from "../http/request.ts";
import { codeAnswer, codeError, rpcAnswer, SILENCE } from "./answers.ts";
import { type RpcItem, rpcError } from "./jsonrpc.ts";

/** What {@link createRelayCalls} works with. */
export interface RelayCallsModules {
  readonly relay: Relay;
  readonly clock: Clock;
  /** Deadline of a call. */
  readonly timeoutMs: number;
  readonly stopping: AbortSignal;
}

/** Free calls, from what was read to what is answered. Limits are behind them. */
export interface RelayCalls {
  single(exchange: Exchange, service: Service, item: RpcItem): Promise<Answer>;
  batch(exchange: Exchange, service: Service, items: readonly RpcItem[]): Promise<Answer>;
  path(exchange: Exchange, service: Service, input: FreePath): Promise<Answer>;
}

/** Nothing is paid for, so nothing is bound to the request's bytes. */
const NO_HASH = new Uint8Array(0);

/** One answer within a batch: a text of ours, or what came of a call that was relayed. */
type Slot = { readonly text: string } | { readonly id: string; readonly at: number };

/** Makes {@link RelayCalls}. */
export function createRelayCalls(modules: RelayCallsModules): RelayCalls {
  const { relay, clock, stopping } = modules;

  const mint = (exchange: Exchange, service: Service, call: BackendCall): FreeRequest => {
    const { requestId } = exchange;
    const request = mintParsed({ requestId, serviceId: service.id, call, requestHash: NO_HASH });
    return mintFree({ request, deadlineMs: clock.monotonicMs() + modules.timeoutMs });
  };

  const notify = async (exchange: Exchange, service: Service, rpc: FreeRpc): Promise<void> => {
    const parsed = parseFreeRpc(service, rpc);
    if (parsed.ok) await relay.notify(mint(exchange, service, parsed.call), stopping);
  };

  return {
    async single(exchange, service, item) {
      if (item.kind === "invalid") {
        return rpcAnswer(400, "MALFORMED_REQUEST", rpcError(item.id, -32600, item.message));
      }
      if (item.kind === "notification") {
        await notify(exchange, service, item.rpc);
        return SILENCE;
      }
      const parsed = parseFreeRpc(service, item.rpc);
      if (!parsed.ok) {
        return rpcAnswer(200, parsed.code, refusal(item.id, parsed.code, parsed.message));
      }
      const result = await relay.send(mint(exchange, service, parsed.call), stopping);
      return result.ok ? rpcAnswer(200, "ok", result.relayed.body) : codeAnswer(item.id, result.code);
    },

    async batch(exchange, service, items) {
      const slots: Slot[] = [];
      const requests: FreeRequest[] = [];
      const notified: Promise<void>[] = [];
      for (const item of items) {
        if (item.kind === "invalid") slots.push({ text: rpcError(item.id, -32600, item.message) });
        else if (item.kind === "notification") notified.push(notify(exchange, service, item.rpc));
        else {
          const parsed = parseFreeRpc(service, item.rpc);
          if (parsed.ok) {
            slots.push({ id: item.id, at: requests.length });
            requests.push(mint(exchange, service, parsed.call));
          } else slots.push({ text: refusal(item.id, parsed.code, parsed.message) });
        }
      }
      const [results] = await Promise.all([
        requests.length === 0 ? [] : relay.sendBatch(requests, stopping),
        Promise.all(notified),
      ]);
      return slots.length === 0 ? SILENCE : batchAnswer(slots, results);
    },

    async path(exchange, service, input) {
      const parsed = parseFreePath(service, input);
      if (!parsed.ok) return codeAnswer("null", parsed.code);
      const result = await relay.send(mint(exchange, service, parsed.call), stopping);
      if (!result.ok) return codeAnswer("null", result.code);
      const { status, contentType, body } = result.relayed;
      return { ...rpcAnswer(status, "ok", body), contentType: safeType(contentType) };
    },
  };
}

function refusal(id: string, code: ErrorCode, message: string | undefined): string {
  const row = errorRow(code);
  const text =
    code === "METHOD_NOT_ALLOWED" ? "This method is not offered on the free relay." : (message ?? row.message);
  return rpcError(id, row.rpc, text);
}

const TYPE = /^[a-z0-9.+-]{1,64}\/[a-z0-9.+-]{1,64}(?:;[ a-z0-9=".+-]{1,64})?$/i;

/** A supplier's content type as it came, but none that a browser would run. */
function safeType(contentType: string): string {
  return TYPE.test(contentType) && !/html|script|svg|xml/i.test(contentType) ? contentType : "application/json";
}

const OPEN = Buffer.from("[");
const COMMA = Buffer.from(",");
const CLOSE = Buffer.from("]");

/**
 * The answers in the order of their calls. Its status is 200, unless every one of them is the same failure of ours.
 */
function batchAnswer(slots: readonly Slot[], results: readonly RelayResult[]): Answer {
  const parts: Uint8Array[] = [OPEN];
  const codes = new Set<ErrorCode | "ok">();
  for (const [index, slot] of slots.entries()) {
    if (index > 0) parts.push(COMMA);
    if ("text" in slot) {
      parts.push(Buffer.from(slot.text));
      codes.add("ok");
      continue;
    }
    const result = results[slot.at];
    if (result?.ok === true) {
      parts.push(result.relayed.body);
      codes.add("ok");
    } else {
      const code = result?.code ?? "INTERNAL";
      parts.push(Buffer.from(codeError(slot.id, code)));
      codes.add(code);
    }
  }
  parts.push(CLOSE);
  const body = Buffer.concat(parts);
  const [only = "ok"] = codes;
  if (codes.size > 1 || only === "ok") return rpcAnswer(200, "ok", body);
  return { ...codeAnswer("null", only), body };
}
