import type { LookupFunction } from "node:net";
import { AppError, checkedLookup, isPrivateHost, isPublicAddress, type ResolveHost } from "@turnpike/base";
import { Agent, buildConnector } from "undici";
import { mayBePrivate, type PrivateRule } from "./targets.ts";

const KEEP_ALIVE_MS = 4_000;

/** Marks a refused address among the connection's errors. */
export const PRIVATE_ADDRESS = "PRIVATE_ADDRESS";

/** Marks a name without an address. */
export const UNRESOLVED = "UNRESOLVED";

const marked = (mark: string): Error => new AppError("SOURCE_REFUSED", { detail: { mark } });

/** Bounds of connections. */
export interface SafeAgentOptions {
  readonly timeoutMs: number;
  readonly maxHeaderBytes: number;
  readonly allowPrivate: PrivateRule;
}

/** Connections that reach public addresses only, but for origins that the rule names. */
export function createSafeAgent(options: SafeAgentOptions, resolve?: ResolveHost): Agent {
  const { timeoutMs, maxHeaderBytes, allowPrivate } = options;
  const lookupOf = (isAny: boolean): LookupFunction =>
    checkedLookup({
      resolve,
      mayBePrivate: isAny,
      refuse: (reason) => marked(reason === "private" ? PRIVATE_ADDRESS : UNRESOLVED),
    });
  const toPublic = buildConnector({ timeout: timeoutMs, lookup: lookupOf(false), port: 0 });
  const toAny = buildConnector({ timeout: timeoutMs, lookup: lookupOf(true), port: 0 });
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
      if (mayBePrivate(allowPrivate, origin)) toAny(target, give);
      else if (isPrivateHost(hostname)) give(marked(PRIVATE_ADDRESS), null);
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
