import type { Config } from "@turnpike/config";
import type { Applications } from "@turnpike/gateway";
import { PortalApplications } from "@turnpike/portal-db";
import type { PartModules } from "./modules.ts";

/** Portal applications by their keys; undefined without `portalDb.gatewayUrl`. The stack ends them, and writes their usage. */
export function openApplications(
  { portalDb: { gatewayUrl: url } }: Config,
  modules: PartModules,
  stack: AsyncDisposableStack,
): Applications | undefined {
  return url === undefined ? undefined : stack.use(new PortalApplications({ url }, modules));
}
