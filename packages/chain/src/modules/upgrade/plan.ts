import { AppError, utf8ToBytes } from "@turnpike/base";
import { createMessage, upgrade } from "@turnpike/proto";
import { messageCodec, noKey } from "../../state/codecs.ts";
import { Collection } from "../../state/collection.ts";
import { type Context, unmetered } from "../../state/context.ts";
import { isHeight } from "../../state/heights.ts";
import { fail, SDK, type TxFault } from "../../state/outcome.ts";
import { UPGRADE_MODULE } from "../../state/rules.ts";

const MAX_NAME_BYTES = 128;
const MAX_INFO_BYTES = 8_192;

const plans = new Collection({
  module: UPGRADE_MODULE,
  prefix: Uint8Array.of(0),
  key: noKey,
  value: messageCodec(upgrade.PlanSchema),
});

/** The upgrade that is to come; undefined without one. */
export function getPlan(ctx: Context): upgrade.Plan | undefined {
  return plans.get(ctx, undefined);
}

/** The same, for those who are no part of the chain: it costs no gas. */
export function plannedUpgrade(ctx: Context): upgrade.Plan | undefined {
  return getPlan(unmetered(ctx));
}

// Go's zero time, which the SDK's programs write where the field is not set.
const NO_TIME = { seconds: -62_135_596_800n, nanos: 0 };

/** Plans an upgrade, in place of the one that is planned. */
export function setPlan(ctx: Context, { name, height, info }: upgrade.Plan): void {
  plans.set(ctx, undefined, createMessage(upgrade.PlanSchema, { name, time: NO_TIME, height, info }));
}

/** Takes the plan back; without one nothing changes. */
export function removePlan(ctx: Context): void {
  if (getPlan(ctx) !== undefined) plans.remove(ctx, undefined);
}

/** The texts are those of the SDK (x/upgrade/types/plan.go), which has no bounds. */
export function planFault({ time, upgradedClientState, name, height, info }: upgrade.Plan): TxFault | undefined {
  const hasTime = time !== undefined && (time.seconds !== NO_TIME.seconds || time.nanos !== 0);
  const why = hasTime
    ? "time-based upgrades have been deprecated in the SDK"
    : upgradedClientState === undefined
      ? fieldFault(name, height, info)
      : "upgrade logic for IBC has been moved to the IBC module";
  return why === undefined ? undefined : fail(SDK.invalidRequest, why).fault;
}

function fieldFault(name: string, height: bigint, info: string): string | undefined {
  if (name === "") return "name cannot be empty";
  if (height <= 0n) return "height must be greater than 0";
  if (!isHeight(height)) return "height must be one that a block can have";
  if (utf8ToBytes(name).length > MAX_NAME_BYTES || name.includes("\0")) {
    return `name must be of at most ${MAX_NAME_BYTES} bytes`;
  }
  return utf8ToBytes(info).length > MAX_INFO_BYTES ? `info must be of at most ${MAX_INFO_BYTES} bytes` : undefined;
}

/** Ends a node at the height of an upgrade that its program does not know. The text is the one that the SDK's nodes log. */
export function upgradeNeeded(
  { name, height, info }: upgrade.Plan,
  heightBlocks: bigint,
  programRules: readonly string[],
): AppError {
  return new AppError("CHAIN_UPGRADE", {
    message:
      `UPGRADE "${name}" NEEDED at height: ${height}: ${info} (this program has the rules ${programRules.join(", ")}; ` +
      `install one that has "${name}" too, and start it on this folder: block ${heightBlocks} is not run yet)`,
    detail: { name, height: `${heightBlocks}`, info },
  });
}
