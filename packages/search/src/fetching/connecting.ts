import { lookup } from "node:dns/promises";
import { isIP, type LookupFunction } from "node:net";
import { AppError, isPublicAddress } from "@turnpike/base";
import { Agent, buildConnector } from "undici";
import { bareHost, mayBePrivate, type PrivateRule } from "./targets.ts";
import type { Resolve } from "./types.ts";

/** Most addresses of one name that are looked at. */
const MAX_ADDRESSES = 64;
const KEEP_ALIVE_MS = 4_000;

/** Marks a refused address among the connection's errors. */
export const PRIVATE_ADDRESS = "PRIVATE_ADDRESS";

/** Marks a name without an address. */
export const UNRESOLVED = "UNRESOLVED";

const marked = (mark: string): Error => new AppError("SOURCE_REFUSED", { detail: { mark } });

const systemResolve: Resolve = (hostname) => lookup(hostname, { all: true });

/**
 * A lookup for `net.connect`. Without `mayBeAny` it hands out public addresses only: the connection uses exactly what is
 * checked here, so that a name cannot be bound to another address between the check and the use. One private address
 * refuses the name.
 */
function checkedLookup(resolve: Resolve, mayBeAny: boolean): LookupFunction {
  return (hostname, options, give) => {
    resolve(hostname).then(
      (found) => {
        const addresses = found.slice(0, MAX_ADDRESSES);
        const first = addresses[0];
        if (first === undefined) give(marked(UNRESOLVED), "");
        else if (!mayBeAny && !addresses.every(({ address }) => isPublicAddress(address))) {
          give(marked(PRIVATE_ADDRESS), "");
        } else if (options.all === true) give(null, addresses);
        else give(null, first.address, first.family);
      },
      () => give(marked(UNRESOLVED), ""),
    );
  };
}

/** Bounds of connections. */
export interface SafeAgentOptions {
  readonly timeoutMs: number;
  readonly maxHeaderBytes: number;
  readonly allowPrivate: PrivateRule;
}

/** Connections that reach public addresses only, but for origins that the rule names. */
export function createSafeAgent(options: SafeAgentOptions, resolve: Resolve = systemResolve): Agent {
  const { timeoutMs, maxHeaderBytes, allowPrivate } = options;
  const toPublic = buildConnector({ timeout: timeoutMs, lookup: checkedLookup(resolve, false), port: 0 });
  const toAny = buildConnector({ timeout: timeoutMs, lookup: checkedLookup(resolve, true), port: 0 });
  return new Agent({
    connections: 2,
    pipelining: 1,
    allowH2: false,
    maxHeaderSize: maxHeaderBytes,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: KEEP_ALIVE_MS,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: (target, give) => {
      const { protocol, hostname, port } = target;
      const { origin } = new URL(`${protocol}//${target.host ?? `${hostname}:${port}`}`);
      const host = bareHost(hostname);
      if (mayBePrivate(allowPrivate, origin)) toAny(target, give);
      else if (isIP(host) !== 0 && !isPublicAddress(host)) give(marked(PRIVATE_ADDRESS), null);
      else {
        toPublic(target, (...[error, socket]) => {
          // A second barrier: the address that was really reached.
          if (error !== null || isPublicAddress(socket.remoteAddress ?? "")) {
            if (error === null) give(null, socket);
            else give(error, null);
            return;
          }
          socket.destroy();
          give(marked(PRIVATE_ADDRESS), null);
        });
      }
    },
  });
}
