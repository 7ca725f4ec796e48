import { AppError, type ServiceId } from "@turnpike/base";
import { Pool } from "undici";
import { StreamSlots } from "./answer-pipe.ts";
import type { RelayEngineOptions } from "./options.ts";

/** The connections to one origin. */
export interface Origin {
  readonly pool: Pool;
  /** Of answers that are passed on while they arrive. */
  readonly streams: StreamSlots;
}

/** Share of an origin's connections that answers may take which are passed on while they arrive. */
const STREAM_SHARE = 0.5;

/** The connections of all suppliers; those at one origin share theirs. */
export class Origins implements AsyncDisposable {
  readonly #options: Pick<RelayEngineOptions, "maxConnectionsPerOrigin" | "connectTimeoutMs">;
  readonly #origins = new Map<string, Origin>();

  constructor(options: Pick<RelayEngineOptions, "maxConnectionsPerOrigin" | "connectTimeoutMs">) {
    this.#options = options;
  }

  /** The origin of a service's URL. @throws AppError CONFIG_INVALID when it is no http or https URL. */
  of(id: ServiceId, url: string): Origin {
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      // The URL is not shown: it may hold a key.
      throw new AppError("CONFIG_INVALID", { message: `suppliers.${id}: a URL is not an http or https URL.` });
    }
    const { origin } = new URL(url);
    const known = this.#origins.get(origin);
    if (known !== undefined) return known;
    const { maxConnectionsPerOrigin: connections, connectTimeoutMs } = this.#options;
    const made = {
      pool: new Pool(origin, { connections, pipelining: 1, connect: { timeout: connectTimeoutMs } }),
      streams: new StreamSlots(Math.max(1, Math.floor(connections * STREAM_SHARE))),
    };
    this.#origins.set(origin, made);
    return made;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#origins.values()].map(({ pool }) => pool.destroy()));
  }
}
