import { AppError, isRecord } from "@turnpike/base";
import { readAnswer } from "./answers.ts";
import { roundUpUsd } from "./budget.ts";
import { unreachable } from "./transport.ts";
import type { ListedService } from "./types.ts";

function listed(item: unknown): ListedService[] {
  if (!isRecord(item) || typeof item.id !== "string") return [];
  const { id, serves, paid, relayUrl, example, methods, price } = item;
  return [
    {
      id,
      serves: serves !== false,
      paid: paid !== false,
      relayUrl: typeof relayUrl === "string" ? relayUrl : undefined,
      example,
      methods: Array.isArray(methods) ? methods.filter((name) => typeof name === "string") : [],
      priceUsd: isRecord(price) && price.currency === "USD" ? roundUpUsd(price.amount) : undefined,
    },
  ];
}

/**
 * What a gateway sells; undefined when it has no such list, as other makers' gateways.
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
    const answer = await readAnswer(await ask(`${gateway}/services.json`, { redirect: "error", signal }));
    if (answer.fault === "lost") throw new AppError("GATEWAY_UNREACHABLE");
    return answer.status === 200 && Array.isArray(answer.json) ? answer.json.flatMap(listed) : undefined;
  } catch (cause) {
    throw unreachable(gateway, cause);
  }
}
