import { application, createMessage, shared } from "@turnpike/proto";
import { nextSessionStartHeight } from "@turnpike/protocol";
import { type Context, unmetered } from "../../state/context.ts";
import { compactText } from "../../state/go-text.ts";
import type { Parsed } from "../../state/parsed.ts";
import { heightsBeforeUnsettled } from "../session/history.ts";
import { serviceIdFault } from "../shared/services.ts";
import { getSharedParams } from "../shared/state.ts";

type Config = shared.ApplicationServiceConfig;
type Update = application.ApplicationServiceConfigUpdate;

/** Why an application cannot have these services, in the real chain's words; undefined when it can. Exactly one is allowed. */
export function serviceConfigsFault(services: readonly Config[]): string | undefined {
  const [config] = services;
  if (config === undefined || services.length !== 1) {
    const texts = services.map((one) => compactText(shared.ApplicationServiceConfigSchema, one));
    return `application must have exactly one service: [${texts.join(" ")}]`;
  }
  return serviceIdFault(config.serviceId)?.text;
}

function sameServices(a: readonly Config[], b: readonly Config[]): boolean {
  return a.length === b.length && b.every(({ serviceId }) => a.some((one) => one.serviceId === serviceId));
}

/**
 * An application with other services. The history begins with the first change: the present ones count from height 1, and
 * end where the next session starts, which is where the new ones begin. Those that ended before all unsettled sessions leave
 * it, so that it has one change for each session that is not settled: every claim and every stake message reads it.
 */
export function withServices(
  ctx: Context,
  app: Parsed<application.Application>,
  services: readonly Config[],
): Parsed<application.Application> {
  const changed = { ...app, serviceConfigs: [...services] };
  if (sameServices(app.serviceConfigs, services)) return changed;
  const from = nextSessionStartHeight(getSharedParams(ctx), ctx.block.heightBlocks);
  const update = (service: Config, activationHeight: bigint): Update =>
    createMessage(application.ApplicationServiceConfigUpdateSchema, {
      applicationAddress: app.address,
      service,
      activationHeight,
    });
  const history =
    app.serviceConfigHistory.length > 0
      ? app.serviceConfigHistory
      : app.serviceConfigs.map((service) => update(service, 1n));
  // The real chain prunes nothing: what it costs is not the message's gas.
  const isOver = heightsBeforeUnsettled(unmetered(ctx));
  // A second change in the same session replaces the first. What begins later is of a chain that was exported, and begins anew.
  const earlier = history
    .filter(({ service, activationHeight }) => service !== undefined && activationHeight < from)
    .filter(({ deactivationHeight: end }) => end === 0n || !isOver(end - 1n))
    .map((one) => (one.deactivationHeight === 0n ? { ...one, deactivationHeight: from } : one));
  return { ...changed, serviceConfigHistory: [...earlier, ...services.map((service) => update(service, from))] };
}
