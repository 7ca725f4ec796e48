import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { noFaults, noMetrics, silentLog } from "@turnpike/base";
import { createCatalogue, type RegisteredService } from "@turnpike/catalogue";
import { type Config, loadConfig } from "@turnpike/config";
import { eventually, virtualClock } from "@turnpike/testkit";
import { createParts } from "./parts.ts";

const configOf = (protocol: object = {}): Config => loadConfig({ env: {}, overrides: { protocol } });

suite("parts of a running gateway", () => {
  test("services of the chain and rules of sale change the catalogue alone: relay, sockets and known services stay", async () => {
    let registered: readonly RegisteredService[] = [];
    const base = createCatalogue({});
    const start = configOf();
    const modules = { clock: virtualClock(), log: silentLog, metrics: noMetrics, faults: noFaults };
    await using parts = createParts(start, base, {
      ...modules,
      store: undefined,
      options: [],
      registered: () => registered,
    });
    const first = parts.current;
    const change = async (config: Config) => {
      const prepared = await parts.prepare(config, createCatalogue({}));
      parts.put(prepared, config, Promise.resolve());
      assert.deepEqual(
        [prepared.relay === first.relay, prepared.subscriptions === first.subscriptions, prepared.base === base],
        [true, true, true],
      );
      const sold = [...prepared.catalogue.services.values()].filter(({ paid }) => paid).map(({ id }) => `${id}`);
      return { sold, catalogue: prepared.catalogue };
    };

    registered = [{ id: "my-api", ownerAddress: "pokt1owner" }];
    const added = await change(start);
    assert.equal(added.catalogue.get("my-api")?.free, true);
    assert.equal(added.catalogue.get("eth"), base.get("eth"));
    assert.ok(!added.sold.includes("my-api") && added.sold.includes("eth"));

    const listed = await change(configOf({ sell: "listed", sellServices: ["base"] }));
    assert.deepEqual(listed.sold, ["base"]);
    const owner = "pokt1eeeksh2tvkh7wzmfrljnhw4wrhs55lcuvmekkw";
    const byOwner = configOf({
      nodeUrl: "http://127.0.0.1:1",
      gatewayKeyFile: "k",
      sell: "listed",
      sellOwners: [owner],
    });
    assert.deepEqual((await change(byOwner)).sold, [], "no owner is known");
    registered = [...registered, { id: "eth", ownerAddress: owner }, { id: "base", ownerAddress: "pokt1other" }];
    assert.deepEqual((await change(byOwner)).sold, ["eth"]);
    registered = [{ id: "my-api", ownerAddress: owner }];
    assert.deepEqual(
      (await change(byOwner)).sold,
      [],
      "an owner who is listed sells no service of which nothing is known",
    );

    const refused = await change(configOf({ refuseServices: ["my-api"] }));
    assert.equal(refused.catalogue.get("my-api"), undefined);
    registered = [];
    const { catalogue } = await change(start);
    assert.equal(catalogue.get("eth"), base.get("eth"));
  });

  test("a burst of changes by strangers leaves room for a reload, and ends nothing that requests use", async () => {
    let registered: readonly RegisteredService[] = [];
    const start = configOf();
    const modules = { clock: virtualClock(), log: silentLog, metrics: noMetrics, faults: noFaults };
    await using parts = createParts(start, createCatalogue({}), {
      ...modules,
      store: undefined,
      options: [],
      registered: () => registered,
    });
    const first = parts.current.relay;
    let isEnded = false;
    const end = first[Symbol.asyncDispose].bind(first);
    first[Symbol.asyncDispose] = () => {
      isEnded = true;
      return end();
    };
    // Requests go on in each replaced configuration.
    const released = Promise.withResolvers<void>();
    const replace = async (config: Config) =>
      parts.put(await parts.prepare(config, createCatalogue({})), config, released.promise);
    let refreshes = 0;
    while (parts.canRefresh) {
      registered = [...registered, { id: `s${refreshes++}`, ownerAddress: "pokt1owner" }];
      await replace(start);
    }
    assert.equal(refreshes, 4);
    // A reload that makes another relay.
    const next = loadConfig({ env: {}, overrides: { relay: { hedgeQuantile: 0.9 } } });
    await replace(next);
    assert.notEqual(parts.current.relay, first);
    assert.equal(isEnded, false);
    released.resolve();
    await eventually("the first relay has ended", () => isEnded);
    await eventually("room for changes", () => parts.canRefresh);
  });
});
