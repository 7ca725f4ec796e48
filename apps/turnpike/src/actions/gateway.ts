import { type CommandContext, hostText, outputOf } from "../context.ts";
import { serve } from "../lifecycle.ts";
import { createLog } from "../logging.ts";
import { startGateway } from "../wiring/gateway.ts";
import { configOf } from "./config.ts";

/** Options of `turnpike gateway`. */
export interface GatewayFlags {
  readonly json?: boolean;
  readonly config?: string;
}

/** Runs the gateway until a signal ends it. */
export async function run(flags: GatewayFlags, context: CommandContext): Promise<void> {
  const config = configOf(context, flags.config);
  const output = outputOf(flags);
  const log = createLog({ level: config.log.level, name: "gateway" });
  const { gateway, ledger } = config;
  await serve(context, { log, drainMs: gateway.shutdownTimeoutMs }, async () => {
    const service = await startGateway({ config, env: context.env, log });
    const urls = {
      gateway: `http://${hostText(gateway.host)}:${service.gatewayPort}`,
      metrics: `http://${hostText(gateway.metrics.host)}:${service.metricsPort}/metrics`,
    };
    output.result({ ready: true, ...urls, ledgerSchema: ledger.schema });
    output.line(`gateway  ${urls.gateway}\nmetrics  ${urls.metrics}`);
    return service;
  });
}
