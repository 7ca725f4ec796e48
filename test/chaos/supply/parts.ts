import type { ChaosPart } from "../chaos.ts";
import { gatewayKills } from "./gateway-kills.ts";
import { kills } from "./kills.ts";

/** The parts of `npm run chaos -- supply`, in the order in which they run. */
export const SUPPLY_PARTS: Readonly<Record<string, ChaosPart>> = { kills, "gateway-kills": gatewayKills };
