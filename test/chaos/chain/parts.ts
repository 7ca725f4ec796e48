import type { ChaosPart } from "../chaos.ts";
import { byzantine } from "./byzantine.ts";
import { clock } from "./clock.ts";
import { histories } from "./histories.ts";
import { hostile } from "./hostile.ts";
import { kills } from "./kills.ts";
import { large } from "./large.ts";
import { storage } from "./storage.ts";
import { validators } from "./validators.ts";

/** The parts of `npm run chaos -- chain`, in the order in which they run. */
export const CHAIN_PARTS: Readonly<Record<string, ChaosPart>> = {
  histories,
  kills,
  validators,
  byzantine,
  hostile,
  large,
  storage,
  clock,
};
