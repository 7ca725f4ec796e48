import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { application, gateway, shared } from "@turnpike/proto";
import { addressOf } from "../../../test/modules/tokenomics/economy.ts";
import { HistoryChain } from "../../../test/modules/tokenomics/histories.ts";
import { upokt } from "../../state/stakes.ts";
import { getApplication } from "../application/state.ts";
import { getSharedParams } from "../shared/state.ts";

const AUTHORITY = moduleAddress("gov");
const [APP, OTHER] = [addressOf("a"), addressOf("gateway")];
// The session from 23 to 26 settles at 31, whatever holds from 27 on.
const [LAST, SETTLED] = [26n, 31n];

/** Sessions and windows as short as can be, from the next session on. */
function shorten(chain: HistoryChain, numBlocksPerSession: bigint): void {
  const params = {
    ...getSharedParams(chain.ctx),
    numBlocksPerSession,
    claimWindowCloseOffsetBlocks: 0n,
    proofWindowOpenOffsetBlocks: 0n,
    proofWindowCloseOffsetBlocks: 1n,
  };
  assert.ok(chain.send(shared.MsgUpdateParamsSchema, { authority: AUTHORITY, params }).ok);
}

suite("windows that are made shorter while a session waits for its settlement", () => {
  test("an application's transfer waits for the session's own settlement", () => {
    const chain = new HistoryChain();
    assert.equal(chain.block.heightBlocks, 25n);
    const transfer = { sourceAddress: APP, destinationAddress: OTHER };
    assert.ok(chain.send(application.MsgTransferApplicationSchema, transfer).ok);
    shorten(chain, 4n);
    while (chain.block.heightBlocks <= SETTLED) {
      assert.ok(getApplication(chain.ctx, APP), `gone at ${chain.block.heightBlocks}`);
      chain.endCheckedBlock();
    }
    chain.endBlocksTo(40n);
    assert.equal(getApplication(chain.ctx, APP), undefined);
    assert.ok(getApplication(chain.ctx, OTHER));
  });

  test("a gateway that was left stays in the session's ring", () => {
    const chain = new HistoryChain();
    chain.send(gateway.MsgStakeGatewaySchema, { address: addressOf("e"), stake: upokt(10n ** 9n) });
    const parties = { appAddress: APP, gatewayAddress: addressOf("e") };
    assert.ok(chain.send(application.MsgDelegateToGatewaySchema, parties).ok);
    assert.ok(chain.send(application.MsgUndelegateFromGatewaySchema, parties).ok);
    shorten(chain, 1n);
    while (chain.block.heightBlocks <= SETTLED) {
      const left = Object.keys(getApplication(chain.ctx, APP)?.pendingUndelegations ?? {});
      assert.deepEqual(left, [`${LAST}`], `at ${chain.block.heightBlocks}`);
      chain.endCheckedBlock();
    }
    chain.endBlocksTo(60n);
    assert.deepEqual(getApplication(chain.ctx, APP)?.pendingUndelegations, {});
  });
});
