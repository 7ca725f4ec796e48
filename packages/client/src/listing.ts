import { ACCEPT_GZIP, AppError, isRecord, visibleLine } from "@turnpike/base";
import { readAnswer } from "./answers.ts";
import { listedPriceUsd } from "./budget.ts";
import { unreachable } from "./transport.ts";
import type { ListedService } from "./types.ts";

const MAX_LIST_BYTES = 4 * 1_048_576;
const MAX_SERVICES = 5_000;
const MAX_METHODS = 2_000;
const MAX_TEXT_LENGTH = 300;
/** Maximum characters of an example's JSON: it is shown as a command to copy. */
const MAX_EXAMPLE_LENGTH = 4_096;
const ID = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** A service of the list, whose texts may be shown as they are: bounded, on one line, without characters that are not seen. */
function listed(item: unknown): ListedService[] {
  if (!isRecord(item) || typeof item.id !== "string" || !ID.test(item.id)) return [];
  const { id, serves, paid, relayUrl, example, methods, price } = item;
  return [
    {
      id,
      serves: serves !== false,
      paid: paid !== false,
      relayUrl: typeof relayUrl === "string" ? visibleLine(relayUrl, MAX_TEXT_LENGTH) : undefined,
      example: JSON.stringify(example ?? null).length <= MAX_EXAMPLE_LENGTH ? example : undefined,
      methods: (Array.isArray(methods) ? (methods as unknown[]) : [])
        .slice(0, MAX_METHODS)
        .flatMap((name) => (typeof name === "string" ? visibleLine(name, MAX_TEXT_LENGTH) : [])),
      priceUsd: listedPriceUsd(price),
    },
  ];
}

/**
 * Services that a gateway sells; undefined when it has no such list, as other makers' gateways.
 * @throws AppError GATEWAY_UNREACHABLE when nothing answers.
 */
export async function listServices(
  opts: {
    /** Base URL of the gateway, without a slash at its end. */
    readonly gateway: string;
    /** Time for the request; 10,000 by default. */
    readonly requestTimeoutMs?: number;
  },
  modules: { readonly fetch?: typeof globalThis.fetch } = {},
): Promise<readonly ListedService[] | undefined> {
  const { gateway } = opts;
  const ask = modules.fetch ?? globalThis.fetch;
  try {
    const signal = AbortSignal.timeout(opts.requestTimeoutMs ?? 10_000);
    const answer = await readAnswer(
      await ask(`${gateway}/services.json`, { headers: ACCEPT_GZIP, redirect: "error", signal }),
      { maxBytes: MAX_LIST_BYTES },
    );
    if (answer.fault === "lost") throw new AppError("GATEWAY_UNREACHABLE");
    return answer.status === 200 && Array.isArray(answer.json)
      ? answer.json.slice(0, MAX_SERVICES).flatMap(listed)
      : undefined;
  } catch (cause) {
    throw unreachable(gateway, cause);
  }
}
