import { after, before, suite, test } from "node:test";
import { type Ground, startGround } from "../support/network.ts";
import {
  chainCut,
  FACILITATOR_STEPS,
  facilitatorKilled,
  localGatewayKilled,
  QUICK_STEPS,
  REMOTE_STEPS,
  remoteGatewayKilled,
  STEPS,
} from "./kill-cases.ts";

const beyond = (all: readonly string[], quick: readonly string[]): string[] => all.filter((at) => !quick.includes(at));

// The steps that are missing here are in kill.test.ts.
suite("killed or cut off at any step", { timeout: 600_000, concurrency: 4 }, () => {
  let ground: Ground;

  before(async () => {
    ground = await startGround();
  });
  after(() => ground?.[Symbol.asyncDispose]());

  for (const at of beyond(STEPS, QUICK_STEPS.gateway)) {
    test(`the gateway, at ${at}`, () => localGatewayKilled(ground, at));
  }
  for (const at of beyond(REMOTE_STEPS, QUICK_STEPS.remote)) {
    test(`the gateway with a remote facilitator, at ${at}`, () => remoteGatewayKilled(ground, at));
  }
  for (const at of beyond(FACILITATOR_STEPS, QUICK_STEPS.facilitator)) {
    test(`the facilitator, at ${at}`, () => facilitatorKilled(ground, at));
  }
  for (const at of STEPS) {
    test(`the chain's connection, at ${at}`, () => chainCut(ground, at));
  }
});
