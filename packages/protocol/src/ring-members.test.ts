import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { ringMembers } from "./ring-members.ts";

const application = {
  address: "pokt1m",
  delegateeGatewayAddresses: ["pokt1z", "pokt1b"],
  pendingUndelegations: [
    { sessionEndHeight: 20n, gatewayAddresses: ["pokt1old", "pokt1b"] },
    { sessionEndHeight: 30n, gatewayAddresses: ["pokt1new", "pokt1old"] },
  ],
};

suite("ring members", () => {
  test("the application, its gateways and those undelegated in this session or later, once each", () => {
    assert.deepEqual(ringMembers(application, 20n), ["pokt1b", "pokt1m", "pokt1new", "pokt1old", "pokt1z"]);
    assert.deepEqual(ringMembers(application, 30n), ["pokt1b", "pokt1m", "pokt1new", "pokt1old", "pokt1z"]);
  });

  test("attack: a gateway that was undelegated before the session cannot sign for it", () => {
    assert.deepEqual(ringMembers(application, 40n), ["pokt1b", "pokt1m", "pokt1z"]);
  });

  test("without any gateway the application is alone: no placeholder signs for it", () => {
    const alone = { ...application, delegateeGatewayAddresses: [], pendingUndelegations: [] };
    assert.deepEqual(ringMembers(alone, 20n), ["pokt1m"]);
    const left = { ...application, delegateeGatewayAddresses: [] };
    assert.deepEqual(ringMembers(left, 30n), ["pokt1m", "pokt1new", "pokt1old"]);
    assert.deepEqual(ringMembers(left, 40n), ["pokt1m"]);
  });
});
