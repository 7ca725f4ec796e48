import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { silentLog } from "@turnpike/base";
import type { ChainAnswer, PocketQueries } from "@turnpike/chain-client";
import { loadConfig } from "@turnpike/config";
import { createMessage, shared } from "@turnpike/proto";
import { eventually } from "@turnpike/testkit";
import { serviceOrigin } from "./protocol.ts";
import { RegisteredServices } from "./registered-services.ts";

type Answer = ChainAnswer<shared.Service>;

const SERVICE = { name: "Mine", description: "Mine.", category: "web", families: ["evm"] };
const own = loadConfig({
  env: {},
  overrides: { catalogue: { services: { mine: SERVICE } }, protocol: { refuseServices: ["unwanted"] } },
});

/** Services of the chain over a stand-in for its node and for the sessions. */
function scene(maxServices = 256) {
  const state = {
    ids: [] as readonly string[],
    own: [] as readonly string[],
    asked: [] as string[],
    open: 0,
    mostOpen: 0,
    needsOwners: false,
    answer: (id: string): Promise<Answer> =>
      Promise.resolve({
        ok: true,
        value: createMessage(shared.ServiceSchema, { id, name: "<b>Ignore this</b>", ownerAddress: "pokt1owner" }),
      }),
  };
  const queries: Pick<PocketQueries, "service"> = {
    async service(id) {
      state.asked.push(id);
      state.open++;
      state.mostOpen = Math.max(state.mostOpen, state.open);
      try {
        return await state.answer(id);
      } finally {
        state.open--;
      }
    },
  };
  let looked: () => void = () => {};
  const source = {
    serviceIds: () => new Set(state.ids),
    ownServiceIds: () => new Set(state.own),
    onApplications(listener: () => void) {
      looked = listener;
      return { [Symbol.dispose]() {} };
    },
  };
  const services = new RegisteredServices(
    { maxServices },
    {
      source,
      queries,
      originOf: (id) => serviceOrigin(own, id),
      needsOwners: () => state.needsOwners,
      log: silentLog,
    },
  );
  return { state, services, looked: () => looked(), ids: () => services.current.map(({ id }) => id) };
}

const numbered = (count: number, prefix = "s"): string[] => Array.from({ length: count }, (_, at) => `${prefix}${at}`);
const dead: Answer = { ok: false, fault: "unreachable", text: "" };

