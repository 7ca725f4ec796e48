import type { Random } from "@turnpike/base";
import { type Config, redactConfig } from "@turnpike/config";
import { type ReloadResult, serveAdmin } from "@turnpike/gateway";
import type { RelayControl } from "@turnpike/relay";
import { productVersion } from "../cli/version.ts";
import type { PartModules } from "./modules.ts";

export interface AdminInput extends PartModules {
  readonly reload: () => Promise<ReloadResult>;
  /** What an operator may see and change, in all processes. */
  readonly control: RelayControl;
  readonly random: Random;
}

/** Starts the admin API of a configuration, and gives its port; undefined where it has none. The stack owns it. */
export async function openAdmin(
  config: () => Config,
  modules: AdminInput,
  stack: AsyncDisposableStack,
): Promise<number | undefined> {
  const { admin, allowedHosts } = config();
  const { host, port } = admin;
  if (port === undefined) return undefined;
  const target = {
    control: () => modules.control,
    reload: modules.reload,
    config: () => redactConfig(config()),
  };
  // The token is never empty: a check of the configuration comes before.
  const options = { host, port, allowedHosts, token: () => config().admin.token ?? "", version: productVersion() };
  const service = stack.use(await serveAdmin(options, { ...modules, target }));
  modules.log.info({ host, port: service.port }, "the admin API listens");
  return service.port;
}
