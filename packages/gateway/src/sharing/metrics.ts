import type { MetricSpec } from "@turnpike/base";

/** Messages between processes: `sent`, `received`, or `dropped` because the bus was away or full, or the message too large. */
export const busMessages: MetricSpec = {
  kind: "counter",
  name: "turnpike_gateway_bus_messages_total",
  help: "Messages to and from other processes of the deployment.",
  labels: ["outcome"],
};

/** 1 while this process hears the others through Redis. */
export const busUp: MetricSpec = {
  kind: "gauge",
  name: "turnpike_gateway_bus_up",
  help: "1 while processes share what they know through Redis.",
  across: "min",
};

/** All metrics of this folder. */
export const SHARING_METRICS: readonly MetricSpec[] = [busMessages, busUp];