suite("services that only the chain has", () => {
  test("one that has an application is in the list; the catalogue's, the operator's and unfit ones are not asked for", async () => {
    const { state, services, ids } = scene();
    await using _ = services;
    state.ids = [
      "my-api",
      "eth",
      "document-digest",
      "mine",
      "Mine",
      "ETH",
      "www",
      "constructor",
      "unwanted",
      "xn--a",
      "key",
    ];
    await services.look();
    assert.deepEqual(ids(), ["my-api"]);
    assert.deepEqual(state.asked, ["my-api"]);
  });

  test("of 10,000 that strangers register as many are served as fit, and each look asks the node for no more", async () => {
    const { state, services, ids } = scene(256);
    await using _ = services;
    state.ids = ["first", ...numbered(10_000)];
    await services.look();
    assert.equal(ids().length, 256);
    assert.equal(ids()[0], "first");
    assert.deepEqual([state.asked.length, state.mostOpen], [256, 8]);
    await services.look();
    assert.equal(state.asked.length, 256, "nothing more is asked while there is no room");
    state.ids = [...numbered(10_000, "later"), "first"];
    await services.look();
    assert.ok(ids().includes("first"), "what is in use stays");
    assert.equal(ids().length, 256);
  });

  test("one of an own application has room before those of strangers that are in use", async () => {
    const { state, services, ids } = scene(3);
    await using _ = services;
    state.ids = ["a", "b", "c"];
    await services.look();
    state.ids = ["a", "b", "c", "later", "mine-too"];
    state.own = ["mine-too"];
    await services.look();
    assert.deepEqual(ids(), ["a", "b", "mine-too"]);
  });

  test("a node that does not answer changes nothing, and is asked once a look", async () => {
    const { state, services, ids } = scene();
    await using _ = services;
    state.ids = ["a"];
    await services.look();
    const before = services.current;
    state.ids = ["a", ...numbered(100)];
    const { answer } = state;
    state.answer = () => Promise.resolve(dead);
    await services.look();
    assert.equal(services.current, before, "the same list");
    assert.equal(state.asked.length, 1 + 8, "the first that fail are the last");
    state.answer = answer;
    await services.look();
    assert.equal(ids().length, 101);
  });

  test("one look at a time, however slow the node is", async () => {
    const { state, services, looked } = scene();
    await using _ = services;
    const slow = Promise.withResolvers<Answer>();
    state.answer = () => slow.promise;
    state.ids = ["a"];
    for (let i = 0; i < 10; i++) looked();
    assert.deepEqual(state.asked, ["a"]);
    slow.resolve(dead);
    await services.look();
  });

  test("a look after the options have changed is one with them, however slow the one before is", async () => {
    const { state, services, ids } = scene();
    await using _ = services;
    const { answer } = state;
    const slow = Promise.withResolvers<Answer>();
    state.answer = () => slow.promise;
    state.ids = ["a", "eth"];
    const before = services.look();
    state.needsOwners = true;
    state.answer = answer;
    state.ids = ["a", "eth", "base"];
    const after = [services.lookAgain(), services.lookAgain()];
    slow.resolve(dead);
    await before;
    await Promise.all(after);
    assert.deepEqual(ids(), ["a", "eth", "base"], "owners of known services");
    assert.deepEqual(state.asked.slice(-3), ["a", "eth", "base"], "one look for both");
  });

  test("one that has gone stays known, and is the first to go when there is no room", async () => {
    const { state, services, ids } = scene(3);
    await using _ = services;
    state.ids = ["a", "b", "c"];
    await services.look();
    state.ids = ["b"];
    await services.look();
    assert.deepEqual(ids(), ["a", "b", "c"]);
    state.ids = ["b", "d"];
    await services.look();
    assert.deepEqual(ids(), ["b", "c", "d"]);
  });

  test("one that the chain refuses, or answers with another, is not served", async () => {
    const { state, services, ids } = scene();
    await using _ = services;
    state.ids = ["none", "other"];
    state.answer = (id) =>
      Promise.resolve(
        id === "none"
          ? { ok: false, fault: "refused", text: "service not found" }
          : { ok: true, value: createMessage(shared.ServiceSchema, { id: "eth" }) },
      );
    await services.look();
    assert.deepEqual(ids(), []);
  });

  test("a change is put into effect once, and again for as long as that fails", async () => {
    const { state, services } = scene();
    await using _ = services;
    let isPossible = false;
    const put: (readonly string[])[] = [];
    using following = services.follow(services.current, async () => {
      put.push(services.current.map(({ id }) => id));
      return isPossible;
    });
    await services.look();
    state.ids = ["a"];
    await services.look();
    await services.look();
    isPossible = true;
    await services.look();
    await services.look();
    assert.deepEqual(put, [["a"], ["a"], ["a"]]);
    following[Symbol.dispose]();
    state.ids = ["a", "b"];
    await services.look();
    await eventually("the list", () => Promise.resolve(services.current.length === 2));
    assert.equal(put.length, 3);
  });

  test("owners of known services are asked for where they matter, again at each look, and stay while the node is silent", async () => {
    const { state, services } = scene();
    await using _ = services;
    const owners = () => services.current.map(({ id, ownerAddress }) => `${id} ${ownerAddress}`);
    const owner = (ownerAddress: string) => (id: string) =>
      Promise.resolve<Answer>({ ok: true, value: createMessage(shared.ServiceSchema, { id, ownerAddress }) });
    state.ids = ["eth", "mine", "www"];
    await services.look();
    assert.deepEqual([owners(), state.asked], [[], []]);
    state.needsOwners = true;
    state.answer = owner("pokt1first");
    await services.look();
    assert.deepEqual(owners(), ["eth pokt1first", "mine pokt1first"]);
    state.answer = () => Promise.resolve(dead);
    await services.look();
    assert.deepEqual(owners(), ["eth pokt1first", "mine pokt1first"]);
    state.answer = owner("pokt1next");
    await services.look();
    assert.deepEqual(owners(), ["eth pokt1next", "mine pokt1next"], "it was transferred");
    state.ids = ["mine"];
    state.answer = owner("pokt1last");
    await services.look();
    assert.deepEqual(owners(), ["eth pokt1last", "mine pokt1last"], "also one whose application has left");
    state.answer = () => Promise.resolve({ ok: false, fault: "refused", text: "service not found" });
    await services.look();
    assert.deepEqual(owners(), []);
  });
});
