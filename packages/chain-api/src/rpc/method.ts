import type { ClientKey } from "@turnpike/base";
import type { RpcId, RpcOutcome } from "./answers.ts";
import type { ArgumentKind, ArgumentValue } from "./arguments.ts";
import type { SocketClient } from "./event-hub.ts";

/** Who calls a method. */
export interface RpcCaller {
  /** Address and port of the other side. */
  readonly client: string;
  /** Key under which the client's connections are counted; undefined for a trusted proxy. */
  readonly clientKey: ClientKey;
  /** Aborts when the other side is gone or the server ends. */
  readonly signal: AbortSignal;
  readonly id: RpcId;
  /** Only of calls over a WebSocket. */
  readonly socket?: SocketClient;
}

/** One argument of a method. */
export interface RpcArgument {
  readonly name: string;
  readonly kind: ArgumentKind;
}

/** One method of the RPC. */
export interface RpcMethod {
  readonly args: readonly RpcArgument[];
  /** True: its answers may be kept by caches. A name: unless that argument is not given. */
  readonly cacheable?: boolean | string;
  /** True: over WebSockets alone. */
  readonly socketOnly?: boolean;
  /** @param args values in the order of {@link args} */
  call(args: readonly ArgumentValue[], caller: RpcCaller): RpcOutcome | Promise<RpcOutcome>;
}

/** Methods by name. */
export type RpcMethods = Readonly<Record<string, RpcMethod>>;

/** Arguments of a text such as `height:int64 page:int`. */
export function args(text: string): readonly RpcArgument[] {
  return text.split(" ").map((part) => {
    const [name = "", kind = ""] = part.split(":");
    return { name, kind: kind as ArgumentKind };
  });
}

/** An integer argument, if it was given. */
export const integerOf = (value: ArgumentValue): bigint | undefined => (typeof value === "bigint" ? value : undefined);

/** A text argument; the empty one by default. */
export const textOf = (value: ArgumentValue): string => (typeof value === "string" ? value : "");

/** A bytes argument; none by default. */
export const bytesOf = (value: ArgumentValue): Uint8Array => (value instanceof Uint8Array ? value : new Uint8Array(0));
