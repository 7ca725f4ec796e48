import type { ChaosPart } from "../chaos.ts";
import { attack } from "./attack.ts";

/** The parts of `npm run chaos -- payment`. */
export const PAYMENT_PARTS: Readonly<Record<string, ChaosPart>> = { attack };
