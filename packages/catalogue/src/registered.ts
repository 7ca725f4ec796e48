import type { ServiceId } from "@turnpike/base";
import { BUILTIN_SERVICES } from "./builtin.ts";
import { DEFAULT_MAX_BODY_BYTES, DEFAULT_PRICE, RESERVED_IDS } from "./catalogue.ts";
import { SERVICE_ID_PATTERN } from "./override-schema.ts";
import type { Catalogue, Service } from "./types.ts";

/** A service as the chain has it. Its name there is not used: it is a stranger's text, and ours are read by agents. */
export interface RegisteredService {
  readonly id: string;
  readonly ownerAddress: string;
}

/** Options of {@link withRegistered}. */
export interface RegisteredOptions {
  /** Ids that the operator's configuration defines. */
  readonly own?: ReadonlySet<string>;
}

const ID = new RegExp(SERVICE_ID_PATTERN);
const BUILTIN_IDS: ReadonlySet<string> = new Set(BUILTIN_SERVICES.map(({ id }) => id));

function serviceOf(id: string): Service {
  return Object.freeze({
    id: id as ServiceId,
    name: id,
    description:
      "A service that is registered on the chain. Nothing more is known of it: answers are checked for their form only.",
    category: "web",
    tags: ["web"],
    operationId: `call_${id.replaceAll("-", "_")}`,
    price: DEFAULT_PRICE,
    families: [],
    evmChainId: undefined,
    chainId: undefined,
    network: undefined,
    syncAllowanceBlocks: undefined,
    paid: false,
    free: true,
    operations: new Map(),
    maxBodyBytes: DEFAULT_MAX_BODY_BYTES,
  } satisfies Service);
}

/**
 * A catalogue with the services of the chain that neither it nor the operator knows: on the free relay alone, without a
 * family. The services of the given catalogue stay the same objects.
 */
export function withRegistered(
  catalogue: Catalogue,
  registered: readonly RegisteredService[],
  { own = new Set() }: RegisteredOptions = {},
): Catalogue {
  const services = new Map(catalogue.services);
  for (const { id } of registered) {
    if (!ID.test(id) || RESERVED_IDS.has(id) || BUILTIN_IDS.has(id) || own.has(id)) continue;
    services.set(id as ServiceId, serviceOf(id));
  }
  return { services, get: (id) => services.get(id as ServiceId) };
}
