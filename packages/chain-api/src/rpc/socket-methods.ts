import { failed, type RpcOutcome, result } from "./answers.ts";
import type { EventHub, HubOutcome, SocketClient } from "./event-hub.ts";
import { args, type RpcCaller, type RpcMethods, textOf } from "./method.ts";

/** Methods that only a WebSocket can call: subscriptions to events. */
export function socketMethods(hub: EventHub): RpcMethods {
  const over = ({ socket }: RpcCaller, act: (socket: SocketClient) => HubOutcome): RpcOutcome => {
    if (socket === undefined) return failed("subscriptions need a WebSocket");
    const outcome = act(socket);
    return outcome.ok ? result({}) : failed(outcome.fault);
  };
  return {
    subscribe: {
      args: args("query:string"),
      socketOnly: true,
      call: ([query], caller) => over(caller, (socket) => hub.subscribe(socket, caller.id, textOf(query))),
    },
    unsubscribe: {
      args: args("query:string"),
      socketOnly: true,
      call: ([query], caller) => over(caller, (socket) => hub.unsubscribe(socket, textOf(query))),
    },
    unsubscribe_all: {
      args: [],
      socketOnly: true,
      call: (_args, caller) => over(caller, (socket) => hub.unsubscribeAll(socket)),
    },
  };
}
