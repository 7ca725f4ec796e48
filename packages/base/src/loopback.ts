import { isLoopbackHost } from "./host-check.ts";

/** True for a URL of this machine's loopback. */
export function isLoopbackUrl(url: string): boolean {
  try {
    return isLoopbackHost(new URL(url).hostname);
  } catch {
    return false;
  }
}
