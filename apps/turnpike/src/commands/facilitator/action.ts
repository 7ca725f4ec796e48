import { configOf } from "../../cli/config-file.ts";
import { type CommandContext, hostText, outputOf } from "../../cli/context.ts";
import { serve } from "../../cli/lifecycle.ts";
import { createLog } from "../../cli/logging.ts";
import { startFacilitator } from "../../wiring/facilitator.ts";

export interface FacilitatorFlags {
  readonly json?: boolean;
  readonly config?: string;
}

/** Runs the facilitator until a signal ends it. */
export async function run(flags: FacilitatorFlags, context: CommandContext): Promise<void> {
  const config = configOf(context, flags.config);
  const output = outputOf(flags);
  const log = createLog({ level: config.log.level, name: "facilitator" });
  await serve(context, { log }, async () => {
    const service = await startFacilitator({ config, env: context.env, log });
    const { host } = config.facilitator.metrics;
    const metrics =
      service.metricsPort === undefined ? undefined : `http://${hostText(host)}:${service.metricsPort}/metrics`;
    output.result({ ready: true, facilitator: service.url, ...(metrics === undefined ? {} : { metrics }) });
    output.line(`facilitator  ${service.url}`);
    if (metrics !== undefined) output.line(`metrics      ${metrics}`);
    return service;
  });
}
