import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, suite, test } from "node:test";
import { type ErrorCode, isAlive, isAppError, writePidFile } from "@turnpike/base";
import { loadConfig, relayerKeys } from "@turnpike/config";
import { freePort, startAnvil } from "@turnpike/localnet";
import { DEFAULT_PORTS } from "../ports.ts";
import { configText, localConfig } from "./configs.ts";
import { localKeys } from "./keys.ts";
import { localPortalSecrets } from "./portal.ts";
import { publicSuppliers } from "./public-endpoints.ts";
import { localSources } from "./search-sources.ts";
import { clearFolder, endLeftovers, lockFolder, markStarted, openFolder, type StateWish } from "./state-folder.ts";
import { type StateLayout, stateLayout } from "./state-layout.ts";
import { servedIds } from "./write-up-file.ts";

const withCode = (code: ErrorCode, text: RegExp) => (error: unknown) =>
  isAppError(error, code) && text.test(error.message);

const WISH: StateWish = { profile: undefined, supplierUrls: ["http://127.0.0.1:8549"] };

suite("state folder", () => {
  let layout: StateLayout;
  let folder = "";
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "turnpike-test-"));
    layout = stateLayout(join(folder, ".turnpike"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  test("one at a time; a lock whose holder has died does not count", async () => {
    const lock = await lockFolder(layout);
    await assert.rejects(lockFolder(layout), withCode("ALREADY_RUNNING", new RegExp(`process ${process.pid}`)));
    await lock[Symbol.asyncDispose]();
    await mkdir(layout.folder, { recursive: true });
    await writeFile(layout.lockFile, JSON.stringify({ pid: process.pid, started: "in another life" }));
    await using again = await lockFolder(layout);
    assert.ok(again);
    await assert.rejects(lockFolder(layout), withCode("ALREADY_RUNNING", /already running/));
  });

  test("a folder that was made and stayed empty goes with the lock; any other stays", async () => {
    const deep = stateLayout(join(folder, "a/b"));
    const first = await lockFolder(deep);
    await first[Symbol.asyncDispose]();
    assert.deepEqual(await readdir(folder), [], "with the folders above it that were made for it");
    await mkdir(layout.folder);
    const second = await lockFolder(layout);
    await second[Symbol.asyncDispose]();
    assert.deepEqual(await readdir(folder), [".turnpike"], "it was there before");
    const third = await lockFolder(deep);
    await writeFile(join(deep.folder, "of somebody"), "");
    await third[Symbol.asyncDispose]();
    assert.deepEqual(await readdir(deep.folder), ["of somebody"]);
  });

  test("a folder of another version, or with a part missing, is refused with the way out", async () => {
    await using _lock = await lockFolder(layout);
    const stamp = await openFolder(layout, WISH, true);
    assert.deepEqual(await openFolder(layout, WISH, true), stamp);
    await markStarted(layout, stamp);
    await assert.rejects(openFolder(layout, WISH, true), withCode("DATA_FOLDER", /anvil\.json is gone.*--fresh/s));
    await writeFile(layout.evmStateFile, "{}");
    await localKeys(layout.keysFile);
    await assert.rejects(openFolder(layout, WISH, true), withCode("DATA_FOLDER", /postgres/));
    assert.equal((await openFolder(layout, WISH, false)).id, stamp.id);
    await writeFile(layout.versionFile, '{"format":99,"id":"x"}');
    await assert.rejects(openFolder(layout, WISH, false), withCode("DATA_FOLDER", /format 99.*--fresh/s));
    await rm(layout.versionFile);
    await assert.rejects(openFolder(layout, WISH, false), withCode("DATA_FOLDER", /not made by this version/));
  });

  test("a chain keeps the profile and the suppliers' ports that it was made with", async () => {
    await using _lock = await lockFolder(layout);
    const slow = { ...WISH, profile: "slow" } as const;
    assert.equal((await openFolder(layout, slow, false)).profile, "slow");
    assert.equal((await openFolder(layout, WISH, false)).profile, "slow", "without an option: as it is");
    await assert.rejects(
      openFolder(layout, { ...WISH, profile: "fast" }, false),
      withCode("DATA_FOLDER", /profile slow, not fast.*--fresh/s),
    );
    const moved = { ...WISH, supplierUrls: ["http://127.0.0.1:1"] };
    await assert.rejects(openFolder(layout, moved, false), withCode("DATA_FOLDER", /8549.*start with those ports/s));
  });

  test("the folder is closed to other accounts, also one that was open", async () => {
    await using _lock = await lockFolder(layout);
    await chmod(layout.folder, 0o777);
    await openFolder(layout, WISH, true);
    assert.equal((await stat(layout.folder)).mode & 0o066, 0);
  });

  test("--fresh empties our folder only", async () => {
    await using _lock = await lockFolder(layout);
    const { id } = await openFolder(layout, WISH, true);
    await clearFolder(layout);
    assert.deepEqual(await readdir(layout.folder), ["up.lock"]);
    assert.notEqual((await openFolder(layout, WISH, true)).id, id);
    const foreign = stateLayout(join(folder, "documents"));
    await mkdir(foreign.folder);
    await writeFile(join(foreign.folder, "thesis.txt"), "years of work");
    await assert.rejects(clearFolder(foreign), withCode("DATA_FOLDER", /not a folder of turnpike up/));
    assert.deepEqual(await readdir(foreign.folder), ["thesis.txt"]);
  });

  test("a chain that was left running is saved and ended; a stranger with its pid is left alone", async () => {
    await using _lock = await lockFolder(layout);
    await openFolder(layout, WISH, true);
    await using anvil = await startAnvil({ accounts: 0, port: await freePort() });
    await writePidFile(layout.pidFile("anvil"), anvil.pid);
    await writeFile(layout.pidFile("gateway"), JSON.stringify({ pid: process.ppid, started: "long ago" }));
    assert.deepEqual(await endLeftovers(layout), ["anvil"]);
    await anvil.exited;
    assert.match(await readFile(layout.evmStateFile, "utf8"), /best_block_number/);
    assert.ok(isAlive(process.ppid));
    assert.deepEqual(await readdir(layout.pidFolder), []);
  });

  test("keys are made once, in a closed file; a damaged one is named", async () => {
    await mkdir(layout.folder);
    const keys = await localKeys(layout.keysFile);
    assert.deepEqual(await localKeys(layout.keysFile), keys);
    assert.equal((await stat(layout.keysFile)).mode & 0o777, 0o600);
    const all = [keys.payTo, keys.buyer, ...keys.gatewayRelayers, ...keys.facilitatorRelayers];
    assert.equal(new Set(all.map((account) => account.privateKey)).size, 5);
    await writeFile(layout.keysFile, '{"payTo":"0x12"}');
    await assert.rejects(localKeys(layout.keysFile), withCode("DATA_FOLDER", /damaged/));
  });

  test("the children's configuration is valid, and gives each its own keys", async () => {
    await mkdir(layout.folder);
    const keys = await localKeys(layout.keysFile);
    const ledgerUrl = "postgres://postgres:secret@127.0.0.1:5432/turnpike";
    const file = join(folder, "local.yaml");
    const portal = { ownerUrl: ledgerUrl, secrets: await localPortalSecrets(layout.portalFile) };
    const search = { file: layout.searchFile, sources: localSources() };
    assert.deepEqual(
      search.sources.map(({ kind }) => kind),
      ["folder", "folder", "packages"],
    );
    const inner = { metrics: 9190, grpc: 9191 };
    const chain = { home: layout.chainFolder, blockIntervalMs: 1_000, inner };
    const economy = { keysFolder: layout.chainKeysFolder, supplierFolder: layout.supplierFolder };
    const parts = { portal, search, chain, economy, suppliers: {} };
    const facts = { ports: DEFAULT_PORTS, keys, ledgerUrl, ledgerSchema: "turnpike", ...parts };
    await writeFile(file, configText(localConfig(facts)));
    const config = loadConfig({ file, env: {} });
    assert.equal(config.localnet, true);
    assert.equal(config.ledger.url, ledgerUrl);
    assert.deepEqual(
      relayerKeys(config, {}, "gateway"),
      keys.gatewayRelayers.map((account) => account.privateKey),
    );
    assert.deepEqual(
      relayerKeys(config, {}, "facilitator"),
      keys.facilitatorRelayers.map((account) => account.privateKey),
    );
    assert.match(
      config.portalDb.url ?? "",
      /^postgres:\/\/portal_authenticator:[0-9a-f]{64}@127\.0\.0\.1:5432\/turnpike$/,
    );
    assert.equal((await stat(layout.portalFile)).mode & 0o777, 0o600);
    assert.deepEqual(await localPortalSecrets(layout.portalFile), portal.secrets);
    assert.equal(config.search.local.file, layout.searchFile);
    assert.deepEqual(
      [config.chain.home, config.chain.rpc.port, config.chain.grpc.port, config.gateway.metrics.port],
      [layout.chainFolder, 26_657, 9191, 9190],
    );
    assert.deepEqual(config.suppliers, {}, "no static fallback");
    await writeFile(file, configText(localConfig({ ...facts, suppliers: await publicSuppliers() })));
    assert.ok(Object.hasOwn(loadConfig({ file, env: {} }).suppliers, "base"), "with --public");
    assert.equal(config.protocol.nodeUrl, "http://127.0.0.1:26657");
    assert.deepEqual(
      config.supplier.keys.map(({ port }) => port),
      [8549, 8550, 8551],
    );
    assert.equal(config.supplier.services.search?.backends.rest?.url, `http://127.0.0.1:${DEFAULT_PORTS.search}`);
    assert.equal(config.catalogue.overrides.eth?.evmChainId, 84532);
    assert.equal(config.payment.networks[0]?.payTo, keys.payTo.address);
  });

  test("lists what the gateway serves", () => {
    const list = [{ id: "eth", serves: true }, { id: "base", serves: false }, { id: "near" }];
    assert.deepEqual(servedIds(JSON.stringify(list)), ["eth"]);
    assert.throws(() => servedIds("{}"), withCode("INTERNAL", /not a list/));
  });
});
