import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, suite, test } from "node:test";
import { eventually } from "@turnpike/testkit";
import {
  type HostileSeller,
  modesOf,
  SELLER_MODES,
  startChainNode,
  startHostileSeller,
} from "@turnpike/testkit/hostile-seller";
import { COMMAND_FILE, runInProcess as run } from "../../../test/run-command.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike-pay-hostile-"));
after(() => rmSync(folder, { recursive: true, force: true }));

let folders = 0;
/** A buyer's environment with a state folder of its own. */
const buyerOf = (seller: HostileSeller) => {
  const state = join(folder, `${++folders}`);
  return {
    env: { TURNPIKE_GATEWAY: seller.url, TURNPIKE_BUYER_KEY: `0x${"11".repeat(32)}`, XDG_STATE_HOME: state },
    journals: (): string[] => {
      try {
        return readdirSync(join(state, "turnpike", "pay"));
      } catch {
        return [];
      }
    },
    journalFolder: join(state, "turnpike", "pay"),
  };
};

/** A device that is full is of Linux alone. */
const FULL_DISK = { skip: !existsSync("/dev/full") };

const CALL = ["pay", "eth", '{"method":"eth_blockNumber"}'];

/** Facts of a payment in `--json`. */
interface Facts {
  readonly kind: string;
  readonly state: string;
  readonly usd: string;
  readonly payment: string;
  readonly again: string;
  readonly code?: string;
  readonly envelope?: unknown;
}

const EXITS: Readonly<Record<string, number>> = { bought: 0, open: 5 };
const USABLE = new Set([
  "honest",
  "answer-2000-levels",
  "answer-proto-keys",
  "answer-lone-surrogates",
  "answer-null",
  "answer-cut-once",
  "receipt-4000-levels",
]);

