import { join } from "node:path";
import { isAppError, writeAtomically } from "@turnpike/base";
import type { ChainHome } from "./engine/node-folder.ts";

/** File that the SDK's nodes write for the supervisor that changes programs (cosmovisor). */
const FILE = "upgrade-info.json";
const NO_TIME = "0001-01-01T00:00:00Z";

/** Notes the upgrade that ended a node, as the SDK does, in `data/upgrade-info.json`. Another error is none. */
export async function noteUpgrade({ dataFolder }: ChainHome, error: unknown): Promise<void> {
  if (!isAppError(error, "CHAIN_UPGRADE")) return;
  const { name, height, info } = error.detail;
  const note = { name, time: NO_TIME, height: Number(height), info };
  await writeAtomically(join(dataFolder, FILE), JSON.stringify(note));
}
