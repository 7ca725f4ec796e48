import type { Module } from "../../state/module.ts";
import type { ParamMessageOptions } from "../shared/messages.ts";
import { SERVICE_GENESIS } from "./genesis.ts";
import { serviceMessages } from "./messages.ts";
import { SERVICE_QUERIES } from "./queries.ts";
import { SERVICE_MODULE } from "./state.ts";

/** The module of services, their compute units and their difficulties. Its blocks begin and end without a step of its own. */
export function serviceModule(opts: ParamMessageOptions): Module {
  return {
    name: SERVICE_MODULE,
    messages: serviceMessages(opts),
    queries: SERVICE_QUERIES,
    genesis: SERVICE_GENESIS,
  };
}
