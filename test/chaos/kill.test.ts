import { after, before, suite, test } from "node:test";
import { type Ground, startGround } from "../support/network.ts";
import { facilitatorKilled, localGatewayKilled, QUICK_STEPS, remoteGatewayKilled } from "./kill-cases.ts";

// All other steps are in kill-matrix.test.ts.
suite("killed at a step that moves money", { timeout: 600_000, concurrency: 4 }, () => {
  let ground: Ground;

  before(async () => {
    ground = await startGround();
  });
  after(() => ground?.[Symbol.asyncDispose]());

  for (const at of QUICK_STEPS.gateway) {
    test(`the gateway, at ${at}`, () => localGatewayKilled(ground, at));
  }
  for (const at of QUICK_STEPS.remote) {
    test(`the gateway with a remote facilitator, at ${at}`, () => remoteGatewayKilled(ground, at));
  }
  for (const at of QUICK_STEPS.facilitator) {
    test(`the facilitator, at ${at}`, () => facilitatorKilled(ground, at));
  }
});