suite("turnpike pay, against a hostile seller", { concurrency: 4 }, () => {
  for (const [name, mode] of modesOf("answer", "receipt")) {
    test(`attack: ${name}: what was charged is named, with --json and without`, async () => {
      await using seller = await startHostileSeller(mode);
      const { env, journals } = buyerOf(seller);
      const json = await run([...CALL, "--json"], env);
      const facts = JSON.parse(json.out) as Facts;
      const expected = USABLE.has(name) ? "bought" : "open";
      assert.equal(json.code, EXITS[expected], json.out.slice(0, 500));
      assert.deepEqual(
        [facts.kind, facts.state, facts.usd],
        expected === "bought" ? ["bought", "charged", "0.005000"] : ["refused", "open", "0.005000"],
      );
      assert.equal(facts.payment, seller.presentations[0]?.header);
      assert.ok(json.out.indexOf('"payment"') < 8_000, "before the answer, whatever its size");
      assert.equal(seller.chain.chargedUnits(), 5_000n);
      assert.equal(seller.signatures().length, 1);
      assert.equal(
        journals().length,
        expected === "bought" ? 0 : 2,
        "a journal and its lock, until the answer is here",
      );

      if (expected === "open") {
        seller.mode = SELLER_MODES.honest ?? mode;
        const again = await run(CALL, env);
        assert.equal(again.code, 0, again.err);
        assert.match(again.out, /^present {2}0\.005000 USD; kept in /m);
        assert.match(again.out, /^charged {2}0\.005000 USD, once\nreceipt {2}transaction 0x/m);
        assert.deepEqual([seller.signatures().length, seller.chain.chargedUnits()], [1, 5_000n]);
        assert.deepEqual(journals(), []);
        return;
      }
      const shown = await run([...CALL, "--no-journal"], env);
      assert.equal(shown.code, 0, shown.err);
      assert.match(shown.out, /^charged {2}0\.005000 USD, once\nprice {4}/m);
      assert.ok(shown.out.indexOf("receipt") < shown.out.indexOf("answer   "), "the facts come first");
      assert.ok(shown.out.length < 1_000_000, "indentation does not multiply it");
    });
  }

  test("attack: an answer that cannot be read ends in words with how to go on, and exit code 5", async () => {
    await using seller = await startHostileSeller(SELLER_MODES["answer-cut-gzip"]);
    const { env } = buyerOf(seller);
    const open = await run(CALL, env);
    assert.equal(open.code, 5);
    const [error, charge, how, again] = open.err.split("\n");
    assert.match(
      error ?? "",
      /^error ANSWER_UNREADABLE: The gateway answered 200 with a receipt, and the answer cannot be/,
    );
    assert.match(
      charge ?? "",
      /^0\.005000 USD was charged once, as the receipt states\. For its answer: present the same/,
    );
    assert.match(how ?? "", /^To ask again for the same payment/);
    assert.equal(
      again,
      `npx turnpike pay eth '{"method":"eth_blockNumber"}' --gateway ${seller.url} --payment ${seller.presentations[0]?.header}`,
    );
  });

  test("the facts come first, then the answer, then the balance", async () => {
    await using seller = await startHostileSeller();
    await using node = await startChainNode(seller.chain);
    const { env } = buyerOf(seller);
    const shown = await run([...CALL, "--rpc", node.url], env);
    assert.equal(shown.code, 0, shown.err);
    const labels = shown.out.match(/^[a-z]+(?= {2})/gm);
    assert.deepEqual(labels, ["signed", "charged", "price", "receipt", "payer", "payment", "answer", "balance"]);
    assert.match(shown.out, /^balance {2}1000\.000000 USD of 0x/m);
    const json = await run([...CALL, "--rpc", node.url, "--json"], env);
    const members = Object.keys(JSON.parse(json.out) as object);
    assert.deepEqual(members.slice(-2), ["envelope", "balance"]);
  });

  test("attack: numbers beyond doubles and repeated keys are shown as they were sent, with --json and without", async () => {
    const data = '{"slot": 12345678901234567890, "lamports":9007199254740993,\n"x":1e999,"a":1,"a":2}';
    await using seller = await startHostileSeller({ kind: "answer", paid: ({ sell }) => sell(data) });
    const { env } = buyerOf(seller);
    const { out } = await run(CALL, env);
    const lines = ['"slot": 12345678901234567890', '"lamports": 9007199254740993', '"x": 1e999', '"a": 1', '"a": 2'];
    assert.ok(out.includes(`  "data": {\n    ${lines.join(",\n    ")}\n  }\n}`), out);
    const json = await run([...CALL, "--json"], env);
    assert.ok(json.out.includes(`"data":${data.replace(/\s/g, "")}}`), json.out);
    assert.equal(json.out.split("\n").length, 2, "one line");
    assert.equal((JSON.parse(json.out) as Facts).state, "charged");
  });

  /** Runs the call in a shell, which does something with its standard output. */
  const runInShell = async (env: Record<string, string>, more: string) => {
    const command = [process.execPath, COMMAND_FILE, ...CALL].map((argument) => `'${argument}'`).join(" ");
    const child = spawn("bash", ["-o", "pipefail", "-c", `${command} ${more}`], {
      env: { ...env, PATH: process.env.PATH ?? "" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const [[code], out, err] = await Promise.all([once(child, "close"), text(child.stdout), text(child.stderr)]);
    return { code: code as number, out, err };
  };

  for (const [name, more] of [
    ["a full disk", "> /dev/full"],
    ["a full disk, with --json", "--json > /dev/full"],
    ["a reader that ends early", "| head -1"],
  ] as const) {
    test(
      `attack: output that is lost to ${name} is no success: exit code 7, and the same command gets the answer`,
      FULL_DISK,
      async () => {
        await using seller = await startHostileSeller({
          kind: "answer",
          paid: ({ sell }) => sell(`"${"a".repeat(2e6)}"`),
        });
        const { env, journals } = buyerOf(seller);
        const lost = await runInShell(env, more);
        assert.equal(lost.code, 7, lost.err);
        assert.match(
          lost.err,
          /^The output could not be written \((?:ENOSPC|EPIPE)\)\. 0\.005000 USD was charged, once\./m,
        );
        assert.ok(
          lost.err.includes("\nnpx turnpike pay eth ") && lost.err.includes(seller.presentations[0]?.header ?? "?"),
        );
        assert.equal(journals().length, 2);
        const { code, out } = await run(CALL, env);
        assert.deepEqual([code, /^resumed /m.test(out), journals().length], [0, true, 0]);
        assert.deepEqual([seller.signatures().length, seller.chain.chargedUnits()], [1, 5_000n]);
      },
    );
  }

  test("attack: a refusal whose document is lost names its charge on the error output", FULL_DISK, async () => {
    await using seller = await startHostileSeller(SELLER_MODES["receipt-none"]);
    const { env } = buyerOf(seller);
    const { code, err } = await runInShell(env, "--json > /dev/full");
    assert.equal(code, 5);
    assert.match(err, /^The output could not be written \(ENOSPC\)\.$/m);
    assert.match(err, /^0\.005000 USD may have been charged, once\./m);
    assert.ok(err.includes(`--payment ${seller.presentations[0]?.header}`));
  });

  test("the default journal is the user's alone, of mode 0600, and --no-journal writes none", async () => {
    await using seller = await startHostileSeller(SELLER_MODES["receipt-none"]);
    const { env, journals, journalFolder } = buyerOf(seller);
    const first = await run(CALL, env);
    assert.equal(first.code, 5);
    assert.match(
      first.out,
      /^signed {3}0\.005000 USD; kept in .+\/turnpike\/pay\/[0-9a-f]{32}\.jsonl until its answer is here$/m,
    );
    for (const name of journals()) assert.equal(statSync(join(journalFolder, name)).mode & 0o077, 0, name);
    assert.equal(statSync(journalFolder).mode & 0o077, 0);
    const other = await run(["pay", "eth", '{"method":"eth_blockNumber","id":7}', "--no-journal"], env);
    assert.match(other.out, /^signed {3}0\.005000 USD; kept in no journal$/m);
    assert.match(other.err, / --no-journal$/m);
    assert.equal(journals().length, 2);
  });
});

/** A `pay` in a process of its own. */
function spawnPay(args: readonly string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [COMMAND_FILE, ...args], {
    cwd: folder,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = Promise.all([once(child, "close"), text(child.stdout), text(child.stderr)]).then(
    ([[code], out, err]) => ({
      code: code as number | null,
      out,
      err,
    }),
  );
  return { child, ended };
}

/** A node that reports its chain, and never answers anything else. */
async function startSlowNode() {
  const balance = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const { id, method } = JSON.parse(body) as { readonly id: unknown; readonly method: string };
      if (method === "eth_chainId") response.end(JSON.stringify({ jsonrpc: "2.0", id, result: "0x14a34" }));
      else balance.resolve();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    balanceRequest: balance.promise,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

suite("turnpike pay, ended while a paid call waits", () => {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    test(`attack: ${signal}: says how to go on, and the same call then presents the same payment`, async () => {
      await using seller = await startHostileSeller(SELLER_MODES["timing-no-answer-at-first"]);
      const { env, journals } = buyerOf(seller);
      const { child, ended } = spawnPay(CALL, env);
      await seller.whenAnswered();
      child.kill(signal);
      const { code, err } = await ended;
      assert.equal(code, 5, err);
      assert.match(err, /^0\.005000 USD may have been charged, once\./m);
      assert.ok(err.includes(`--payment ${seller.presentations[0]?.header}`), err);
      assert.equal(journals().length, 2);
      const again = await run(CALL, env);
      assert.equal(again.code, 0, again.err);
      assert.deepEqual([seller.signatures().length, seller.chain.chargedUnits()], [1, 5_000n]);
      assert.deepEqual(journals(), []);
    });
  }

  test("attack: a second signal ends with the code of an open payment, as the first does", async () => {
    await using seller = await startHostileSeller(SELLER_MODES["timing-no-answer"]);
    for (const more of [[], ["--json"]]) {
      const { env } = buyerOf(seller);
      const { child, ended } = spawnPay([...CALL, ...more], env);
      await seller.whenAnswered(more.length + 1);
      child.kill("SIGINT");
      child.kill("SIGTERM");
      const { code, out, err } = await ended;
      assert.equal(code, 5, err);
      if (more.length > 0) assert.equal((JSON.parse(out) as Facts).state, "open");
    }
  });

  test("attack: SIGKILL: the same call presents the same payment; with --json a signal leaves one document", async () => {
    await using seller = await startHostileSeller(SELLER_MODES["timing-no-answer"]);
    const { env } = buyerOf(seller);
    const { child, ended } = spawnPay(CALL, env);
    await seller.whenAnswered();
    child.kill("SIGKILL");
    assert.match((await ended).out, /^signed {3}0\.005000 USD; kept in /m);
    const json = spawnPay([...CALL, "--json"], env);
    await seller.whenAnswered(2);
    json.child.kill("SIGTERM");
    const { code, out } = await json.ended;
    assert.equal(code, 5);
    const facts = JSON.parse(out) as Facts & { readonly journal: string };
    assert.deepEqual([facts.state, facts.usd, facts.payment], ["open", "0.005000", seller.presentations[0]?.header]);
    assert.match(readFileSync(facts.journal, "utf8"), /"t":"signed"/);
    assert.ok(facts.again.includes(facts.payment));
    assert.equal(seller.signatures().length, 1);
  });

  for (const more of [[], ["--json"]]) {
    test(`attack: SIGKILL between the purchase and its output ${more.join("")}: the same call shows the answer, and pays nothing more`, async () => {
      // No pipe takes so much that is not read: the command is stopped within its output.
      const data = JSON.stringify("x".repeat(8 * 1_048_576));
      await using seller = await startHostileSeller({ kind: "answer", paid: (call) => call.sell(data) });
      const { env, journals, journalFolder } = buyerOf(seller);
      const args = [COMMAND_FILE, ...CALL, ...more];
      const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ["ignore", "pipe", "ignore"] });
      await eventually("the purchase is in the journal", () =>
        journals().some((name) => readFileSync(join(journalFolder, name), "utf8").includes('"t":"end"')),
      );
      child.kill("SIGKILL");
      await once(child, "exit");
      child.stdout.destroy();

      const again = await run(CALL, env);
      assert.equal(again.code, 0, again.err);
      assert.match(again.out, /^present {2}0\.005000 USD; kept in /m);
      assert.match(again.out, /^resumed {2}an earlier payment was presented again: .* nothing new was signed$/m);
      assert.match(again.out, /^charged {2}0\.005000 USD, once$/m);
      assert.ok(again.out.includes("xxxx"));
      assert.deepEqual([seller.signatures().length, seller.chain.chargedUnits()], [1, 5_000n]);
      assert.deepEqual(journals(), [], "it was shown");
      assert.equal((await run(CALL, env)).code, 0);
      assert.equal(seller.signatures().length, 2, "what was shown is bought anew");
    });
  }

  test("attack: the same call at once, in another process, signs nothing; another call is not kept waiting", async () => {
    await using seller = await startHostileSeller(SELLER_MODES["timing-no-answer"]);
    const { env } = buyerOf(seller);
    const { child, ended } = spawnPay(CALL, env);
    await seller.whenAnswered();
    const same = await run(CALL, env);
    assert.equal(same.code, 1);
    assert.match(
      same.err,
      /^error SPEND_JOURNAL: The same call is under way in another process, .*nothing was signed\.\nRun it again when/,
    );
    assert.equal(seller.signatures().length, 1);
    seller.mode = SELLER_MODES.honest ?? seller.mode;
    assert.equal((await run(["pay", "eth", '{"method":"eth_blockNumber","id":2}'], env)).code, 0);
    child.kill("SIGINT");
    assert.equal((await ended).code, 5);
  });

  test("attack: signals while the balance of a bought call is awaited retract nothing, and leave one document", async () => {
    await using seller = await startHostileSeller();
    for (const more of [["--json"], []]) {
      const { env, journals } = buyerOf(seller);
      await using node = await startSlowNode();
      const { child, ended } = spawnPay([...CALL, "--rpc", node.url, ...more], env);
      await node.balanceRequest;
      child.kill("SIGINT");
      child.kill("SIGTERM");
      const { code, out, err } = await ended;
      assert.equal(err, "");
      assert.doesNotMatch(out, /may have been charged|CANCELLED/);
      assert.equal(code, 0, "the call was bought");
      if (more.length === 0) assert.match(out, /^charged {2}0\.005000 USD, once$/m);
      else {
        const facts = JSON.parse(out) as Facts;
        assert.deepEqual([facts.kind, facts.state], ["bought", "charged"]);
      }
      assert.deepEqual(journals(), []);
    }
  });

  test("a signal before the signature says that nothing was signed", async () => {
    const termsRequest = Promise.withResolvers<void>();
    await using seller = await startHostileSeller({ kind: "terms", unpaid: () => termsRequest.resolve() });
    const { env, journals } = buyerOf(seller);
    const { child, ended } = spawnPay(CALL, env);
    await termsRequest.promise;
    child.kill("SIGINT");
    const { code, err } = await ended;
    assert.equal(code, 130);
    assert.equal(err, "error CANCELLED: The command was interrupted; nothing was signed.\n");
    assert.deepEqual([seller.signatures().length, journals()], [0, []]);
  });
});
