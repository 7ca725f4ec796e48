import type { ChaosPart } from "../chaos.ts";
import { stories } from "./stories.ts";

/** The parts of `npm run chaos -- buyer`. */
export const BUYER_PARTS: Readonly<Record<string, ChaosPart>> = { stories };
