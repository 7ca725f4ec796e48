import { clientKey } from "@turnpike/base";

/** The caller of free calls: an application, by the key that it presented, or a client, by its address. */
export function callerOf(key: string | undefined, clientIp: string): string {
  return key === undefined ? clientKey(clientIp) : `key ${key}`;
}
