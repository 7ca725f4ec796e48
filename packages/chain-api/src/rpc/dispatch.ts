import { isAppError, type Log } from "@turnpike/base";
import type { EventLoopQueue } from "@turnpike/chain-node";
import { BUSY, failed, type RpcOutcome } from "./answers.ts";
import { type ArgumentValue, argumentFromJson, type ReadArgument } from "./arguments.ts";
import { elementsOf, kindOf, membersOf, type RawJson } from "./go-json.ts";
import type { RpcCaller, RpcMethod } from "./method.ts";
import { byteList } from "./requests.ts";

/** Values of a method's arguments, or why they cannot be read. */
export type ReadArguments =
  | { readonly ok: true; readonly values: readonly ArgumentValue[] }
  | { readonly ok: false; readonly fault: string };

/** CometBFT's text when a method with arguments is called without any `params`. */
export const TOO_FEW_ARGUMENTS = "reflect: Call with too few input arguments";

function collect(read: readonly ReadArgument[]): ReadArguments {
  const values: ArgumentValue[] = [];
  for (const one of read) {
    if (!one.ok) return one;
    values.push(one.value);
  }
  return { ok: true, values };
}

/** Reads the arguments of a method by name or by place. */
export function argumentsFromParams(method: RpcMethod, params: RawJson, maxDepth: number): ReadArguments {
  const kind = kindOf(params);
  const { args } = method;
  if (kind === "null") return { ok: true, values: args.map(() => undefined) };
  if (kind === "object") {
    const members = membersOf(params, maxDepth);
    return collect(args.map((arg) => argumentFromJson(arg.kind, members.get(arg.name) ?? "null")));
  }
  if (kind !== "array") {
    const why = `json: cannot unmarshal ${kind} into Go value of type []json.RawMessage`;
    return { ok: false, fault: `unknown type for JSON params: ${why}. Expected map or array` };
  }
  const elements = elementsOf(params, maxDepth);
  if (elements.length !== args.length) {
    const names = args.map(({ name }) => name).join(" ");
    const shown = elements.slice(0, 16).map(byteList).join(" ") + (elements.length > 16 ? " …" : "");
    const fault = `expected ${args.length} parameters ([${names}]), got ${elements.length} ([${shown}])`;
    return { ok: false, fault };
  }
  return collect(args.map((arg, i) => argumentFromJson(arg.kind, elements[i] ?? "null")));
}

/** Calls a method in its turn. What it did not foresee becomes an error of the answer, and a line in the log. */
export async function callMethod(
  method: RpcMethod,
  values: readonly ArgumentValue[],
  caller: RpcCaller,
  { log, queue }: { readonly log: Log; readonly queue: EventLoopQueue },
): Promise<RpcOutcome> {
  try {
    const outcome = await queue.run(
      () => (caller.signal.aborted ? failed("the client is gone") : method.call(values, caller)),
      caller.clientKey,
    );
    return outcome ?? BUSY;
  } catch (error) {
    if (isAppError(error)) return failed(error.message);
    log.error({ error }, "RPC method failed");
    return failed("internal error");
  }
}

/** True when an answer to these arguments may be kept by caches. */
export function mayBeCached({ cacheable = false, args }: RpcMethod, values: readonly ArgumentValue[]): boolean {
  if (typeof cacheable === "boolean") return cacheable;
  return values[args.findIndex(({ name }) => name === cacheable)] !== undefined;
}
