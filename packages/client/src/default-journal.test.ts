import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { eventually } from "@turnpike/testkit";
import { startHostileSeller } from "@turnpike/testkit/hostile-seller";
import { BODY, countingSigner, pending, refusesWith, sold, standInGateway } from "../test/stand-in.ts";
import { createClient, newPrivateKey, type Signer, signerFromKey } from "./index.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike-default-journal-"));
after(() => rmSync(folder, { recursive: true, force: true }));

let folders = 0;
const newFolder = (): string => join(folder, `${++folders}`);

const clientOf = (gateway: string, signer: Signer, stateFolder: string, onMemoryOnly?: (reason: string) => void) =>
  createClient(
    { gateway, signer, budget: { perCallUsd: "0.01", totalUsd: "0.015" }, retryForMs: 0, stateFolder },
    onMemoryOnly === undefined ? {} : { onMemoryOnly },
  );

const filesOf = (state: string): string[] => readdirSync(state).filter((name) => name.endsWith(".jsonl"));

suite("the default journal", () => {
  test("attack: killed while a paid call waits, the next process presents the same payment, and pays once", async () => {
    const hold = Promise.withResolvers<void>();
    await using seller = await startHostileSeller({
      kind: "answer",
      paid: async ({ presentations, sell }) => {
        if (presentations === 1) await hold.promise;
        sell();
      },
    });
    const state = newFolder();
    const key = newPrivateKey();
    const script = `
      import { createClient, signerFromKey } from ${JSON.stringify(join(import.meta.dirname, "index.ts"))};
      const [gateway, key, stateFolder, body] = process.argv.slice(1);
      const client = createClient({ gateway, signer: signerFromKey(key), budget: { perCallUsd: "0.01" }, stateFolder });
      await client.call("eth", body);`;
    const argv = ["--input-type=module", "-e", script, seller.url, key, state, BODY];
    const child = spawn(process.execPath, argv, { stdio: ["ignore", "inherit", "inherit"] });
    await eventually("the payment is sent", () => seller.presentations.length === 1);
    child.kill("SIGKILL");
    await once(child, "exit");
    assert.equal(filesOf(state).length, 1);
    assert.equal(statSync(join(state, filesOf(state)[0] ?? "")).mode & 0o077, 0);
    await using client = clientOf(seller.url, signerFromKey(key), state);
    const result = await client.call("eth", BODY);
    hold.resolve();
    assert.ok(result.kind === "bought" && result.isResumed);
    assert.deepEqual([seller.signatures().length, seller.chain.chargedUnits()], [1, 5_000n]);
    await eventually("nothing is left to present", () => readdirSync(state).length === 0);
  });

  test("a file is there while a payment can be presented again, and no client that is done leaves one", async () => {
    await using gateway = await standInGateway((seen, response, paid) => {
      if (paid === 1) pending(seen, response, paid);
      else sold(seen, response, paid);
    });
    const state = newFolder();
    const signer = countingSigner();
    const first = clientOf(gateway.gateway, signer, state);
    assert.equal((await first.call("eth", BODY)).state, "open");
    assert.equal(filesOf(state).length, 1);
    await first[Symbol.asyncDispose]();
    assert.equal(filesOf(state).length, 1);
    // Never disposed.
    const second = clientOf(gateway.gateway, signer, state);
    assert.equal((await second.call("eth", BODY)).kind, "bought");
    assert.equal(signer.count(), 1);
    await eventually("the files are removed", () => readdirSync(state).length === 0);
    assert.equal(second.spending().chargedUsd, "0.005000");
  });

  test("budgets are each client's own, and count what it took over", async () => {
    await using gateway = await standInGateway((seen, response, paid) => {
      if (paid === 3) pending(seen, response, paid);
      else sold(seen, response, paid);
    });
    const state = newFolder();
    const signer = countingSigner();
    const buy = async (at: number, client: ReturnType<typeof clientOf>) => (await client.call("eth", `[${at}]`)).kind;
    const first = clientOf(gateway.gateway, signer, state);
    assert.deepEqual([await buy(1, first), await buy(2, first), await buy(3, first)], ["bought", "bought", "refused"]);
    await assert.rejects(buy(4, first), refusesWith("BUDGET_SPENT"));
    await first[Symbol.asyncDispose]();
    const second = clientOf(gateway.gateway, signer, state);
    assert.deepEqual([await buy(5, second), await buy(6, second)], ["bought", "bought"]);
    await assert.rejects(buy(7, second), refusesWith("BUDGET_SPENT"));
    assert.equal(second.openPayments().length, 1);
  });

  test("calls at once, clients at once, and other buyers do not exclude each other", async () => {
    await using gateway = await standInGateway(sold);
    const state = newFolder();
    const signers = [countingSigner(), countingSigner()];
    const calls = signers.flatMap((signer) =>
      [1, 2, 3].map((n) => clientOf(gateway.gateway, signer, state).call("eth", `[${n}]`)),
    );
    const shared = clientOf(gateway.gateway, countingSigner(), state);
    const results = await Promise.all([...calls, ...["[1]", "[2]", "[1]"].map((body) => shared.call("eth", body))]);
    assert.deepEqual(new Set(results.map(({ kind }) => kind)), new Set(["bought"]));
    assert.equal(gateway.payments().length, 9);
    await eventually("the files are removed", () => readdirSync(state).length === 0);
  });

  test("an answer that is kept until it is acknowledged is there for the next client", async () => {
    await using gateway = await standInGateway(sold);
    const state = newFolder();
    const signer = countingSigner();
    const keepUntilAcknowledged = true;
    const first = clientOf(gateway.gateway, signer, state);
    assert.equal((await first.call("eth", BODY, { keepUntilAcknowledged })).kind, "bought");
    await first[Symbol.asyncDispose]();
    const second = clientOf(gateway.gateway, signer, state);
    const result = await second.call("eth", BODY, { keepUntilAcknowledged });
    assert.ok(result.kind === "bought" && result.isResumed && result.resultId !== undefined);
    assert.equal(filesOf(state).length, 1);
    await second.acknowledge(result.resultId);
    await eventually("the file is removed", () => readdirSync(state).length === 0);
    assert.equal(signer.count(), 1);
  });

  test("where no file can be kept, the caller is informed once, and buys", async () => {
    await using gateway = await standInGateway(sold);
    const file = newFolder();
    writeFileSync(file, "");
    const reasons: string[] = [];
    await using client = clientOf(gateway.gateway, countingSigner(), join(file, "state"), (reason) =>
      reasons.push(reason),
    );
    for (const body of ["[1]", "[2]"]) assert.equal((await client.call("eth", body)).kind, "bought");
    assert.equal(reasons.length, 1);
    assert.match(reasons[0] ?? "", /ENOTDIR/);
  });

  test("attack: a damaged journal of the same buyer is named, and nothing is signed", async () => {
    await using gateway = await standInGateway(pending);
    const state = newFolder();
    const signer = countingSigner();
    const first = clientOf(gateway.gateway, signer, state);
    await first.call("eth", BODY);
    await first[Symbol.asyncDispose]();
    const file = join(state, filesOf(state)[0] ?? "");
    writeFileSync(file, readFileSync(file, "utf8").replace('"t":"signed"', '"t":"sigxed"'));
    await using second = clientOf(gateway.gateway, signer, state);
    await assert.rejects(second.call("eth", BODY), refusesWith("SPEND_JOURNAL", /damaged/));
    assert.equal(signer.count(), 1);
  });
});
