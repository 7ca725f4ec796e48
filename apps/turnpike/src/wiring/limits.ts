import { randomInt } from "node:crypto";
import type { Config } from "@turnpike/config";
import { FreeRateLimits, type LimitStore, type RateLimits, RedisStore } from "@turnpike/gateway";
import type { PartModules } from "./modules.ts";

/** The store in Redis; undefined without `redis.url`. The stack owns the connection. */
export function createLimitStore(
  config: Config,
  modules: PartModules,
  stack: AsyncDisposableStack,
): LimitStore | undefined {
  const { url, keyPrefix, timeoutMs } = config.redis;
  return url === undefined ? undefined : stack.use(new RedisStore({ url, keyPrefix, timeoutMs }, modules));
}

/** The limits of the free relay: in this process, or with a store shared. */
export function createLimits(
  config: Config,
  modules: PartModules & { readonly store: LimitStore | undefined },
): RateLimits {
  return new FreeRateLimits({ ...config.limits, hashSeed: randomInt(2 ** 32) }, modules);
}
