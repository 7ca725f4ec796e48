import type { ChaosPart } from "../chaos.ts";

/** The parts of `npm run chaos -- chain`, in the order in which they run. */
export const CHAIN_PARTS: Readonly<Record<string, ChaosPart>> = {};
