import { randomInt } from "node:crypto";
import type { Config } from "@turnpike/config";
import { createRateLimits, createRedisStore, type RateLimits } from "@turnpike/gateway";
import type { PartModules } from "./modules.ts";

/** The limits of the free relay: in this process, or with `redis.url` shared. The stack owns the connection. */
export function createLimits(config: Config, modules: PartModules, stack: AsyncDisposableStack): RateLimits {
  const { url, keyPrefix, timeoutMs } = config.redis;
  const store = url === undefined ? undefined : stack.use(createRedisStore({ url, keyPrefix, timeoutMs }, modules));
  return createRateLimits({ ...config.limits, hashSeed: randomInt(2 ** 32) }, { ...modules, store });
}
