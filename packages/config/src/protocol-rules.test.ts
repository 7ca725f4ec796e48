import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { EVM_BOUNDS, isAppError } from "@turnpike/base";
import { configChanges, loadConfig } from "./index.ts";

const OWNER = "pokt1eeeksh2tvkh7wzmfrljnhw4wrhs55lcuvmekkw";
const NODE = { nodeUrl: "http://127.0.0.1:26657", gatewayKeyFile: "key.json" };

const load = (protocol: object, rest: object = {}) => loadConfig({ env: {}, overrides: { protocol, ...rest } });

function faults(protocol: object, rest: object = {}): string {
  try {
    load(protocol, rest);
  } catch (error) {
    if (isAppError(error, "CONFIG_INVALID")) return error.message;
    throw error;
  }
  return assert.fail("the configuration was accepted");
}

suite("which services are sold", () => {
  test("all of the catalogue, unless a rule says otherwise", () => {
    const { sell, sellServices, sellOwners } = load({}).protocol;
    assert.deepEqual([sell, sellServices, sellOwners], ["all", [], []]);
    assert.equal(load({ sell: "listed", sellServices: ["eth", "my-api"] }).protocol.sell, "listed");
    assert.deepEqual(load({ ...NODE, sell: "listed", sellOwners: [OWNER] }).protocol.sellOwners, [OWNER]);
  });

  test("a list that nothing reads, and a rule that sells nothing, are refused with the fix", () => {
    assert.match(
      faults({ sellServices: ["eth"] }),
      /^ {2}protocol\.sellServices: not used, since .* set that to listed/m,
    );
    assert.match(faults({ ...NODE, sellOwners: [OWNER] }), /^ {2}protocol\.sellOwners: not used/m);
    assert.match(faults({ sell: "listed" }), /^ {2}protocol\.sell: listed, and both lists are empty; fill/m);
    const rule = { sell: "listed", sellServices: ["eth"] };
    assert.match(faults(rule, { payment: { mode: "none" } }), /^ {2}protocol\.sell: payment\.mode none sells nothing/m);
    assert.match(
      faults({ sell: "listed", sellOwners: [OWNER] }),
      /^ {2}protocol\.sellOwners: .* set protocol\.nodeUrl/m,
    );
  });

  test("ids and addresses that cannot be any are refused by their path", () => {
    for (const id of ["My-Api", "my_api", "a.b", "", "a\n", "../x"]) {
      assert.match(faults({ sell: "listed", sellServices: ["eth", id] }), /protocol\.sellServices\[1\]/, id);
    }
    for (const address of ["0x00", OWNER.toUpperCase(), `${OWNER}x`, "cosmos1eeeksh2tvkh7wzmfrljnhw4wrhs55lcuvmekkw"]) {
      assert.match(faults({ ...NODE, sell: "listed", sellOwners: [address] }), /protocol\.sellOwners\[0\]/, address);
    }
    assert.match(faults({ sell: "some" }), /protocol\.sell/);
  });

  test("a running gateway takes another rule", () => {
    const before = load({ sell: "listed", sellServices: ["eth"] });
    const { changed, fixed } = configChanges(before, load({ sell: "all" }));
    assert.deepEqual([changed, fixed], [["protocol.sell", "protocol.sellServices"], []]);
  });
});

suite("bounds before a supplier's EVM node", () => {
  const supplied = (service: object) => ({ supplier: { services: { eth: service } } });
  const backends = { json_rpc: { url: "http://127.0.0.1:8545" } };

  test("have defaults, each of which can be set, and are absent unless asked for", () => {
    const { services } = load({}, supplied({ backends, evmBounds: { maxGas: 30_000_000 } })).supplier;
    assert.deepEqual(services.eth?.evmBounds, { ...EVM_BOUNDS, maxGas: 30_000_000 });
    assert.equal(load({}, supplied({ backends })).supplier.services.eth?.evmBounds, undefined);
  });

  test("without a back-end that they bound are refused with the fix", () => {
    const restBackend = { rest: { url: "http://127.0.0.1:1317" } };
    assert.match(
      faults({}, supplied({ backends: restBackend, evmBounds: {} })),
      /^ {2}supplier\.services\.eth\.evmBounds: not used, since .*; add one, or remove it$/m,
    );
    assert.match(faults({}, supplied({ backends, evmBounds: { maxGas: 1 } })), /evmBounds\.maxGas/);
  });
});
