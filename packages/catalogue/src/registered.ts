import type { ServiceId } from "@turnpike/base";
import { BUILTIN_SERVICES } from "./builtin.ts";
import { DEFAULT_MAX_BODY_BYTES, DEFAULT_PRICE, RESERVED_IDS } from "./catalogue.ts";
import { SERVICE_ID_PATTERN } from "./override-schema.ts";
import type { Catalogue, Service } from "./types.ts";

/** A service as registered on the chain. Its name there is not used: it is untrusted text, and ours are read by agents. */
export interface RegisteredService {
  readonly id: string;
  readonly ownerAddress: string;
}

export interface RegisteredOptions {
  /** Ids that the operator's configuration defines in whatever state, or refuses. */
  readonly own?: ReadonlySet<string>;
}

/** The chain's own rule. */
const ID = /^[a-zA-Z0-9_-]{1,42}$/;
const HOST_LABEL = new RegExp(SERVICE_ID_PATTERN);
/** Internationalised labels, which look like another name in an address bar. */
const ENCODED_LABEL = /^..--/;
const BUILTIN_IDS: ReadonlySet<string> = new Set(BUILTIN_SERVICES.map(({ id }) => id));

/**
 * Host names that programs ask for by themselves or that people trust, below `gateway.relayDomain`; and labels that metrics
 * have for what they do not name.
 */
const RESERVED_HOSTS: ReadonlySet<string> = new Set([
  "account",
  "accounts",
  "acme-challenge",
  "admin",
  "api",
  "app",
  "auth",
  "autoconfig",
  "autodiscover",
  "billing",
  "blog",
  "broadcasthost",
  "cdn",
  "console",
  "cpanel",
  "dashboard",
  "dns",
  "docs",
  "email",
  "ftp",
  "gateway",
  "help",
  "imap",
  "isatap",
  "localhost",
  "login",
  "m",
  "mail",
  "metrics",
  "mta-sts",
  "ns",
  "ns1",
  "ns2",
  "oauth",
  "openpgpkey",
  "other",
  "pay",
  "payment",
  "pop",
  "pop3",
  "portal",
  "relay",
  "root",
  "rpc",
  "secure",
  "security",
  "smtp",
  "sso",
  "static",
  "status",
  "support",
  "unknown",
  "vpn",
  "webmail",
  "wpad",
  "ws",
  "www",
  "www1",
]);

/**
 * True for an id that may be served because the chain has it: it becomes a path, a metric's label and mostly a host label,
 * so that it is checked for all of them. Ids of the catalogue and of the operator are theirs, also when they are switched
 * off and in other letter case: hosts have none, and people read over it.
 */
export function isRegistrable(id: string, { own }: RegisteredOptions = {}): boolean {
  const lower = id.toLowerCase();
  return (
    ID.test(id) &&
    !ENCODED_LABEL.test(id) &&
    // Names that every JavaScript object has.
    !(id in {}) &&
    !RESERVED_IDS.has(lower) &&
    !RESERVED_HOSTS.has(lower) &&
    !BUILTIN_IDS.has(lower) &&
    own?.has(id) !== true &&
    own?.has(lower) !== true
  );
}

/** True for an id that is a host label too. The chain has others, such as `My_Api`: they are served by path alone. */
export function isHostLabel(id: string): boolean {
  return HOST_LABEL.test(id);
}

/** True for an id of the built-in catalogue, also when an operator has switched it off. */
export function isBuiltin(id: string): boolean {
  return BUILTIN_IDS.has(id);
}

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
    isUnlisted: true,
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
  options: RegisteredOptions = {},
): Catalogue {
  const services = new Map(catalogue.services);
  for (const { id } of registered) {
    if (isRegistrable(id, options) && !services.has(id as ServiceId)) services.set(id as ServiceId, serviceOf(id));
  }
  return { services, get: (id) => services.get(id as ServiceId) };
}
